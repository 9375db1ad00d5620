// Models as networks of argmax layers, read from plain data or model files, and random models.
//
// A map is { nIn, nOut, weight, bias }: z -> z W + b, with W = null for the identity. A layer is
// { isRelu, residual, nForms, nGroups, width, query, output }. A layer that is not ReLU also has starts,
// slots, slopes (n_forms, n_query), offsets, gains and values (n_forms, width). With `read`, group g reads
// only the entries columns[g] of the query (n numbers, -1 for none), with slopes of shape (n_forms, n).

export function identity(n) {
  return { nIn: n, nOut: n, weight: null, bias: new Float64Array(n) };
}

export function affine(rows, bias) {
  const nIn = rows.length,
    nOut = nIn > 0 ? rows[0].length : bias.length;
  return { nIn, nOut, weight: Float64Array.from(rows.flat()), bias: Float64Array.from(bias) };
}

const isIdentity = (rows, bias) =>
  rows.length === (rows[0] ?? []).length &&
  bias.every((b) => b === 0) &&
  rows.every((row, i) => row.every((x, k) => x === (i === k ? 1 : 0)));

// An identity matrix with a zero bias is stored as the identity map.
const readMap = (rows, bias) =>
  isIdentity(rows, bias) ? identity(rows.length) : affine(rows, bias);

function reluLayer(query, output, residual) {
  return {
    isRelu: true,
    residual,
    nForms: 2 * query.nOut,
    nGroups: query.nOut,
    width: 1,
    query,
    output,
  };
}

function attentionLayer(heads, residual) {
  const dim = heads[0].query_weight.length;
  const widths = heads.map((head) => head.keys[0].length),
    n = sum(widths);
  const width = Math.max(...heads.map((head) => head.values[0].length));
  const unmasked = heads.map((head) =>
    head.keys.map((_, j) => j).filter((j) => (head.logit_bias?.[j] ?? 0) > -Infinity),
  );
  const nForms = sum(unmasked.map((keys) => keys.length));
  const layer = {
    isRelu: false,
    residual,
    nForms,
    nGroups: heads.length,
    width,
    starts: [0],
    slots: heads.map((_, h) => h * width),
    slopes: new Float64Array(nForms * n),
    offsets: new Float64Array(nForms),
    gains: new Float64Array(nForms),
    values: new Float64Array(nForms * width),
  };
  const weight = Array.from({ length: dim }, (_, i) =>
    heads.flatMap((head) => head.query_weight[i]),
  );
  const bias = heads.flatMap((head, h) => head.query_bias ?? Array(widths[h]).fill(0));
  const outDim = heads[0].output_weight[0].length;
  const output = heads.flatMap((head) =>
    Array.from({ length: width }, (_, k) => head.output_weight[k] ?? Array(outDim).fill(0)),
  );
  // Each head reads its own part of the query.
  const most = Math.max(...widths);
  const read = { n: most, columns: [], slopes: new Float64Array(nForms * most) };
  let column = 0,
    form = 0;
  heads.forEach((head, h) => {
    for (let k = 0; k < most; k++) read.columns.push(k < widths[h] ? column + k : -1);
    for (const j of unmasked[h]) {
      layer.slopes.set(head.keys[j], form * n + column);
      read.slopes.set(head.keys[j], form * most);
      layer.offsets[form] = head.logit_bias?.[j] ?? 0;
      layer.values.set(head.values[j], form * width);
      form++;
    }
    layer.starts.push(form);
    column += widths[h];
  });
  return {
    ...layer,
    read,
    query: readMap(weight, bias),
    output: readMap(output, Array(outDim).fill(0)),
  };
}

function maxoutLayer(units, biases) {
  const rows = units.flat(),
    n = rows[0].length,
    nForms = rows.length;
  const starts = [0];
  for (const unit of units) starts.push(starts[starts.length - 1] + unit.length);
  return {
    isRelu: false,
    residual: false,
    nForms,
    nGroups: units.length,
    width: 1,
    query: identity(n),
    output: identity(units.length),
    starts,
    slots: units.map((_, i) => i),
    slopes: Float64Array.from(rows.flat()),
    offsets: Float64Array.from(biases.flat()),
    gains: new Float64Array(nForms).fill(1),
    values: new Float64Array(nForms),
  };
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// The network of a model given as plain data, { kind, ... } with the fields of the Python class. Throws an
// error if the sizes do not match.
export function networkOf(model) {
  const network = buildNetwork(model);
  checkNetwork(network);
  return { ...network, words: wordsOf(model, network.layers.length) };
}

// Check sizes and numbers here, because the engine trusts them.
function checkNetwork({ layers, embedding, readout }) {
  const require = (holds, what) => {
    if (!holds) throw new Error(`The model is inconsistent: ${what}.`);
  };
  const checkMap = ({ nIn, nOut, weight, bias }, name) => {
    require(nIn > 0 &&
      nOut > 0 &&
      bias.length === nOut &&
      (weight === null
        ? nIn === nOut
        : weight.length === nIn * nOut), `${name} has the wrong shape`);
    require((weight ?? bias).every(Number.isFinite) &&
      bias.every(Number.isFinite), `${name} has an entry that is not finite`);
  };
  checkMap(embedding, "the embedding");
  let width = embedding.nOut;
  layers.forEach((layer, i) => {
    const { query, output, nForms, nGroups, residual } = layer,
      name = `layer ${i}`;
    checkMap(query, `the query map of ${name}`);
    checkMap(output, `the output map of ${name}`);
    require(query.nIn === width &&
      (!residual || output.nOut === width), `${name} does not match the width of the stream`);
    width = output.nOut;
    if (layer.isRelu)
      return require(output.nIn === query.nOut, `the maps of ${name} have different numbers of units`);
    const { starts, slots, slopes, offsets, gains, values } = layer;
    require(nForms > 0 &&
      nGroups > 0 &&
      starts.length === nGroups + 1 &&
      starts[0] === 0 &&
      starts[nGroups] === nForms, `the groups of ${name} do not match its forms`);
    require(slots.every(
      (slot, g) =>
        Number.isInteger(slot) &&
        slot >= 0 &&
        slot + layer.width <= output.nIn &&
        starts[g + 1] > starts[g],
    ), `${name} has an empty group, or a slot out of range`);
    require(slopes.length === nForms * query.nOut &&
      offsets.length === nForms &&
      gains.length === nForms &&
      values.length === nForms * layer.width, `an array of ${name} has the wrong shape`);
    const { read } = layer;
    const isRead = (column) => Number.isInteger(column) && column >= -1 && column < query.nOut;
    require(!read ||
      (read.columns.length === nGroups * read.n &&
        read.slopes.length === nForms * read.n &&
        read.columns.every(isRead)), `${name} reads entries that the query does not have`);
    for (const array of [slopes, offsets, gains, values])
      require(array.every(Number.isFinite), `${name} has an entry that is not finite`);
  });
  checkMap(readout, "the readout");
  require(readout.nIn === width, "the readout does not match the width of the stream");
}

function buildNetwork(model) {
  if (model.kind === "ReluNetwork") {
    const { weights, biases } = model,
      layers = [];
    for (let l = 0; l + 1 < weights.length; l++)
      layers.push(reluLayer(readMap(weights[l], biases[l]), identity(biases[l].length), false));
    const last = weights.length - 1;
    return {
      layers,
      embedding: identity(weights[0].length),
      readout: readMap(weights[last], biases[last]),
    };
  }
  if (model.kind === "MaxoutNetwork") {
    const { weights, biases } = model,
      last = weights.length - 1;
    const layers = weights.slice(0, -1).map((units, l) => maxoutLayer(units, biases[l]));
    const dim = layers.length > 0 ? layers[0].query.nIn : weights[last].length;
    return { layers, embedding: identity(dim), readout: readMap(weights[last], biases[last]) };
  }
  if (model.kind === "AttentionHead")
    return buildNetwork({
      kind: "HardTransformer",
      blocks: [{ heads: [model], attention_residual: false }],
    });
  if (model.kind === "HardTransformer") {
    const layers = [];
    for (const block of model.blocks) {
      if (block.heads.length > 0)
        layers.push(attentionLayer(block.heads, block.attention_residual ?? true));
      const { ffn } = block;
      if (ffn)
        layers.push(
          reluLayer(
            readMap(ffn.w_in, ffn.b_in),
            readMap(ffn.w_out, ffn.b_out),
            block.ffn_residual ?? true,
          ),
        );
    }
    const dim = layers[0].query.nIn,
      out = layers[layers.length - 1].output.nOut;
    return {
      layers,
      embedding: model.embedding
        ? readMap(model.embedding.weight, model.embedding.bias)
        : identity(dim),
      readout: model.readout ? readMap(model.readout.weight, model.readout.bias) : identity(out),
    };
  }
  if (model.kind === "ArgmaxNetwork") return argmaxNetwork(model);
  throw new Error(`The explorer cannot show a model of kind ${model.kind}.`);
}

function argmaxNetwork(model) {
  const map = ({ weight, bias }) =>
    weight === null ? identity(bias.length) : readMap(weight, bias);
  const layers = model.layers.map((given) => {
    const query = map(given.query),
      output = map(given.output),
      n = query.nOut;
    const nForms = given.offsets.length,
      nGroups = given.slots.length,
      width = given.values[0].length;
    const slopes = new Float64Array(nForms * n);
    for (let g = 0; g < nGroups; g++)
      for (let j = given.starts[g]; j < given.starts[g + 1]; j++)
        given.slopes[j].forEach((x, k) => {
          const column = given.reads ? given.reads[g][k] : k;
          if (column >= 0) slopes[j * n + column] = x;
        });
    const layer = {
      isRelu: false,
      residual: given.residual,
      nForms,
      nGroups,
      width,
      query,
      output,
      starts: given.starts,
      slots: given.slots,
      read: given.reads
        ? {
            n: given.reads[0].length,
            columns: given.reads.flat(),
            slopes: Float64Array.from(given.slopes.flat()),
          }
        : null,
      slopes,
      offsets: Float64Array.from(given.offsets),
      gains: Float64Array.from(given.gains),
      values: Float64Array.from(given.values.flat()),
    };
    return isReluLayer(layer) ? reluLayer(query, output, given.residual) : layer;
  });
  return { layers, embedding: map(model.embedding), readout: map(model.readout) };
}

// Whether every group i is the ReLU of entry i of the query and contributes to column i.
function isReluLayer({
  nForms,
  nGroups,
  width,
  query,
  output,
  starts,
  slots,
  slopes,
  offsets,
  gains,
  values,
}) {
  const n = query.nOut;
  if (nForms !== 2 * n || nGroups !== n || width !== 1 || output.nIn !== n) return false;
  if (offsets.some((x) => x !== 0) || values.some((x) => x !== 0)) return false;
  for (let i = 0; i < n; i++) {
    if (starts[i] !== 2 * i || slots[i] !== i || gains[2 * i] !== 0 || gains[2 * i + 1] !== 1)
      return false;
    for (let k = 0; k < n; k++)
      if (slopes[2 * i * n + k] !== 0 || slopes[(2 * i + 1) * n + k] !== (i === k ? 1 : 0))
        return false;
  }
  return true;
}

// A layer as it is stored in files: arrays { shape, numbers }. A unit is a group of two forms: 0 and its
// entry of the query.
export function layerToArrays(layer) {
  const { query, output, residual, nForms, nGroups, width } = layer;
  const array = (numbers, ...shape) => ({ shape, numbers });
  const range = (n, entry) => Array.from({ length: n }, (_, i) => entry(i));
  if (layer.isRelu)
    return {
      query,
      output,
      residual,
      slopes: array(
        range(nForms, (j) => j % 2),
        nForms,
        1,
      ),
      offsets: array(new Float64Array(nForms), nForms),
      starts: array(
        range(nGroups + 1, (g) => 2 * g),
        nGroups + 1,
      ),
      slots: array(
        range(nGroups, (g) => g),
        nGroups,
      ),
      gains: array(
        range(nForms, (j) => j % 2),
        nForms,
      ),
      values: array(new Float64Array(nForms), nForms, 1),
      reads: array(
        range(nGroups, (g) => g),
        nGroups,
        1,
      ),
    };
  const { read, starts, slots, offsets, gains, values } = layer;
  return {
    query,
    output,
    residual,
    slopes: array(read ? read.slopes : layer.slopes, nForms, read ? read.n : query.nOut),
    offsets: array(offsets, nForms),
    starts: array(starts, nGroups + 1),
    slots: array(slots, nGroups),
    gains: array(gains, nForms),
    values: array(values, nForms, width),
    reads: read ? array(read.columns, nGroups, read.n) : null,
  };
}

// The first layers of a network, without the layers after them and the readout.
export function truncate(network, nLayers) {
  if (nLayers >= network.layers.length) return network;
  const layers = network.layers.slice(0, nLayers);
  const width = nLayers > 0 ? layers[nLayers - 1].output.nOut : network.embedding.nOut;
  const words = network.words.slice(0, nLayers);
  return { layers, words, embedding: network.embedding, readout: identity(width) };
}

// --- Words ---------------------------------------------------------------------------------------

// The words for each layer, its groups and their forms: [place, group, form], such as ["block 0", "head",
// "key"], like `LayerWords` in the library. Numbers start at 0.
function wordsOf(model, nLayers) {
  if (model.kind === "HardTransformer")
    return model.blocks.flatMap(({ heads, ffn }, i) => [
      ...(heads.length > 0 ? [[`block ${i}`, "head", "key"]] : []),
      ...(ffn ? [[`block ${i}`, "unit", "form"]] : []),
    ]);
  if (model.kind === "AttentionHead") return [["block 0", "head", "key"]];
  const isGiven =
    Array.isArray(model.words) &&
    model.words.length === nLayers &&
    model.words.every((words) => words.length === 3 && words.every((word) => word === `${word}`));
  if (isGiven) return model.words;
  const group = model.kind === "ArgmaxNetwork" ? "group" : "unit";
  return Array.from({ length: nLayers }, (_, i) => [`layer ${i}`, group, "form"]);
}

// The title of a layer.
export const titleOf = ([place, group]) => `${place}, ${group}s`;

// The name of a group of a layer.
export const nameOf = ([place, group], number) => `${place}, ${group} ${number}`;

// The name of a wall, between two forms of a group or of the domain. It includes the forms if the group
// is not a ReLU unit.
export function nameWall(network, layer, group, winner, rival) {
  if (layer < 0) return group < 0 ? "infinity" : `domain, row ${group}`;
  const words = network.words[layer],
    [one, other] = [winner, rival].map((form) => `${words[2]} ${form}`);
  const name = nameOf(words, group);
  return network.layers[layer].isRelu ? name : `${name}, ${one} | ${other}`;
}

// --- Files ---------------------------------------------------------------------------------------

const INDICES = new Set(["starts", "slots", "reads"]);

// The header of a safetensors file, and its tensors by name: { shape, numbers }.
export function readHeader(
  buffer,
  refuse = (why) => new Error(`This file cannot be read: ${why}.`),
) {
  if (buffer.byteLength < 8) throw refuse("it has fewer than 8 bytes");
  const view = new DataView(buffer),
    length = Number(view.getBigUint64(0, true));
  if (!(length <= buffer.byteLength - 8)) throw refuse("its header is truncated");
  let header;
  try {
    header = JSON.parse(
      new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, length)),
    );
  } catch {
    throw refuse("its header is not JSON");
  }
  const tensor = (name) => {
    const entry = header[name];
    if (!entry) throw refuse(`the tensor ${name} is missing`);
    const kind = KINDS[entry.dtype];
    if (!kind) throw refuse(`the tensor ${name} has the type ${entry.dtype}`);
    const [begin, end] = entry.data_offsets,
      { shape } = entry;
    const n = shape.reduce((a, b) => a * b, 1);
    const isRight = end - begin === kind.BYTES_PER_ELEMENT * n && begin >= 0;
    if (!isRight || 8 + length + end > buffer.byteLength)
      throw refuse(`the tensor ${name} is truncated`);
    return { shape, numbers: new kind(buffer.slice(8 + length + begin, 8 + length + end)) };
  };
  return { header, tensor };
}

const KINDS = { F64: Float64Array, F32: Float32Array, I64: BigInt64Array };

export const isJson = (buffer) => new Uint8Array(buffer)[0] === "{".charCodeAt(0);

// Read a model and its domain from JSON that the page saved.
export function readSaved(buffer) {
  const { model, domain } = JSON.parse(new TextDecoder().decode(buffer));
  if (!model?.kind) throw new Error("This is not a model file of hardmax: it has no `model`.");
  return { model, domain };
}

// Read a model file: safetensors with the metadata of hardmax. Only the structure is checked here.
export function readModelFile(buffer) {
  const refuse = (why) => new Error(`This is not a model file of hardmax: ${why}.`);
  const { header, tensor: stored } = readHeader(buffer, refuse);
  let fields;
  try {
    fields = JSON.parse(header.__metadata__.hardmax);
  } catch {
    throw refuse("its metadata has no entry `hardmax`");
  }
  if (!/^hardmax\.model\/[12]$/.test(fields.format)) throw refuse(`its format is ${fields.format}`);
  const tensor = (name) => {
    const isIndex = INDICES.has(name.split(".").pop()),
      { shape, numbers } = stored(name);
    if (header[name].dtype !== (isIndex ? "I64" : "F64"))
      throw refuse(`the tensor ${name} has the type ${header[name].dtype}`);
    const flat = Array.from(numbers, isIndex ? Number : undefined);
    if (!isIndex && !name.endsWith("logit_bias") && !flat.every(Number.isFinite))
      throw refuse(`the tensor ${name} has an entry that is not finite`);
    if (shape.length < 2) return flat;
    return Array.from({ length: shape[0] }, (_, i) => flat.slice(i * shape[1], (i + 1) * shape[1]));
  };
  const model = { kind: fields.kind };
  const range = (n, read) => Array.from({ length: n }, (_, i) => read(i));
  const head = (prefix, options) => ({
    ...Object.fromEntries(
      ["query_weight", "keys", "values", "output_weight"].map((name) => [
        name,
        tensor(prefix + name),
      ]),
    ),
    ...(options.query_bias ? { query_bias: tensor(`${prefix}query_bias`) } : {}),
    ...(options.logit_bias ? { logit_bias: tensor(`${prefix}logit_bias`) } : {}),
  });
  const map = (prefix) => ({ weight: tensor(`${prefix}weight`), bias: tensor(`${prefix}bias`) });
  if (fields.kind === "ReluNetwork") {
    model.weights = range(fields.n_layers, (i) => tensor(`weights.${i}`));
    model.biases = range(fields.n_layers, (i) => tensor(`biases.${i}`));
  } else if (fields.kind === "MaxoutNetwork") {
    model.weights = fields.widths.map((n, i) => range(n, (j) => tensor(`weights.${i}.${j}`)));
    model.biases = fields.widths.map((n, i) => range(n, (j) => tensor(`biases.${i}.${j}`)));
    model.weights.push(tensor("weights.last"));
    model.biases.push(tensor("biases.last"));
  } else if (fields.kind === "AttentionHead") {
    Object.assign(model, head("", fields));
  } else if (fields.kind === "HardTransformer") {
    model.blocks = fields.blocks.map((block, i) => ({
      heads: block.heads.map((options, j) => head(`blocks.${i}.heads.${j}.`, options)),
      ffn: block.ffn
        ? Object.fromEntries(
            ["w_in", "b_in", "w_out", "b_out"].map((name) => [
              name,
              tensor(`blocks.${i}.ffn.${name}`),
            ]),
          )
        : null,
      attention_residual: block.attention_residual,
      ffn_residual: block.ffn_residual,
    }));
    Object.assign(model, { embedding: map("embedding."), readout: map("readout.") });
  } else if (fields.kind === "ArgmaxNetwork") {
    const any = (prefix) =>
      fields.identities.includes(prefix)
        ? { weight: null, bias: tensor(`${prefix}bias`) }
        : map(prefix);
    model.layers = fields.residuals.map((residual, i) => ({
      residual,
      query: any(`layers.${i}.query.`),
      output: any(`layers.${i}.output.`),
      ...Object.fromEntries(
        ["slopes", "offsets", "starts", "slots", "gains", "values"].map((name) => [
          name,
          tensor(`layers.${i}.${name}`),
        ]),
      ),
      ...(header[`layers.${i}.reads`] ? { reads: tensor(`layers.${i}.reads`) } : {}),
    }));
    Object.assign(model, { embedding: any("embedding."), readout: any("readout.") });
  } else {
    throw refuse(`its kind is ${fields.kind}`);
  }
  return model;
}

// --- Random models -------------------------------------------------------------------------------

// Random numbers from a seed, identical on all machines: uniform ones, and roughly normal ones that are
// multiples of 1/256.
export function randomNumbers(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = (size = 1) => {
    let total = -6;
    for (let i = 0; i < 12; i++) total += uniform();
    return Math.round(256 * size * total) / 256;
  };
  const matrix = (n, m, size) =>
    Array.from({ length: n }, () => Array.from({ length: m }, () => normal(size)));
  return { uniform, normal, matrix };
}

export function randomTransformer({ seed, blocks, heads, keys, units }) {
  const { matrix } = randomNumbers(seed);
  const eye = [
    [1, 0],
    [0, 1],
  ];
  return {
    kind: "HardTransformer",
    blocks: Array.from({ length: blocks }, () => ({
      heads: Array.from({ length: heads }, () => ({
        query_weight: eye,
        keys: matrix(keys, 2, 1),
        values: matrix(keys, 2, 0.7),
        output_weight: eye,
        query_bias: matrix(1, 2, 0.5)[0],
        logit_bias: matrix(1, keys, 0.7)[0],
      })),
      ffn:
        units > 0
          ? {
              w_in: matrix(2, units, 1),
              b_in: matrix(1, units, 0.8)[0],
              w_out: matrix(units, 2, 0.5),
              b_out: [0, 0],
            }
          : null,
      attention_residual: true,
      ffn_residual: true,
    })),
  };
}

export function randomRelu({ seed, depth, width }) {
  const { matrix } = randomNumbers(seed);
  const widths = [2, ...Array(depth).fill(width), 1];
  return {
    kind: "ReluNetwork",
    weights: widths
      .slice(1)
      .map((n, l) => matrix(widths[l], n, l === 0 ? 1 : Math.sqrt(2 / widths[l]))),
    biases: widths.slice(1).map((n, l) => matrix(1, n, l === 0 ? 0.7 : 0.3)[0]),
  };
}
