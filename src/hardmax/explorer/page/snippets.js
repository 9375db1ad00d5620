// Python code that recreates a model.

export function modelText(model) {
  const text = (value) =>
    Array.isArray(value)
      ? `[${value.map(text).join(", ")}]`
      : value === -Infinity
        ? "-np.inf"
        : String(value);
  if (model.kind === "ReluNetwork" || model.kind === "MaxoutNetwork")
    return [
      `weights = ${text(model.weights)}`,
      `biases = ${text(model.biases)}`,
      `model = hm.${model.kind}(weights, biases)`,
    ];
  const head = (one) =>
    `hm.AttentionHead(${["query_weight", "keys", "values", "output_weight"].map((name) => text(one[name])).join(", ")}` +
    `${one.query_bias ? `, query_bias=${text(one.query_bias)}` : ""}${one.logit_bias ? `, logit_bias=${text(one.logit_bias)}` : ""})`;
  if (model.kind === "AttentionHead")
    return [
      `head = ${head(model)}`,
      "model = hm.HardTransformer([hm.Block([head], attention_residual=False)])",
    ];
  if (model.kind === "HardTransformer") {
    const flag = (is) => (is === false ? "False" : "True");
    const blocks = model.blocks.map(({ heads, ffn, attention_residual, ffn_residual }) => {
      const units = ffn
        ? `hm.FeedForward(${["w_in", "b_in", "w_out", "b_out"].map((name) => text(ffn[name])).join(", ")})`
        : "None";
      return `    hm.Block([${heads.map(head).join(", ")}], ${units}, ${flag(attention_residual)}, ${flag(ffn_residual)}),`;
    });
    const maps = ["embedding", "readout"].flatMap((name) =>
      model[name] ? [`${name}=(${text(model[name].weight)}, ${text(model[name].bias)})`] : [],
    );
    return [
      "model = hm.HardTransformer([",
      ...blocks,
      `]${maps.map((map) => `, ${map}`).join("")})`,
    ];
  }
  return ['model = hm.load_model("model.safetensors")  # the file opened in the explorer'];
}
