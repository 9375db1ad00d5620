// View 4, a real model: the heads of a checkpoint at work on one sequence. The plane through the queries of
// three tokens is divided exactly by the winning key. The path between two of them has breakpoints.
import {
  breakpoints,
  checkHeads,
  chooseFirstView,
  hardness,
  leaderOf,
  pathPieces,
  planeChart,
  planeModel,
  readHeadsFile,
  scoresOf,
  seenKeys,
} from "./attention.js";
import { CellsView } from "./cells.js";
import { css, keyColour, strongColour, wallColour } from "./colours.js";
import {
  button,
  element,
  formatFixed,
  numbers,
  pointerSection,
  section,
  slider,
  toggle,
} from "./controls.js";
import { signatureOf } from "./engine.js";
import { divide } from "./exact.js";
import { nameOf, networkOf } from "./models.js";
import { Surface, contains, cornersOf, cutToWindow, onScreen } from "./surface.js";

// If `tokens` is null, the view chooses the layer, the head and the tokens.
export const firstReal = () => ({
  name: "",
  layer: 0,
  head: 0,
  isWhole: false,
  tokens: null,
  reader: 1 << 20,
  window: null,
});

const wordsOf = ({ layer }) => [`layer ${layer}`, "head", "key"];

export class RealView extends CellsView {
  constructor(app, stage, panel) {
    super(app, stage);
    this.isLight = true;
    this.makePanel(panel);
    this.refresh();
  }

  get given() {
    return this.app.state.real;
  }

  // The model that is shown: the one named in the state, or the first of the page.
  get data() {
    const { models } = this.app;
    return models.find(({ name }) => name === this.given.name) ?? models[0];
  }

  get layer() {
    return this.data.layers[this.given.layer];
  }

  // The heads that are shown: all heads of the layer, or one.
  get heads() {
    const { isWhole, head } = this.given;
    return isWhole ? this.layer.queries.map((_, h) => h) : [head];
  }

  get model() {
    return this.shown.model;
  }

  get domain() {
    return { plane: true, chart: this.shown.chart };
  }

  // --- Panel -----------------------------------------------------------------------------------------

  makePanel(panel) {
    this.counts = numbers({
      cells: "cells of the plane, each with one winner in every head",
      winners: "keys that win somewhere on the plane",
      breakpoints: "points where the path crosses into another cell",
    });
    this.names = element("select", {
      "aria-label": "checkpoint",
      onchange: () => this.choose(this.names.value),
    });
    this.about = element("p", { class: "hint" });
    this.file = element("input", {
      type: "file",
      accept: ".json,.safetensors",
      hidden: true,
      onchange: () => this.file.files[0] && this.open(this.file.files[0]),
    });
    this.tokens = element("input", {
      type: "text",
      "aria-label": "a text, or token ids",
      placeholder: "a text, or token ids",
      onkeydown: (event) => event.key === "Enter" && this.runAgain(),
    });
    this.run = element(
      "div",
      { class: "editor" },
      this.tokens,
      button("run", () => this.runAgain(), { title: "run the checkpoint on this input" }),
    );
    const pick = (label, name) =>
      slider({
        label,
        min: 0,
        max: 0,
        value: 0,
        text: (i) => String(i),
        oninput: (i) => this.change(() => (this.given[name] = i), false),
        onchange: () => this.app.commit(),
      });
    this.layerSlider = pick("layer", "layer");
    this.headSlider = pick("head", "head");
    this.whole = toggle({
      label: "all heads of the layer at once",
      value: false,
      onchange: (is) => this.change(() => (this.given.isWhole = is)),
    });
    this.readerSlider = slider({
      label: "seen by",
      min: 0,
      max: 0,
      value: 0,
      text: (i) => this.labelOf(i),
      oninput: (i) => this.change(() => (this.given.reader = i), false),
      onchange: () => this.app.commit(),
    });
    this.corners = [0, 1, 2].map((k) =>
      element("select", {
        "aria-label": ["path from", "path to", "third query"][k],
        onchange: () => this.change(() => (this.given.tokens[k] = Number(this.corners[k].value))),
      }),
    );
    const map = element("canvas", {
      class: "small map",
      role: "img",
      title:
        "One column per head, one row per layer. Darker means harder: the mean of the largest attention weight.",
      "aria-label": "map of the heads; the sliders below select one",
    });
    const path = element("canvas", { class: "small path", role: "img" });
    this.pathLabel = path;
    this.breakList = element("ol", { class: "breaks" });
    this.facts = element("table", { class: "facts" });
    panel.append(
      this.counts,
      this.status,
      this.alarm,
      this.stopButton,
      section(
        "Model",
        this.names,
        this.about,
        this.run,
        element(
          "div",
          { class: "row" },
          button("open a file", () => this.file.click(), {
            title:
              "heads saved by this page or by Python, or a TransformerLens cache in safetensors",
          }),
        ),
        this.file,
      ),
      section(
        "Layer and head",
        map,
        this.layerSlider,
        this.headSlider,
        this.whole,
        this.readerSlider,
      ),
      section(
        "Plane through three queries",
        element(
          "div",
          { class: "editor" },
          ...["from", "to", "third"].map((word, k) => element("label", {}, word, this.corners[k])),
        ),
        this.facts,
        element(
          "p",
          { class: "hint" },
          "Each cell is labelled with the key that wins there. Dots mark the queries of other tokens that lie in this plane.",
        ),
      ),
      section("Path from the first query to the second", path, this.breakList),
      pointerSection(this.info),
      this.proofSection,
      element(
        "div",
        { class: "row" },
        button("open in Regions", () => this.openAsRegions(), {
          title: "count regions and maps of this plane, and change keys and queries with sliders",
        }),
      ),
    );
    this.mapView = new Surface(
      map,
      {
        paint: (pen, surface) => this.paintMap(pen, surface),
        tap: (point) => this.pickHead(this.mapView.toScreen(...point)),
      },
      { isFixed: true },
    );
    this.strip = new Surface(
      path,
      { paint: (pen, surface) => this.paintPath(pen, surface) },
      { isFixed: true },
    );
  }

  labelOf(token, { labels } = this.data) {
    return labels[token] === String(token) ? String(token) : `${labels[token]} (${token})`;
  }

  choose(name) {
    if (!this.app.models.some((model) => model.name === name)) return this.load(name);
    this.change(() => Object.assign(this.given, { ...firstReal(), name }));
    this.refresh();
  }

  // --- Loading heads ---------------------------------------------------------------------------------

  // Ask the server to run a checkpoint that it offers, on tokens, on a text, or on an input of its choice.
  load(name, given = {}) {
    this.alarm.hidden = true;
    this.status.textContent = `running ${name} …`;
    this.app.server.heads({ id: ++this.app.asked, name, ...given });
  }

  // Run the checkpoint on the input typed: token ids separated by commas or blanks, or a text.
  runAgain() {
    const text = this.tokens.value.trim(),
      parts = text.split(/[\s,;]+/);
    const isNumbers = parts.length > 1 && parts.every((part) => /^\d+$/.test(part));
    this.load(this.names.value, isNumbers ? { tokens: parts.map(Number) } : { text });
  }

  // Open a file that was dropped on the page or chosen.
  async open(file) {
    try {
      this.take(readHeadsFile(file.name, await file.arrayBuffer()));
    } catch (error) {
      this.warn(error.message);
    }
  }

  // Add heads to the page and show them.
  take(data) {
    const { models } = this.app,
      at = models.findIndex(({ name }) => name === data.name);
    if (at >= 0) models[at] = data;
    else models.push(data);
    this.choose(data.name);
  }

  receive(answer) {
    if (answer.heads) {
      try {
        this.take(checkHeads(answer.heads));
      } catch (error) {
        this.warn(error.message);
      }
    } else if (answer.error && answer.id > (this.question?.id ?? 0)) this.warn(answer.error);
    else super.receive(answer);
  }

  // Open the plane as a separate model with editable weights.
  openAsRegions() {
    const { app, model, domain, data, given } = this;
    const which = given.isWhole ? "all heads" : `head ${given.head}`;
    Object.assign(app.state.regions, {
      source: { kind: "file" },
      model: structuredClone(model),
      name: `${data.name}, layer ${given.layer}, ${which}: weights of three queries`,
      domain,
      depth: 99,
      window: { ...given.window },
    });
    app.go("regions");
  }

  // --- Contents --------------------------------------------------------------------------------------

  refresh() {
    const { models, offers } = this.app;
    const names = [...new Set([...models.map(({ name }) => name), ...offers])];
    const short = (name) => name.split(/[/\\]/).pop() || name;
    this.names.replaceChildren(
      ...names.map((name) => element("option", { value: name }, short(name))),
    );
    this.map = { hardness: hardness(this.data) };
    this.names.value = this.data.name;
    this.about.textContent = this.data.about;
    this.run.hidden = !this.app.server.isOpen || !offers.includes(this.data.name);
    this.corners.forEach((select) =>
      select.replaceChildren(
        ...this.data.labels.map((_, i) => element("option", { value: String(i) }, this.labelOf(i))),
      ),
    );
    this.update();
    // A link may name a model that the server offers, or one that is not available.
    const { name } = this.given;
    if (!name || name === this.data.name) return;
    if (offers.includes(name)) this.load(name);
    else this.warn(`The model “${short(name)}” is not on this page.`);
  }

  change(act, isDone = true) {
    act();
    this.update();
    if (isDone) this.app.commit();
  }

  // Clamp the indices of the state to the sizes of the model.
  limit() {
    if (!Array.isArray(this.given.tokens)) Object.assign(this.given, chooseFirstView(this.data));
    const { given, data } = this,
      n = data.labels.length,
      within = (x, end) => Math.min(Math.max(Math.floor(Number(x)) || 0, 0), end - 1);
    given.layer = within(given.layer, data.layers.length);
    given.head = within(given.head, this.layer.queries.length);
    given.reader = within(given.reader, n);
    given.tokens = [0, 1, 2].map((k) => within(given.tokens[k], n));
  }

  update() {
    this.limit();
    const { given, layer, heads } = this,
      { tokens, reader } = given,
      n = this.data.labels.length;
    const set = (row, most, value) => {
      row.querySelector("input").max = String(most);
      row.set(value);
    };
    set(this.layerSlider, this.data.layers.length - 1, given.layer);
    set(this.headSlider, layer.queries.length - 1, given.head);
    set(this.readerSlider, n - 1, reader);
    this.headSlider.hidden = given.isWhole;
    this.whole.hidden = layer.queries.length < 2;
    this.whole.set(given.isWhole);
    this.readerSlider.hidden = !layer.is_causal && !layer.window;
    this.corners.forEach((select, k) => (select.value = String(tokens[k])));
    // For all heads together, the plane is spanned by the concatenated queries.
    const queries = tokens.map((token) => heads.flatMap((h) => layer.queries[h][token]));
    const { chart, places, isFlat } = planeChart(queries),
      model = planeModel(layer, heads, tokens, reader);
    const seen = seenKeys(layer, n, reader);
    const { labels } = this.data;
    this.shown = { model, chart, places, isFlat, seen, heads, labels, layer: given.layer };
    this.shown.others = isFlat ? [] : this.otherQueries(queries, places);
    this.network = networkOf(model);
    this.path = pathPieces(model);
    this.breaks = breakpoints(this.path);
    const plane = [given.name, given.layer, heads.length, given.head, ...tokens].join();
    if (!given.window || (this.plane !== undefined && this.plane !== plane)) this.fit();
    else this.surface.look(given.window);
    this.plane = plane;
    this.showFacts();
    this.mapView.request();
    this.ask();
  }

  // The queries of other tokens that lie in the plane, up to rounding. If keys have two coordinates, all do.
  otherQueries([a, b, c], places) {
    const { layer, heads } = this,
      [[,], [width], [shift, height]] = places;
    const dot = (u, v) => u.reduce((sum, x, k) => sum + x * v[k], 0);
    const minus = (u, v) => u.map((x, k) => x - v[k]);
    const right = minus(b, a).map((x) => x / width),
      lean = minus(c, a);
    const up = lean.map((x, k) => (x - shift * right[k]) / height);
    return this.data.labels.flatMap((_, token) => {
      if (this.given.tokens.includes(token)) return [];
      const from = minus(
        heads.flatMap((h) => layer.queries[h][token]),
        a,
      );
      const x = dot(from, right),
        y = dot(from, up);
      const off = from.map((z, k) => z - x * right[k] - y * up[k]);
      return dot(off, off) <= 1e-18 * dot(from, from) ? [{ token, x, y }] : [];
    });
  }

  fit() {
    const points = [...this.shown.places, ...this.shown.others.map(({ x, y }) => [x, y])],
      xs = points.map(([x]) => x),
      ys = points.map(([, y]) => y);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    this.given.window = {
      x: (x0 + x1) / 2,
      y: (y0 + y1) / 2,
      half: 0.65 * Math.max(x1 - x0, y1 - y0) || 1,
    };
    this.surface.look(this.given.window);
  }

  showCells(answer) {
    super.showCells(answer);
    const { found } = this.cells;
    this.counts.set({ winners: new Set(this.winnersOf(found)).size });
    this.recolourByWinner();
  }

  winnersOf(found) {
    // With several heads, each key of each head counts separately.
    return Array.from(found.signatures, (j, i) => j * found.nGroups + (i % found.nGroups));
  }

  recolour() {
    super.recolour();
    if (this.cells) this.recolourByWinner();
  }

  // With one head, cells and the path have the colours of the winning keys.
  recolourByWinner() {
    const { found, shown } = this.cells;
    if (found.nGroups !== 1) return;
    this.cells.colours = Uint8Array.from(
      Array.from(found.signatures).flatMap((j) => keyColour(shown.seen[j], this.app.isDark)),
    );
  }

  showFacts() {
    const { layer, given, data } = this,
      [head] = this.heads;
    const rows = given.tokens.map((token) => {
      const { first, margin, weight } = leaderOf(scoresOf(layer, head, token, this.shown.seen));
      const words = [
        this.labelOf(token),
        this.labelOf(this.shown.seen[first]),
        margin < Infinity ? formatFixed(margin, 2) : "–",
        `${(100 * weight).toFixed(0)} %`,
      ];
      return element("tr", {}, ...words.map((word) => element("td", {}, word)));
    });
    this.facts.hidden = given.isWhole;
    const title = (word, hint) => element("th", { title: hint }, word);
    this.facts.replaceChildren(
      element(
        "tr",
        {},
        title("query", "the token of the query"),
        title("winner", "the key with the largest score"),
        title("margin", "the largest score minus the next, divided by the model's temperature"),
        title("weight", "the winner's attention weight at the model's temperature"),
      ),
      ...rows,
    );
    this.facts.setAttribute(
      "aria-label",
      `${nameOf(wordsOf(this.shown), head)}: the winners at the three queries, and their margins`,
    );
    const number = ([p, q]) => divide(p, q)[0];
    this.counts.set({ breakpoints: this.breaks.length });
    const few = this.breaks.slice(0, 12).map((at) => {
      const changes = this.path.flatMap((pieces, g) => {
        const i = pieces.findIndex(
          ({ begin }, k) => k > 0 && begin[0] * at[1] === at[0] * begin[1],
        );
        if (i < 0) return [];
        const [from, to] = [pieces[i - 1], pieces[i]].map(({ winner }) =>
          this.labelOf(this.shown.seen[winner]),
        );
        return [`${this.heads.length > 1 ? `head ${this.heads[g]}: ` : ""}${from} → ${to}`];
      });
      return element("li", {}, `${number(at).toFixed(4)}  ${changes.join(", ")}`);
    });
    if (this.breaks.length > few.length)
      few.push(element("li", {}, `and ${this.breaks.length - few.length} more`));
    this.breakList.replaceChildren(...few);
    this.pathLabel.setAttribute(
      "aria-label",
      `path from ${data.labels[given.tokens[0]]} to ${data.labels[given.tokens[1]]}: ${this.breaks.length} breakpoints`,
    );
    this.strip.request();
  }

  // Show the facts about the cell under the pointer.
  tell() {
    const { cells, hovered } = this;
    if (!cells || hovered < 0) {
      this.info.replaceChildren(
        element("p", {}, "Move the pointer over a cell. Double-click to zoom into it."),
      );
      return;
    }
    const winners = Array.from(signatureOf(cells.found, hovered));
    const fact = (name, value) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value));
    this.info.replaceChildren(
      element(
        "dl",
        { class: "facts" },
        ...winners.map((j, g) =>
          fact(
            nameOf(wordsOf(cells.shown), cells.shown.heads[g]),
            `key of ${this.labelOf(cells.shown.seen[j], cells.shown)}`,
          ),
        ),
        fact("nearest wall", this.nearestWall()),
      ),
    );
  }

  nameWall(layer, group, winner, rival) {
    const { shown } = this.cells;
    if (layer < 0) return super.nameWall(layer, group, winner, rival);
    const name = nameOf(wordsOf(shown), shown.heads[group]),
      [one, other] = [winner, rival].map((j) => this.labelOf(shown.seen[j], shown));
    return `${name}: ${one} | ${other}`;
  }

  grab() {
    return null;
  }

  // --- Painting --------------------------------------------------------------------------------------

  paintOver(pen, surface) {
    const { places, others } = this.shown,
      { app, given } = this;
    if (this.cells.found.nGroups === 1) this.paintNames(pen, surface);
    const [a, b] = places.map(([x, y]) => surface.toScreen(x, y));
    pen.line([...a, ...b], { stroke: app.paper, width: 5 });
    pen.line([...a, ...b], { stroke: app.ink, width: 2 });
    for (const at of this.breaks) {
      const part = divide(...at)[0];
      pen.circle(a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]), 3.2, {
        fill: app.paper,
        stroke: app.ink,
        width: 1.5,
      });
    }
    for (const { x, y } of others)
      pen.circle(...surface.toScreen(x, y), 2.6, { fill: css([128, 128, 128]) });
    places.forEach(([x, y], k) => {
      const [px, py] = surface.toScreen(x, y);
      const stroke = css(strongColour(k, app.isDark));
      pen.circle(px, py, 6, { fill: app.paper, stroke, width: 2.5 });
      const words = this.labelOf(given.tokens[k]);
      pen.text(px + 10, py - 11, words, { fill: app.ink, size: 13, weight: 600 });
    });
  }

  // Write the winning keys into their cells, if they fit.
  paintNames(pen, surface) {
    const { found, shown } = this.cells,
      { seen } = surface;
    for (let cell = 0; cell < found.n; cell++) {
      const points = onScreen(surface, cutToWindow(cornersOf(found, cell, seen), seen)),
        n = points.length / 2;
      if (n < 3) continue;
      let x = 0,
        y = 0;
      for (let i = 0; i < 2 * n; i += 2) ((x += points[i] / n), (y += points[i + 1] / n));
      const words = shown.labels[shown.seen[found.signatures[cell]]],
        [wide, tall] = [3.6 * words.length + 3, 7];
      const hasRoom = [-1, 1].every((i) =>
        [-1, 1].every((k) => contains(reversed(points), x + i * wide, y + k * tall)),
      );
      if (hasRoom) pen.text(x, y, words, { fill: this.app.ink, size: 12, align: "center" });
    }
  }

  // Paint one column per head and one row per layer; the selected head has a frame.
  paintMap(pen, { width, height }) {
    if (!this.map) return;
    const { given, app } = this,
      { hardness } = this.map,
      tall = height / hardness.length;
    const box = (i, h, wide) => {
      const [x, y, u, v] = [h * wide, i * tall, (h + 1) * wide, (i + 1) * tall];
      return [x + 1, y + 1, u - 1, y + 1, u - 1, v - 1, x + 1, v - 1];
    };
    hardness.forEach((heads, i) => {
      const wide = width / heads.length;
      heads.forEach((share, h) =>
        pen.polygon(box(i, h, wide), {
          fill: css(wallColour(0, app.isDark), 0.06 + 0.9 * share),
        }),
      );
      const isShown = (h) => i === given.layer && (given.isWhole || h === given.head);
      heads.forEach((_, h) => {
        if (isShown(h)) pen.polygon(box(i, h, wide), { stroke: app.ink, width: 2 });
      });
    });
  }

  pickHead([x, y]) {
    const { hardness } = this.map,
      { width, height } = this.mapView;
    const layer = Math.min(hardness.length - 1, Math.floor((y / height) * hardness.length)),
      heads = hardness[layer].length;
    const head = Math.min(heads - 1, Math.floor((x / width) * heads));
    this.change(() => Object.assign(this.given, { layer, head, isWhole: false }));
  }

  // Paint the path as one strip per head, in the colours of the winning keys.
  paintPath(pen, surface) {
    if (!this.path) return;
    const { width, height } = surface,
      tall = height / this.path.length,
      number = ([p, q]) => divide(p, q)[0];
    this.path.forEach((pieces, g) => {
      for (const { winner, begin, end } of pieces) {
        const [x, u] = [begin, end].map((at) => width * number(at)),
          [y, v] = [g * tall, (g + 1) * tall];
        pen.polygon([x, y, u, y, u, v, x, v], {
          fill: css(keyColour(this.shown.seen[winner], this.app.isDark)),
        });
        if (begin[0] !== 0n) pen.line([x, y, x, v], { stroke: this.app.ink, width: 1 });
        const words = this.data.labels[this.shown.seen[winner]];
        if (u - x > 8 * words.length + 6 && tall > 14)
          pen.text((x + u) / 2, (y + v) / 2, words, { fill: this.app.ink, align: "center" });
      }
    });
  }

  // --- Exports ---------------------------------------------------------------------------------------

  json() {
    const { given, data } = this;
    const exact = ([p, q]) => ({ value: divide(p, q)[0], fraction: [String(p), String(q)] });
    return {
      ...super.json(),
      name: data.name,
      layer: given.layer,
      heads_shown: this.heads,
      tokens: given.tokens,
      reader: given.reader,
      breakpoints: this.breaks.map(exact),
      heads: data,
    };
  }

  python() {
    return super
      .python()
      .replace(
        "hm.plot(part)\n",
        [
          "path = hm.Slice([1, 0, 0], [[-1, 1, 0]], hm.Box([0], [1]))",
          `print(hm.enumerate_regions(model, path).n_cells - 1)  # ${this.breaks.length} breakpoints from the first query to the second`,
          "hm.plot(part)",
          "",
        ].join("\n"),
      );
  }
}

// A polygon in reverse order, because y points downwards on the screen.
const reversed = (points) => points.map((_, i) => points[points.length - 2 - i + 2 * (i % 2)]);
