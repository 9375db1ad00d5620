// View 3, regions: the exact partition of a network or transformer on a plane.
import { CellsView } from "./cells.js";
import { css, strongColour } from "./colours.js";
import { button, choice, element, numbers, pointerSection, section, slider } from "./controls.js";
import { curveNetwork, knotsOf } from "./curves.js";
import {
  isJson,
  networkOf,
  randomRelu,
  randomTransformer,
  readModelFile,
  readSaved,
} from "./models.js";
import { onScreen } from "./surface.js";
import { WeightPanel } from "./weights.js";

export const firstRegions = () => ({
  source: { kind: "transformer", seed: 3, blocks: 3, heads: 2, keys: 5, units: 5 },
  model: null,
  name: "",
  depth: 99,
  plane: false,
  size: 4,
  colour: "cell",
  window: { x: 0, y: 0, half: 4.2 },
});

const FIRST_KNOTS = [
  [-3.5, -1],
  [-2, 1.5],
  [-0.75, -0.5],
  [0.5, 2],
  [1.5, 0.5],
  [3, 1.75],
];
const LIMITS = {
  blocks: [1, 5],
  heads: [1, 4],
  keys: [2, 12],
  units: [0, 12],
  depth: [1, 8],
  width: [1, 32],
  level: [1, 4],
};

export class RegionsView extends CellsView {
  constructor(app, stage, panel) {
    super(app, stage);
    this.makePanel(panel);
    this.refresh();
  }

  get given() {
    return this.app.state.regions;
  }

  // The model shown, as plain data.
  get model() {
    const { model, source } = this.given;
    if (model) return model;
    // Cached until the source changes.
    const key = JSON.stringify(source);
    if (this.made?.key !== key) this.made = { key, model: this.modelOf(source) };
    return this.made.model;
  }

  modelOf(source) {
    if (source.kind === "relu") return randomRelu(source);
    if (source.kind === "drawn") return curveNetwork(source.knots);
    if (source.kind === "shattering") return this.app.presets[`shattering ${source.level}`];
    return randomTransformer(source);
  }

  get domain() {
    const { plane, size, domain, model } = this.given;
    if (model && domain) return domain;
    if (this.isUnit) return { box: [0, 0, 1, 1] };
    return plane ? { plane: true } : { box: [-size, -size, size, size] };
  }

  // Whether the model is made for the unit square.
  get isUnit() {
    return this.given.source.kind === "shattering" && !this.given.model;
  }

  makePanel(panel) {
    this.counts = numbers({
      cells: "signatures whose set has nonempty interior",
      regions: "cells with the same affine map, joined through common walls",
      maps: "distinct affine maps",
    });
    this.kind = choice({
      label: "model",
      value: this.given.source.kind,
      options: {
        transformer: "transformer",
        relu: { text: "ReLU", hint: "a network of ReLU units" },
        shattering: {
          text: "shattering",
          hint: "a transformer in which every block multiplies the number of regions",
        },
        drawn: { text: "drawn", hint: "a network compiled from a curve that you draw" },
        file: { text: "file", hint: "open a model file, or drop it anywhere on the page" },
      },
      onchange: (kind) => this.choose(kind),
    });
    this.sizes = element("div", {});
    this.depth = slider({
      label: "layers",
      min: 0,
      max: 1,
      value: 1,
      text: (n) => `${n} of ${this.network?.layers.length ?? n}`,
      oninput: (n) => this.change(() => (this.given.depth = n), false),
      onchange: () => this.app.commit(),
    });
    this.domainChoice = choice({
      label: "domain",
      value: "box",
      options: { box: "box", plane: "whole plane" },
      onchange: (kind) => this.change(() => (this.given.plane = kind === "plane")),
    });
    this.colour = choice({
      label: "colours",
      value: "cell",
      options: { cell: "cells", region: "regions", map: "maps" },
      onchange: (kind) => this.change(() => (this.given.colour = kind)),
    });
    this.weights = new WeightPanel(
      (place, value) => this.setWeight(place, value),
      () => this.app.commit(),
    );
    this.file = element("input", {
      type: "file",
      accept: ".safetensors,.json",
      hidden: true,
      onchange: () => this.file.files[0] && this.open(this.file.files[0]),
    });
    panel.append(
      this.counts,
      this.status,
      this.alarm,
      this.stopButton,
      section("Model", this.kind, this.sizes, this.file),
      section(
        "Depth",
        this.depth,
        element(
          "p",
          { class: "hint" },
          "A cell keeps its colour until a layer cuts it. The parts are shades of that colour.",
        ),
      ),
      section("Domain and colours", this.domainChoice, this.colour),
      pointerSection(this.info),
      this.proofSection,
      this.weights.section,
    );
  }

  showWeights() {
    this.weights.show(this.given.source.kind === "drawn" ? {} : this.model);
  }

  setWeight(place, value) {
    this.makeOwn();
    const [list, i] = place(this.given.model);
    list[i] = value;
    this.network = networkOf(this.given.model);
    this.ask();
  }

  // Copy the model into the state, so that it can be changed.
  makeOwn() {
    if (this.given.model) return;
    if (this.isUnit) this.given.domain = this.domain;
    this.given.model = structuredClone(this.model);
    this.makeSizes();
  }

  makeSizes() {
    const { source, model, name } = this.given,
      rows = [];
    const names =
      {
        transformer: ["blocks", "heads", "keys", "units"],
        relu: ["depth", "width"],
        shattering: ["level"],
      }[source.kind] ?? [];
    if (model) rows.push(element("p", { class: "hint" }, name || "edited by hand"));
    for (const key of names) {
      const label = key === "level" ? "blocks" : key;
      rows.push(
        slider({
          label,
          min: LIMITS[key][0],
          max: LIMITS[key][1],
          value: source[key],
          oninput: (n) => this.change(() => this.renew({ [key]: n }), false),
          onchange: () => this.app.commit(),
        }),
      );
    }
    if (source.kind === "transformer" || source.kind === "relu")
      rows.push(
        element(
          "div",
          { class: "row" },
          button("new model", () =>
            this.change(() => this.renew({ seed: Math.floor(1e6 * Math.random()) })),
          ),
        ),
      );
    if (source.kind === "drawn")
      rows.push(
        element(
          "p",
          { class: "hint" },
          "Draw a curve from one side to the other. It is compiled to a network that is zero below the curve. You can drag its knots.",
        ),
      );
    if (source.kind === "file")
      rows.push(
        element(
          "div",
          { class: "row" },
          button("open a model file", () => this.file.click()),
        ),
      );
    this.sizes.replaceChildren(...rows);
  }

  renew(changes) {
    const { given } = this;
    const wasDeepest = given.depth >= (this.network?.layers.length ?? 0);
    Object.assign(given.source, changes);
    Object.assign(given, { model: null, domain: null });
    if (wasDeepest) given.depth = 99;
  }

  choose(kind) {
    if (kind === "file") this.file.click();
    const sources = {
      transformer: { ...firstRegions().source },
      relu: { kind, seed: 1, depth: 3, width: 10 },
      shattering: { kind, level: 2 },
      drawn: { kind, knots: FIRST_KNOTS },
      file: { kind },
    };
    if (kind === "file" && !this.given.model) return this.refresh();
    const isUnit = kind === "shattering";
    this.change(() => {
      Object.assign(this.given, {
        source: sources[kind],
        depth: 99,
        window: isUnit
          ? { x: 0.5, y: 0.5, half: 0.54 }
          : { x: 0, y: 0, half: 1.05 * this.given.size },
      });
      if (kind !== "file") Object.assign(this.given, { model: null, domain: null });
    });
    this.refresh();
  }

  // Open a file that was dropped on the page or chosen.
  async open(file) {
    try {
      const buffer = await file.arrayBuffer();
      const { model, domain: saved } = isJson(buffer)
        ? readSaved(buffer)
        : { model: readModelFile(buffer) };
      const network = networkOf(model);
      const { size } = this.given,
        n = network.embedding.nIn;
      if (n < 2)
        throw new Error("The explorer shows planes, but this model has only one input coordinate.");
      // With more than two inputs, show the plane of the first two and set the others to 0.
      const weight = [0, 1].map((i) => Array.from({ length: n }, (_, k) => (i === k ? 1 : 0)));
      const isCut = n > 2 && !saved;
      const domain = isCut
        ? { box: [-size, -size, size, size], chart: { weight, bias: Array(n).fill(0) } }
        : (saved ?? null);
      const name = isCut ? `${file.name}: inputs 0 and 1, the others 0` : file.name;
      this.change(() =>
        Object.assign(this.given, { source: { kind: "file" }, model, name, domain, depth: 99 }),
      );
      this.refresh();
    } catch (error) {
      this.warn(error.message);
    }
  }

  refresh() {
    const { given } = this;
    try {
      this.network = networkOf(this.model);
    } catch {
      // A link may contain an invalid model.
      Object.assign(given, firstRegions());
      this.network = networkOf(this.model);
    }
    const n = this.network.layers.length;
    given.depth = Math.min(given.depth, n);
    this.kind.set(given.source.kind);
    this.depth.querySelector("input").max = String(n);
    this.depth.set(given.depth);
    this.domainChoice.hidden = this.isUnit || Boolean(given.model && given.domain);
    this.domainChoice.set(given.plane ? "plane" : "box");
    this.colour.set(given.colour);
    this.makeSizes();
    this.showWeights();
    this.surface.look(given.window);
    this.ask();
  }

  change(act, isDone = true) {
    act();
    this.network = networkOf(this.model);
    const n = this.network.layers.length;
    this.given.depth = Math.min(this.given.depth, n);
    this.depth.querySelector("input").max = String(n);
    this.depth.set(this.given.depth);
    this.showWeights();
    this.ask();
    if (isDone) this.app.commit();
  }

  // --- Handles: keys of the first block, lines of the first units -----------------------------------

  get handles() {
    const { model } = this,
      { source } = this.given;
    if (source.kind === "drawn" && !this.given.model)
      return source.knots.map(([x, y], j) => ({ x, y, j }));
    if (this.network.embedding.nIn !== 2) return [];
    if (
      model.kind === "HardTransformer" &&
      model.blocks[0].heads.length > 0 &&
      this.network.embedding.weight === null &&
      !this.isUnit
    )
      return model.blocks[0].heads.flatMap(({ keys }, h) =>
        keys[0].length === 2 ? keys.map(([x, y], j) => ({ x, y, h, j })) : [],
      );
    if (model.kind === "ReluNetwork") {
      const [[a, b], bias] = [model.weights[0], model.biases[0]];
      return bias
        .map((c, j) => {
          const size = a[j] * a[j] + b[j] * b[j];
          return size > 0 ? { x: (-c * a[j]) / size, y: (-c * b[j]) / size, j } : null;
        })
        .filter(Boolean);
    }
    return [];
  }

  grab([x, y], tolerance) {
    let best = null,
      least = tolerance;
    for (const handle of this.handles) {
      const distance = Math.hypot(handle.x - x, handle.y - y);
      if (distance <= least) ((best = handle), (least = distance));
    }
    if (this.given.source.kind === "drawn" && !this.given.model)
      return best ? this.moveKnot(best.j) : this.draw();
    if (!best) return null;
    this.makeOwn();
    const { model } = this.given,
      step = 2 ** Math.ceil(Math.log2(this.surface.half / 400));
    const near = (z) => Math.round(z / step) * step;
    let isMoved = false;
    return {
      move: ([u, v]) => {
        isMoved = true;
        if (model.kind === "ReluNetwork") {
          const [a, b] = model.weights[0];
          model.biases[0][best.j] = near(-(a[best.j] * u + b[best.j] * v));
        } else model.blocks[0].heads[best.h].keys[best.j] = [near(u), near(v)];
        this.network = networkOf(model);
        this.ask();
      },
      end: () => {
        this.showWeights();
        if (isMoved) this.app.commit();
      },
    };
  }

  moveKnot(j) {
    const { knots } = this.given.source,
      near = (z) => Math.round(256 * z) / 256;
    return {
      move: ([x, y]) => {
        const low = j > 0 ? knots[j - 1][0] + 1 / 64 : -Infinity,
          high = j + 1 < knots.length ? knots[j + 1][0] - 1 / 64 : Infinity;
        knots[j] = [near(Math.min(high, Math.max(low, x))), near(y)];
        this.network = networkOf(this.model);
        this.ask();
      },
      end: () => this.app.commit(),
    };
  }

  draw() {
    const drawn = [];
    return {
      move: (point) => {
        drawn.push(point);
        this.drawn = drawn;
      },
      end: () => {
        this.drawn = null;
        const knots = drawn.length > 2 ? knotsOf(drawn, this.surface.half) : [];
        if (knots.length > 1) this.change(() => (this.given.source = { kind: "drawn", knots }));
      },
    };
  }

  paintOver(pen, surface) {
    this.paintHandles(pen, surface);
    if (this.drawn)
      pen.line(onScreen(surface, this.drawn.flat()), { stroke: this.app.ink, width: 3 });
  }

  paintHandles(pen, surface) {
    const { handles } = this;
    for (const { x, y, h = 0 } of handles) {
      const [px, py] = surface.toScreen(x, y);
      pen.circle(px, py, handles.length > 12 ? 3.8 : 5, {
        fill: this.app.paper,
        stroke: css(strongColour(h, this.app.isDark)),
        width: 2,
      });
    }
  }
}
