// View 2, heads together: the common refinement of their diagrams, and their Minkowski sum.
import { cellColours, css, strongColour } from "./colours.js";
import { button, choice, element, numbers, section, slider } from "./controls.js";
import { networkOfHeads, offsetsOf } from "./diagrams.js";
import { findCells } from "./engine.js";
import { hullOf, randomKeys } from "./head.js";
import { Surface, cornersOf, cutToWindow, onScreen, segmentInWindow } from "./surface.js";

export const firstHeads = () => ({
  heads: [0, 1].map((h) => ({ keys: randomKeys(4, 21 + h), bias: "norm" })),
  window: { x: 0, y: 0, half: 3 },
});

const colourOf = (h, isDark) => css(strongColour(h, isDark));

// The maximum number of cells of heads with given numbers of keys, with arbitrary offsets or without any.
function mostCells(sizes, isBiased) {
  const more = sizes.map((n) => n - 1),
    total = more.reduce((a, b) => a + b, 0);
  if (!isBiased)
    return Math.max(
      1,
      sizes.filter((n) => n > 1).reduce((a, b) => a + b, 0),
    );
  let pairs = 0;
  more.forEach((a, i) => more.slice(i + 1).forEach((b) => (pairs += a * b)));
  return 1 + total + pairs;
}

export class HeadsView {
  constructor(app, stage, panel) {
    Object.assign(this, { app, stage, hovered: -1, latency: 0 });
    const handlers = (surface) => ({
      grab: (point, tolerance) => this.grab(point, tolerance, surface()),
      moved: () => this.keepWindow(),
    });
    this.surface = new Surface(stage, {
      paint: (pen, surface) => this.paint(pen, surface),
      ...handlers(() => this.surface),
    });
    this.makePanel(panel);
    this.refresh();
  }

  get given() {
    return this.app.state.heads;
  }

  makePanel(panel) {
    this.counts = numbers({
      cells: "joint cells, each with one winner in every head",
      bound: "the sharp upper bound for these numbers of keys",
      product: "the number of ways to choose a key in every head",
    });
    this.number = choice({
      label: "heads",
      value: "2",
      options: { 1: "one head", 2: "two", 3: "three" },
      onchange: (n) => this.change(() => this.setHeads(Number(n))),
    });
    this.size = slider({
      label: "keys per head",
      min: 1,
      max: 12,
      value: 4,
      oninput: (n) =>
        this.change(
          () => this.given.heads.forEach((head, h) => (head.keys = randomKeys(n, 21 + h))),
          false,
        ),
      onchange: () => this.app.commit(),
    });
    this.bias = choice({
      label: "bias",
      value: "norm",
      options: {
        none: { text: "none", hint: "scores ⟨k, x⟩: the cells are cones" },
        norm: { text: "Voronoi", hint: "bias −½‖k‖²: the nearest key wins" },
        own: { text: "weighted", hint: "bias −½‖k‖² plus a weight for each key: a power diagram" },
      },
      onchange: (mode) => this.change(() => this.given.heads.forEach((head) => (head.bias = mode))),
    });
    this.equation = element("p", { class: "hint" });
    const sum = element("canvas", {
      class: "small",
      "aria-label": "Minkowski sum of the keys of the heads, with the subdivision dual to the cells",
      role: "img",
    });
    panel.append(
      this.counts,
      section(
        "Heads",
        this.number,
        this.size,
        this.bias,
        element(
          "div",
          { class: "row" },
          button("new keys", () =>
            this.change(() =>
              this.given.heads.forEach(
                (head) =>
                  (head.keys = randomKeys(head.keys.length, Math.floor(1e6 * Math.random()))),
              ),
            ),
          ),
        ),
      ),
      section("Minkowski sum", sum, this.equation),
    );
    this.dual = new Surface(
      sum,
      { paint: (pen, surface) => this.paintSum(pen, surface) },
      { isFixed: true },
    );
  }

  setHeads(n) {
    const { heads } = this.given;
    while (heads.length < n)
      heads.push({
        keys: randomKeys(heads[0].keys.length, 21 + heads.length),
        bias: heads[0].bias,
      });
    heads.length = n;
  }

  refresh() {
    const { heads, window } = this.given;
    this.number.set(String(heads.length));
    this.size.set(heads[0].keys.length);
    this.bias.set(heads[0].bias);
    this.surface.look(window);
    this.update();
  }

  update() {
    const { heads } = this.given,
      began = performance.now();
    this.network = networkOfHeads(heads);
    this.found = findCells(this.app.engine, this.network, { plane: true });
    this.latency = performance.now() - began;
    const sizes = heads.map(({ keys }) => keys.length);
    this.bound = mostCells(sizes, heads[0].bias !== "none");
    this.counts.set({
      cells: this.found.n,
      bound: this.bound,
      product: sizes.reduce((a, b) => a * b, 1),
    });
    this.equation.textContent = `${this.found.n} points, one per cell: the sum of the keys that win there. There are at most ${this.bound}.`;
    this.app.announce(`${this.found.n} joint cells; the bound is ${this.bound}`);
    this.recolour();
    this.surface.request();
    this.dual.request();
  }

  recolour() {
    if (this.found)
      this.colours = cellColours(
        this.found,
        this.given.heads.map(() => 1),
        this.app.isDark,
      );
  }

  change(act, isDone = true) {
    act();
    this.update();
    if (isDone) this.app.commit();
  }

  grab([x, y], tolerance, surface) {
    let best = null,
      least = tolerance;
    this.given.heads.forEach(({ keys }, h) =>
      keys.forEach(([a, b], j) => {
        const distance = Math.hypot(a - x, b - y);
        if (distance <= least) ((best = [h, j]), (least = distance));
      }),
    );
    if (!best) return null;
    const [h, j] = best,
      step = 2 ** Math.ceil(Math.log2(surface.half / 400)),
      near = (z) => Math.round(z / step) * step;
    return {
      move: ([u, v]) => {
        this.given.heads[h].keys[j] = [near(u), near(v), this.given.heads[h].keys[j][2]];
        this.update();
      },
      end: () => this.app.commit(),
    };
  }

  keepWindow() {
    this.given.window = this.surface.window;
    this.app.commit();
  }

  headOf(code) {
    const { starts } = this.network.layers[0];
    let h = 0;
    while (starts[h + 1] <= code) h++;
    return h;
  }

  paint(pen, surface) {
    const { found, colours, given, app } = this,
      { seen } = surface;
    if (!found) return;
    for (let cell = 0; cell < found.n; cell++) {
      const points = onScreen(surface, cutToWindow(cornersOf(found, cell, seen), seen));
      if (points.length < 6) continue;
      const fill = css(Array.from(colours.subarray(3 * cell, 3 * cell + 3)));
      pen.polygon(points, { fill, stroke: fill, width: 0.7 });
    }
    for (let cell = 0; cell < found.n; cell++) {
      const points = cornersOf(found, cell, seen),
        first = found.starts[cell],
        n = points.length / 2;
      for (let i = 0; i < n; i++) {
        const code = found.walls[first + i];
        if (code < 0) continue;
        const k = (i + 1) % n,
          segment = segmentInWindow(
            points[2 * i],
            points[2 * i + 1],
            points[2 * k],
            points[2 * k + 1],
            seen,
          );
        if (segment)
          pen.line(onScreen(surface, segment), {
            stroke: colourOf(this.headOf(code), app.isDark),
            width: 2,
          });
      }
    }
    given.heads.forEach(({ keys }, h) =>
      keys.forEach(([x, y]) =>
        pen.circle(...surface.toScreen(x, y), 6, {
          fill: colourOf(h, app.isDark),
          stroke: app.paper,
          width: 2,
        }),
      ),
    );
  }

  // Paint the mixed subdivision: one point per cell, one edge per wall.
  paintSum(pen, surface) {
    const { found, given, app } = this;
    if (!found) return;
    const { heads } = given,
      points = [];
    const { starts } = this.network.layers[0];
    for (let cell = 0; cell < found.n; cell++) {
      let x = 0,
        y = 0;
      heads.forEach(({ keys }, h) => {
        const [a, b] = keys[found.signatures[cell * found.nGroups + h]];
        ((x += a), (y += b));
      });
      points.push([x, y]);
    }
    const hull = hullOf(points),
      xs = points.map(([x]) => x),
      ys = points.map(([, y]) => y);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)],
      aspect = surface.width / surface.height;
    Object.assign(surface, {
      x: (x0 + x1) / 2,
      y: (y0 + y1) / 2,
      half: Math.max(0.58 * (y1 - y0), (0.58 * (x1 - x0)) / aspect, 0.1),
    });
    if (hull.length >= 6) pen.polygon(onScreen(surface, hull), { fill: app.wash });
    for (let cell = 0; cell < found.n; cell++) {
      for (let i = found.starts[cell]; i < found.starts[cell + 1]; i++) {
        const code = found.walls[i];
        if (code < 0) continue;
        const h = this.headOf(code),
          [a, b] = heads[h].keys[found.signatures[cell * found.nGroups + h]],
          [u, v] = heads[h].keys[code - starts[h]];
        const [x, y] = points[cell];
        pen.line(onScreen(surface, [x, y, x + u - a, y + v - b]), {
          stroke: colourOf(h, app.isDark),
          width: 1.2,
        });
      }
    }
    for (const [x, y] of points) pen.circle(...surface.toScreen(x, y), 2.8, { fill: app.ink });
  }

  python() {
    const list = (rows) => `[${rows.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
    const heads = this.given.heads.map((head) => {
      const keys = list(head.keys.map(([x, y]) => [x, y]));
      return `    hm.AttentionHead(np.eye(2), ${keys}, ${keys}, np.eye(2), logit_bias=[${offsetsOf(head).join(", ")}]),`;
    });
    return [
      "import numpy as np",
      "import hardmax as hm",
      "",
      "heads = [",
      ...heads,
      "]",
      "part = hm.enumerate_regions(hm.HardTransformer([hm.Block(heads)]), hm.WholeSpace(2))",
      `print(part.n_cells)  # ${this.found.n}, at most ${this.bound}`,
      "hm.plot(part)",
      "",
    ].join("\n");
  }

  json() {
    const { found, given } = this;
    return {
      heads: given.heads.map((head) => ({
        keys: head.keys.map(([x, y]) => [x, y]),
        logit_bias: offsetsOf(head),
      })),
      n_cells: found.n,
      most_cells: this.bound,
      winners: Array.from({ length: found.n }, (_, i) =>
        Array.from(found.signatures.subarray(i * found.nGroups, (i + 1) * found.nGroups)),
      ),
    };
  }
}
