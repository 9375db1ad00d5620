// A slider for one weight of a model, selected by the name of its array, its row and its column.
import { element, formatFixed, section, slider } from "./controls.js";

// The weight arrays of a model by name; each is a list of rows or of numbers.
function weightArrays(model) {
  const named = {};
  const add = (prefix, owner, names) =>
    names.forEach((name) => owner[name] && (named[`${prefix}${name}`] = owner[name]));
  model.weights?.forEach(
    (weight, l) =>
      model.kind === "ReluNetwork" &&
      Object.assign(named, { [`weights ${l}`]: weight, [`biases ${l}`]: model.biases[l] }),
  );
  model.blocks?.forEach(({ heads, ffn }, i) => {
    heads.forEach((head, j) =>
      add(`block ${i}, head ${j}: `, head, [
        "keys",
        "logit_bias",
        "values",
        "query_weight",
        "query_bias",
        "output_weight",
      ]),
    );
    if (ffn) add(`block ${i}, units: `, ffn, ["w_in", "b_in", "w_out", "b_out"]);
  });
  return named;
}

export class WeightPanel {
  // `change(place, value)` sets a weight: `place(model)` returns the list with the weight, and the index.
  constructor(change, commit) {
    const input = (label) =>
      element("input", {
        type: "number",
        min: "0",
        step: "1",
        value: "0",
        "aria-label": label,
        onchange: () => this.show(this.model),
      });
    this.array = element("select", {
      "aria-label": "array of weights",
      onchange: () => this.show(this.model),
    });
    this.row = input("row");
    this.column = input("column");
    this.slider = slider({
      label: "value",
      min: -4,
      max: 4,
      step: 1 / 64,
      value: 0,
      text: formatFixed,
      oninput: (value) => change((model) => this.place(model), value),
      onchange: commit,
    });
    const places = element(
      "div",
      { class: "editor" },
      element("label", {}, "row", this.row),
      element("label", {}, "column", this.column),
    );
    this.section = section("A weight", this.array, places, this.slider);
  }

  place(model) {
    const rows = weightArrays(model)[this.array.value];
    const within = (input, n) => {
      const index = Math.min(Math.max(Math.floor(Number(input.value)) || 0, 0), n - 1);
      input.value = String(index);
      return index;
    };
    const i = within(this.row, rows.length);
    this.column.disabled = !Array.isArray(rows[i]);
    return Array.isArray(rows[i]) ? [rows[i], within(this.column, rows[i].length)] : [rows, i];
  }

  // Show the weights of a model, if it has named arrays.
  show(model) {
    this.model = model;
    const names = Object.keys(weightArrays(model)),
      before = this.array.value;
    this.section.hidden = names.length === 0;
    if (names.length === 0) return;
    this.array.replaceChildren(...names.map((name) => element("option", {}, name)));
    this.array.value = names.includes(before) ? before : names[0];
    const [list, i] = this.place(model);
    this.slider.set(list[i]);
  }
}
