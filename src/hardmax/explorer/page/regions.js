// View 3, regions: the exact partition of a network or transformer on a plane.
import { cellColours, css, strongColour, wallColour } from "./colours.js";
import { button, choice, element, fixed, grouped, numbers, section, slider } from "./controls.js";
import { wallOf } from "./counting.js";
import { curveNetwork, knotsOf } from "./curves.js";
import { outputForms, readDomain, signatureOf } from "./engine.js";
import { divided, startOf, unitOf } from "./exact.js";
import {
  layerNames,
  networkOf,
  randomRelu,
  randomTransformer,
  readModelFile,
  truncated,
} from "./models.js";
import { CanvasPen } from "./pens.js";
import { modelText } from "./snippets.js";
import {
  Surface,
  contains,
  cornerOf,
  cornersOf,
  cutToWindow,
  onScreen,
  segmentInWindow,
} from "./surface.js";
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
const MANY = 6000;
const PATIENCE = 300;
const SLOW = 1500;
const MOST_COUNTED = 400000;
const LIMITS = {
  blocks: [1, 5],
  heads: [1, 4],
  keys: [2, 12],
  units: [0, 12],
  depth: [1, 8],
  width: [1, 32],
  level: [1, 4],
};

export class RegionsView {
  constructor(app, stage, panel) {
    Object.assign(this, {
      app,
      stage,
      cells: null,
      hovered: -1,
      asked: 0,
      waiting: null,
      question: null,
      latency: 0,
    });
    this.picture = { canvas: document.createElement("canvas") };
    this.surface = new Surface(stage, {
      paint: (pen, surface) => this.paint(pen, surface),
      grab: (point, tolerance) => this.grab(point, tolerance),
      hover: (point) => this.hover(point),
      tap: (point) => this.hover(point),
      doubleTap: (point) => this.zoomInto(point),
      moved: () => this.keepWindow(),
    });
    this.makePanel(panel);
    this.refresh();
  }

  get given() {
    return this.app.state.regions;
  }

  // The model that is shown, as plain data.
  get model() {
    const { model, source } = this.given;
    if (model) return model;
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
      cells: "signatures with interior",
      regions: "connected pieces with one affine map",
      maps: "different affine maps",
    });
    this.status = element("p", { class: "hint status" }, "");
    this.alarm = element("p", { class: "hint alarm", role: "alert", hidden: true });
    this.stopButton = button("stop", () => this.cancel(), { title: "give this search up" });
    this.stopButton.hidden = true;
    this.kind = choice({
      label: "model",
      value: this.given.source.kind,
      options: {
        transformer: "transformer",
        relu: { text: "ReLU", hint: "a network of ReLU units" },
        shattering: {
          text: "shattering",
          hint: "a transformer whose regions multiply with every block",
        },
        drawn: { text: "drawn", hint: "a network compiled from a curve that you draw" },
        file: { text: "file", hint: "drop a model file anywhere on the page" },
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
    this.info = element("div", { class: "info" });
    this.weights = new WeightPanel(
      (place, value) => this.setWeight(place, value),
      () => this.app.commit(),
    );
    this.file = element("input", {
      type: "file",
      accept: ".safetensors",
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
          "A cell keeps its colour until a layer cuts it; its parts are shades of it.",
        ),
      ),
      section("Domain and colours", this.domainChoice, this.colour),
      section("At the pointer", this.info),
      this.weights.section,
    );
    // Certificates are made and checked by the library, where the page comes from its server.
    this.proof = element("p", { class: "hint" });
    if (this.app.server.isOpen)
      panel.append(
        section(
          "Proof",
          button("certificate", () => this.certify()),
          this.proof,
        ),
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

  // From now on the model is data of its own.
  makeOwn() {
    if (this.given.model) return;
    if (this.isUnit) this.given.domain = this.domain;
    this.given.model = structuredClone(this.model);
    this.makeSizes();
  }

  certify() {
    this.proof.textContent = "making and checking a certificate …";
    this.app.server.certify(this.question);
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
    if (model) rows.push(element("p", { class: "hint" }, name || "changed by hand"));
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
          button("another one", () =>
            this.change(() => this.renew({ seed: Math.floor(1e6 * Math.random()) })),
          ),
        ),
      );
    if (source.kind === "drawn")
      rows.push(
        element(
          "p",
          { class: "hint" },
          "Draw a curve from side to side: a network is compiled that is zero below it. Its knots can be dragged.",
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

  // A file dropped on the page, or chosen.
  async open(file) {
    try {
      const model = readModelFile(await file.arrayBuffer());
      const network = networkOf(model);
      const { size } = this.given,
        n = network.embedding.nIn;
      if (n < 2) throw new Error("the model takes one number: there is no plane to look at");
      // Of more inputs the first two, the others 0.
      const weight = [0, 1].map((i) => Array.from({ length: n }, (_, k) => (i === k ? 1 : 0)));
      const domain =
        n > 2
          ? { box: [-size, -size, size, size], chart: { weight, bias: Array(n).fill(0) } }
          : null;
      const name = n > 2 ? `${file.name}: inputs 0 and 1, the others 0` : file.name;
      this.change(() =>
        Object.assign(this.given, { source: { kind: "file" }, model, name, domain, depth: 99 }),
      );
      this.refresh();
    } catch (error) {
      this.warn(error.message);
    }
  }

  warn(words) {
    this.alarm.textContent = words;
    this.alarm.hidden = false;
  }

  refresh() {
    const { given } = this;
    try {
      this.network = networkOf(this.model);
    } catch {
      // A link from elsewhere may hold anything.
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

  // --- Questions to the thread beside -------------------------------------------------------------

  // One question is under way, the newest one waits; one that takes long is given up for it.
  ask() {
    this.alarm.hidden = true;
    this.waiting = {
      model: this.model,
      domain: this.domain,
      depth: this.given.depth,
      network: truncated(this.network, this.given.depth),
    };
    this.pump();
  }

  pump() {
    clearTimeout(this.timer);
    if (!this.waiting) return;
    const age =
      this.question && !this.question.isAnswered
        ? performance.now() - this.question.since
        : Infinity;
    if (age < PATIENCE) {
      this.timer = setTimeout(() => this.pump(), PATIENCE - age);
      return;
    }
    this.question = {
      ...this.waiting,
      id: ++this.asked,
      since: performance.now(),
      isAnswered: false,
    };
    this.waiting = null;
    const { id, model, domain, depth } = this.question;
    if (this.app.worker) this.app.worker.postMessage({ id, model, domain, depth });
    else this.app.server.ask(this.question);
  }

  // A search that takes long is also given to the native engine, where there is one.
  askNatively() {
    if (this.question.isNative || !this.app.worker) return;
    this.question.isNative = true;
    this.app.server.ask(this.question);
  }

  // Give the search under way up; what was shown before stays.
  cancel() {
    this.app.worker?.postMessage({ id: 0, kind: "cancel" });
    this.app.server.cancel(this.question.id);
    this.question.isAnswered = true;
    this.question.id = -1;
    this.status.textContent = "given up";
    this.stopButton.hidden = true;
    this.pump();
  }

  // An answer of the thread.
  receive({
    id,
    found,
    counts,
    progress,
    error,
    isComplete,
    nExact,
    isNative,
    certificate,
    isProved,
    n,
  }) {
    const { question } = this;
    if (!question || id !== question.id) return;
    if (error) {
      question.isAnswered = true;
      this.warn(error);
      this.pump();
      return;
    }
    if (certificate !== undefined) {
      this.proof.textContent = isProved
        ? `proved in integers: these are all cells, ${grouped(n)} of them`
        : "the certificate does not prove its claim";
      this.app.download(new Blob([certificate], { type: "application/json" }), "certificate.json");
      return;
    }
    if (progress !== undefined) {
      if (question.isAnswered || (question.isNative && !isNative)) return;
      this.status.textContent = `${grouped(progress)} cells so far${isNative ? ", by the native engine" : ""} …`;
      this.stopButton.hidden = false;
      if (performance.now() - question.since > SLOW) this.askNatively();
      return;
    }
    if (found) {
      if (question.isAnswered) return;
      question.isAnswered = true;
      this.proof.textContent = "";
      this.stopButton.hidden = true;
      if (isNative) this.app.worker?.postMessage({ id: 0, kind: "cancel" });
      else if (question.isNative) this.app.server.cancel(id);
      this.latency = performance.now() - question.since;
      this.cells = {
        found,
        network: question.network,
        domain: question.domain,
        isComplete,
        counts: null,
      };
      this.cells.boxes = boxesOf(found);
      this.cells.walls = wallsOf(found, question.network);
      this.recolour();
      this.counts.set({
        cells: isComplete ? found.n : `≥ ${grouped(found.n)}`,
        ...(isComplete ? {} : { regions: "–", maps: "–" }),
      });
      this.counts.fade(isComplete ? ["regions", "maps"] : []);
      const how = isNative
        ? ", by the native engine"
        : nExact > 0
          ? `, ${nExact} splits in integers`
          : "";
      this.status.textContent = `exact, ${this.latency.toFixed(1)} ms${how}`;
      if (isNative) this.countHere(question, found);
      this.app.announce(`${found.n} cells`);
      this.hovered = -1;
    }
    if (counts && this.cells) {
      this.cells.counts = counts;
      this.counts.set({ regions: counts.nRegions, maps: counts.nMaps });
      this.counts.fade([]);
      if (this.given.colour !== "cell") this.recolour();
    }
    this.surface.request();
    this.tell();
    this.pump();
  }

  // Regions and maps of cells that the server found are counted here, if there is an engine.
  countHere({ id, model, domain, depth }, found) {
    if (found.n <= MOST_COUNTED) this.app.worker?.postMessage({ id, model, domain, depth, found });
    else this.counts.set({ regions: "–", maps: "–" });
  }

  recolour() {
    if (!this.cells) return;
    const { found, network, counts } = this.cells,
      { isDark } = this.app;
    const colours = cellColours(
      found,
      network.layers.map((layer) => layer.nGroups),
      isDark,
    );
    const kind = this.given.colour;
    if (kind !== "cell" && counts) {
      // All cells of a region, or with a map, have the colour of the first of them.
      const labels = kind === "map" ? counts.maps : counts.regions,
        firsts = new Map();
      for (let i = 0; i < found.n; i++) {
        if (!firsts.has(labels[i])) firsts.set(labels[i], i);
        const from = firsts.get(labels[i]);
        colours.copyWithin(3 * i, 3 * from, 3 * from + 3);
      }
    }
    this.cells.colours = colours;
  }

  // --- Handles: keys of the first head, lines of the first units ------------------------------------

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

  // --- Looking -------------------------------------------------------------------------------------

  cellAt(point) {
    if (!point || !this.cells) return -1;
    const { found, boxes } = this.cells,
      [x, y] = point,
      { seen } = this.surface;
    for (let cell = 0; cell < found.n; cell++) {
      if (
        x < boxes[4 * cell] ||
        x > boxes[4 * cell + 2] ||
        y < boxes[4 * cell + 1] ||
        y > boxes[4 * cell + 3]
      )
        continue;
      if (contains(cornersOf(found, cell, seen), x, y)) return cell;
    }
    return -1;
  }

  hover(point) {
    this.pointer = point;
    this.hovered = this.cellAt(point);
    this.tell();
    this.surface.request();
  }

  zoomInto(point) {
    const cell = this.cellAt(point);
    if (cell < 0) return;
    const { seen } = this.surface,
      points = cutToWindow(cornersOf(this.cells.found, cell, seen), seen);
    const xs = points.filter((_, i) => i % 2 === 0),
      ys = points.filter((_, i) => i % 2 === 1);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    this.surface.look({
      x: (x0 + x1) / 2,
      y: (y0 + y1) / 2,
      half: Math.max(0.9 * Math.max(x1 - x0, y1 - y0), 1e-11),
    });
    this.keepWindow();
  }

  keepWindow() {
    this.given.window = this.surface.window;
    this.app.commit();
  }

  // What is known about the cell under the pointer.
  tell() {
    const { cells, hovered } = this;
    if (!cells || hovered < 0) {
      this.info.replaceChildren(element("p", {}, "Move over a cell; double-click zooms into it."));
      return;
    }
    const { found, network, domain } = cells,
      names = layerNames(network),
      lines = [];
    const signature = signatureOf(found, hovered);
    let first = 0;
    network.layers.forEach((layer, i) => {
      const part = Array.from(signature.subarray(first, first + layer.nGroups)).join(
        layer.isRelu ? "" : " ",
      );
      lines.push(
        element(
          "div",
          {},
          element("dt", {}, names[i].title),
          element("dd", {}, part.length > 40 ? `${part.slice(0, 38)} …` : part),
        ),
      );
      first += layer.nGroups;
    });
    const forms = outputForms(network, readDomain(domain).chart, signature),
      [up, down] = unitOf(forms);
    forms.rows.slice(0, 3).forEach((row, i) => {
      const [a, b, c] = row.map((x) => divided(x * up, down)[0]);
      const term = (x) => `${x < 0 ? "\u2212" : "+"} ${fixed(Math.abs(x)).trim()}`;
      lines.push(
        element(
          "div",
          {},
          element("dt", {}, `output ${i}`),
          element("dd", {}, `${fixed(a)} x ${term(b)} y ${term(c)}`),
        ),
      );
    });
    lines.push(
      element(
        "div",
        {},
        element("dt", {}, "nearest wall"),
        element("dd", {}, this.nearestWall(names)),
      ),
    );
    this.info.replaceChildren(element("dl", { class: "facts" }, ...lines));
  }

  nearestWall(names) {
    const { found, network } = this.cells,
      cell = this.hovered,
      points = cornersOf(found, cell, this.surface.seen);
    const [x, y] = this.pointer ?? [0, 0],
      n = points.length / 2;
    let best = -1,
      least = Infinity;
    for (let i = 0; i < n; i++) {
      const k = (i + 1) % n,
        dx = points[2 * k] - points[2 * i],
        dy = points[2 * k + 1] - points[2 * i + 1];
      const distance =
        Math.abs(dx * (y - points[2 * i + 1]) - dy * (x - points[2 * i])) /
        (Math.hypot(dx, dy) || 1);
      if (distance < least) ((best = i), (least = distance));
    }
    const [layer, group, winner, rival] = wallOf(network, found, cell, found.starts[cell] + best);
    this.wall = best;
    if (layer < 0) return "edge of the domain";
    const { unit, form, title } = names[layer];
    return network.layers[layer].isRelu
      ? `${title}, ${unit} ${group}`
      : `${title}, ${unit} ${group}: ${form} ${winner} | ${rival}`;
  }

  // --- Painting ------------------------------------------------------------------------------------

  paint(pen, surface) {
    if (!this.cells) return;
    const { found } = this.cells,
      { seen } = surface;
    if (pen instanceof CanvasPen) this.paintPicture(pen, surface);
    else this.paintCells(pen, surface);
    if (this.hovered >= 0) {
      const points = onScreen(surface, cutToWindow(cornersOf(found, this.hovered, seen), seen));
      if (points.length >= 6)
        pen.polygon(points, { fill: css(this.app.isDark ? [255, 255, 255] : [0, 0, 0], 0.16) });
      if (this.wall !== undefined) this.paintWall(pen, surface);
    }
    this.paintHandles(pen, surface);
    if (this.drawn)
      pen.line(onScreen(surface, this.drawn.flat()), { stroke: this.app.ink, width: 3 });
  }

  // Cells are painted to a picture of their own, which serves until they or the window change; while
  // the window moves over many cells, the picture is moved.
  paintPicture(pen, surface) {
    const { cells, picture } = this,
      { x, y, half, width, height, ratio } = surface;
    const key = [x, y, half, width, height, ratio].join();
    const isSame = picture.cells === cells && picture.colours === cells.colours;
    if (isSame && picture.key !== key && cells.found.n > MANY && surface.isMoving) {
      const { window, unit } = picture,
        scale = surface.unit / unit;
      const [left, top] = surface.toScreen(
        window.x - width / 2 / unit,
        window.y + height / 2 / unit,
      );
      pen.context.drawImage(picture.canvas, left, top, width * scale, height * scale);
      return;
    }
    if (!isSame || picture.key !== key) {
      Object.assign(picture, {
        cells,
        colours: cells.colours,
        key,
        window: surface.window,
        unit: surface.unit,
      });
      Object.assign(picture.canvas, { width: surface.canvas.width, height: surface.canvas.height });
      const context = picture.canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.paintCells(new CanvasPen(context), surface);
    }
    pen.context.drawImage(picture.canvas, 0, 0, width, height);
  }

  paintCells(pen, surface) {
    const { found, boxes, colours, network } = this.cells,
      { seen } = surface,
      [x0, y0, x1, y1] = seen;
    for (let cell = 0; cell < found.n; cell++) {
      if (
        boxes[4 * cell] > x1 ||
        boxes[4 * cell + 2] < x0 ||
        boxes[4 * cell + 1] > y1 ||
        boxes[4 * cell + 3] < y0
      )
        continue;
      const points = onScreen(surface, cutToWindow(cornersOf(found, cell, seen), seen));
      if (points.length >= 6)
        pen.polygon(points, {
          fill: `rgb(${colours[3 * cell]},${colours[3 * cell + 1]},${colours[3 * cell + 2]})`,
        });
    }
    this.paintWalls(pen, surface, network, 1 / surface.unit);
  }

  // Walls of deeper layers are thinner; those around cells of a few pixels are fainter, or left out.
  paintWalls(pen, surface, network, pixel) {
    const { found, boxes, walls } = this.cells,
      { seen } = surface,
      [x0, y0, x1, y1] = seen;
    const near = network.layers.map(() => []),
      far = network.layers.map(() => []);
    for (const { cell, edge, next, layer } of walls) {
      const at = 4 * cell;
      if (boxes[at] > x1 || boxes[at + 2] < x0 || boxes[at + 1] > y1 || boxes[at + 3] < y0)
        continue;
      const size = Math.max(boxes[at + 2] - boxes[at], boxes[at + 3] - boxes[at + 1]) / pixel;
      if (size < 3) continue;
      const [x, y] = cornerOf(found, edge, seen),
        [u, v] = cornerOf(found, next, seen);
      const segment = segmentInWindow(x, y, u, v, seen);
      if (segment) (size < 12 ? far : near)[layer].push(...segment);
    }
    for (const [lists, alpha] of [
      [far, 0.4],
      [near, 0.85],
    ])
      lists.forEach((list, layer) =>
        pen.segments(onScreen(surface, list), {
          stroke: css(wallColour(layer, this.app.isDark), alpha),
          width: Math.max(0.5, 1.7 - 0.35 * layer),
        }),
      );
  }

  paintWall(pen, surface) {
    const { found } = this.cells,
      points = cornersOf(found, this.hovered, surface.seen),
      n = points.length / 2;
    if (this.wall >= n) return;
    const k = (this.wall + 1) % n;
    const segment = segmentInWindow(
      points[2 * this.wall],
      points[2 * this.wall + 1],
      points[2 * k],
      points[2 * k + 1],
      surface.seen,
    );
    if (segment) pen.line(onScreen(surface, segment), { stroke: this.app.ink, width: 3 });
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

  // --- What can be taken along -----------------------------------------------------------------------

  python() {
    const { model } = this,
      { box, chart } = this.domain,
      list = (values) => `[${values.join(", ")}]`;
    const inner = box
      ? `hm.Box([${box[0]}, ${box[1]}], [${box[2]}, ${box[3]}])`
      : "hm.WholeSpace(2)";
    return [
      "import numpy as np",
      "import hardmax as hm",
      "",
      ...modelText(model),
      `part = hm.enumerate_regions(model, ${chart ? `hm.Slice(${list(chart.bias)}, [${chart.weight.map(list)}], ${inner})` : inner})`,
      `print(part.n_cells, part.n_regions, part.n_affine_maps)${this.isWhole ? `  # ${this.cells.found.n} ${this.cells.counts?.nRegions ?? ""} ${this.cells.counts?.nMaps ?? ""}` : ""}`,
      "hm.plot(part)",
      "",
    ].join("\n");
  }

  get isWhole() {
    return this.cells?.isComplete && this.given.depth === this.network.layers.length;
  }

  json() {
    const { found, counts, domain, network } = this.cells;
    const cells = Array.from({ length: found.n }, (_, i) => ({
      signature: Array.from(found.signatures.subarray(i * found.nGroups, (i + 1) * found.nGroups)),
      vertices: Array.from({ length: found.starts[i + 1] - found.starts[i] }, (_, k) => {
        const at = 2 * (found.starts[i] + k);
        return found.directions
          ? [found.points[at], found.points[at + 1], found.directions[at], found.directions[at + 1]]
          : [found.points[at], found.points[at + 1]];
      }),
    }));
    return {
      model: this.model,
      layers: network.layers.length,
      domain,
      n_cells: found.n,
      n_regions: counts?.nRegions ?? null,
      n_affine_maps: counts?.nMaps ?? null,
      cells,
    };
  }
}

function boxesOf(found) {
  const boxes = new Float64Array(4 * found.n);
  for (let cell = 0; cell < found.n; cell++) {
    let x0 = Infinity,
      y0 = Infinity,
      x1 = -Infinity,
      y1 = -Infinity;
    for (let i = found.starts[cell]; i < found.starts[cell + 1]; i++) {
      const x = found.points[2 * i],
        y = found.points[2 * i + 1];
      if (found.directions) {
        const dx = found.directions[2 * i],
          dy = found.directions[2 * i + 1];
        if (dx > 0) x1 = Infinity;
        if (dx < 0) x0 = -Infinity;
        if (dy > 0) y1 = Infinity;
        if (dy < 0) y0 = -Infinity;
      }
      ((x0 = Math.min(x0, x)),
        (x1 = Math.max(x1, x)),
        (y0 = Math.min(y0, y)),
        (y1 = Math.max(y1, y)));
    }
    boxes.set([x0, y0, x1, y1], 4 * cell);
  }
  return boxes;
}

// Each wall once, from the side of the smaller winner: its cell, the vertices at its ends, its layer.
function wallsOf(found, network) {
  const groupOf = [],
    layerOf = [],
    starts = [];
  let group = 0,
    before = 0;
  network.layers.forEach((layer, index) => {
    for (let g = 0; g < layer.nGroups; g++, group++) {
      starts.push(before + startOf(layer, g));
      for (let j = startOf(layer, g); j < startOf(layer, g + 1); j++)
        (groupOf.push(group), layerOf.push(index));
    }
    before += layer.nForms;
  });
  const walls = [];
  for (let cell = 0; cell < found.n; cell++) {
    const first = found.starts[cell],
      end = found.starts[cell + 1];
    for (let edge = first; edge < end; edge++) {
      const code = found.walls[edge];
      if (
        code < 0 ||
        starts[groupOf[code]] + found.signatures[cell * found.nGroups + groupOf[code]] > code
      )
        continue;
      walls.push({ cell, edge, next: edge + 1 < end ? edge + 1 : first, layer: layerOf[code] });
    }
  }
  return walls;
}
