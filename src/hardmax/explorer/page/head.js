// View 1, a head: draggable keys, the exact diagram of their cells, its Newton polytope, and the temperature
// from soft to hard.
import { css, keyColour, strongColour } from "./colours.js";
import {
  button,
  choice,
  element,
  formatFixed,
  numbers,
  pointerSection,
  section,
  slider,
  toggle,
} from "./controls.js";
import { certainMargin, certainPart, diagramOf, paintField, rankingAt } from "./diagrams.js";
import { randomNumbers } from "./models.js";
import { Surface, cornersOf, cutToWindow, onScreen, segmentInWindow } from "./surface.js";

const MOST_KEYS = 200;
const SHARE = 0.01;

export function randomKeys(n, seed) {
  const { uniform, normal } = randomNumbers(seed);
  return Array.from({ length: n }, () => {
    const radius = 2.4 * Math.sqrt(uniform()),
      angle = 2 * Math.PI * uniform();
    return [
      onGrid(radius * Math.cos(angle), 1 / 64),
      onGrid(radius * Math.sin(angle), 1 / 64),
      normal(0.7),
    ];
  });
}

export const firstHead = () => ({
  keys: randomKeys(12, 7),
  bias: "norm",
  tau: 0,
  band: true,
  snap: false,
  window: { x: 0, y: 0, half: 3 },
});

const onGrid = (x, step) => Math.round(x / step) * step;

// Slider positions and temperatures: position 0 is hard, the others are on a logarithmic scale.
const tauAt = (position) =>
  position === 0 ? 0 : Math.round(1e4 * 0.01 * 10 ** (position / 40)) / 1e4;
const positionOf = (tau) => (tau === 0 ? 0 : Math.max(1, Math.round(40 * Math.log10(tau / 0.01))));
const tauText = (tau) => (tau === 0 ? "hard" : tau.toFixed(tau < 0.1 ? 3 : 2));

export class HeadView {
  // `app` has state, engine, isDark, and commit(), which ends a change.
  constructor(app, stage, panel) {
    Object.assign(this, { app, stage, selected: -1, hovered: -1, pointer: null, coarse: 5 });
    this.picture = document.createElement("canvas");
    this.surface = new Surface(stage, {
      paint: (pen, surface) => this.paint(pen, surface),
      grab: (point, tolerance) => this.grab(point, tolerance, this.surface),
      hover: (point) => this.hover(point),
      tap: (point) => this.select(this.keyNear(point, 13 / this.surface.unit)),
      doubleTap: (point) => this.add(point),
      key: (event) => this.key(event),
      moved: () => this.keepWindow(),
    });
    this.makePanel(panel);
    this.refresh();
  }

  get head() {
    return this.app.state.head;
  }

  makePanel(panel) {
    this.counts = numbers({
      cells: "cells of the diagram",
      keys: "all keys",
      dead: "keys that do not win anywhere",
    });
    this.tau = slider({
      label: "temperature",
      min: 0,
      max: 100,
      value: 0,
      text: (position) => tauText(tauAt(position)),
      oninput: (position) => this.change(() => (this.head.tau = tauAt(position)), false),
      onchange: () => this.app.commit(),
    });
    this.bias = choice({
      label: "bias",
      value: this.head.bias,
      options: {
        none: { text: "none", hint: "scores ⟨k, x⟩: the cells are cones" },
        norm: { text: "Voronoi", hint: "bias −½‖k‖²: the nearest key wins" },
        own: { text: "weighted", hint: "bias −½‖k‖² plus a weight for each key: a power diagram" },
      },
      onchange: (mode) => this.change(() => (this.head.bias = mode)),
    });
    this.band = toggle({
      label: "mark where all other keys together have at most 1 % of the attention",
      value: this.head.band,
      onchange: (is) => this.change(() => (this.head.band = is)),
    });
    this.snap = toggle({
      label: "snap keys to a grid of ¼ (makes ties common)",
      value: this.head.snap,
      onchange: (is) => this.change(() => (this.head.snap = is)),
    });
    this.count = slider({
      label: "keys",
      min: 1,
      max: 60,
      value: this.head.keys.length,
      oninput: (n) => this.setCount(n),
      onchange: () => this.app.commit(),
    });
    this.info = element("p", { class: "info", "aria-live": "off" }, "");
    this.fields = ["x", "y", "weight"].map((name, k) =>
      element("input", {
        type: "number",
        step: "0.125",
        "aria-label": `${name} of the selected key`,
        onchange: (event) => this.type(k, Number(event.target.value)),
      }),
    );
    this.editor = element(
      "div",
      { class: "editor" },
      ...["x", "y", "weight"].map((name, k) => element("label", {}, name, this.fields[k])),
      button("delete", () => this.remove(), { title: "delete the selected key (Delete)" }),
    );
    const polytope = element("canvas", {
      class: "small",
      "aria-label": "Newton polytope of the keys, with the subdivision dual to the diagram",
      role: "img",
    });
    panel.append(
      this.counts,
      section("Temperature", this.tau, this.band),
      section("Bias of the keys", this.bias),
      section(
        "Newton polytope",
        polytope,
        element(
          "p",
          { class: "hint" },
          "Each edge corresponds to a wall of the diagram, and each point is a key. You can drag keys here too.",
        ),
      ),
      section(
        "Keys",
        this.count,
        this.snap,
        element(
          "div",
          { class: "row" },
          button("add", () => this.add(null), { title: "add a key (N, or double-click)" }),
          button("new keys", () => this.shuffle()),
        ),
        this.editor,
      ),
      pointerSection(this.info),
    );
    this.dual = new Surface(
      polytope,
      {
        paint: (pen, surface) => this.paintPolytope(pen, surface),
        grab: (point, tolerance) => this.grab(point, tolerance, this.dual),
        hover: (point) => this.highlight(point ? this.keyNear(point, 13 / this.dual.unit) : -1),
        tap: (point) => this.select(this.keyNear(point, 13 / this.dual.unit)),
        key: (event) => this.key(event),
      },
      { isFixed: true },
    );
  }

  // Show a state that has been replaced.
  refresh() {
    const { head } = this;
    this.tau.set(positionOf(head.tau));
    for (const name of ["bias", "band", "snap"]) this[name].set(head[name]);
    this.count.set(head.keys.length);
    this.selected = Math.min(this.selected, head.keys.length - 1);
    this.surface.look(head.window);
    this.update();
  }

  update() {
    const began = performance.now();
    this.diagram = diagramOf(this.app.engine, this.head);
    this.latency = performance.now() - began;
    const { found, cellOf, twin } = this.diagram;
    this.dead = cellOf.map((cell, j) => cell < 0 && twin[j] < 0);
    const nDead = this.dead.filter(Boolean).length;
    this.counts.set({ cells: found.n, keys: this.head.keys.length, dead: nDead });
    this.app.announce(`${found.n} cells, ${nDead} dead keys`);
    this.editor.hidden = this.selected < 0;
    this.fields[2].disabled = this.head.bias !== "own";
    if (this.selected >= 0)
      this.fields.forEach(
        (field, k) =>
          document.activeElement !== field &&
          (field.value = String(this.head.keys[this.selected][k])),
      );
    if (this.pointer && this.hovered >= 0) this.hovered = this.winnerAt(this.pointer);
    this.tell();
    this.surface.request();
    this.dual.request();
  }

  winnerAt(point) {
    return rankingAt(this.head, this.diagram.offsets, point, 0).first;
  }

  change(act, isDone = true) {
    act();
    this.update();
    if (isDone) this.app.commit();
  }

  keyNear([x, y], tolerance) {
    let best = -1,
      least = tolerance;
    this.head.keys.forEach(([a, b], j) => {
      const distance = Math.hypot(a - x, b - y);
      if (distance <= least) ((best = j), (least = distance));
    });
    return best;
  }

  grab(point, tolerance, surface) {
    const j = this.keyNear(point, tolerance);
    if (j < 0) return null;
    this.select(j);
    const [a, b] = this.head.keys[j],
      offset = [a - point[0], b - point[1]];
    const step = this.head.snap ? 0.25 : 2 ** Math.ceil(Math.log2(surface.half / 400));
    let isMoved = false;
    return {
      move: ([x, y]) => {
        this.head.keys[j] = [
          onGrid(x + offset[0], step),
          onGrid(y + offset[1], step),
          this.head.keys[j][2],
        ];
        this.pointer = [x, y];
        isMoved = true;
        this.update();
      },
      end: () => isMoved && this.app.commit(),
    };
  }

  select(j) {
    this.selected = j;
    this.update();
  }

  highlight(j) {
    if (this.hovered === j) return;
    this.hovered = j;
    this.surface.request();
    this.dual.request();
  }

  hover(point) {
    this.pointer = point;
    this.highlight(point ? this.winnerAt(point) : -1);
    this.tell();
  }

  tell() {
    const { head, diagram, pointer } = this;
    if (!pointer) {
      this.info.textContent = "Move the pointer over the diagram.";
      return;
    }
    const { first, second, margin, weight } = rankingAt(head, diagram.offsets, pointer, head.tau);
    const rest =
      second === undefined ? "" : `, ahead of key ${second} by ${formatFixed(margin).trim()}`;
    this.info.textContent =
      `(${formatFixed(pointer[0], 2)}, ${formatFixed(pointer[1], 2)}): key ${first} wins${rest}.` +
      (head.tau > 0 ? ` Its attention weight is ${weight.toFixed(3)}.` : "");
  }

  add(point) {
    const { head } = this;
    if (head.keys.length >= MOST_KEYS) return;
    const { uniform } = randomNumbers(head.keys.length + 11);
    const [x, y] = point ?? [
      this.surface.x + this.surface.half * (uniform() - 0.5),
      this.surface.y + this.surface.half * (uniform() - 0.5),
    ];
    const step = head.snap ? 0.25 : 2 ** Math.ceil(Math.log2(this.surface.half / 400));
    head.keys.push([onGrid(x, step), onGrid(y, step), 0]);
    this.selected = head.keys.length - 1;
    this.count.set(head.keys.length);
    this.change(() => {});
  }

  remove() {
    const { head, selected } = this;
    if (selected < 0 || head.keys.length < 2) return;
    head.keys.splice(selected, 1);
    this.selected = this.hovered = -1;
    this.count.set(head.keys.length);
    this.change(() => {});
  }

  setCount(n) {
    const { head } = this;
    if (n > head.keys.length) head.keys.push(...randomKeys(n, 40 + n).slice(head.keys.length));
    head.keys.length = n;
    this.selected = Math.min(this.selected, n - 1);
    this.update();
  }

  shuffle() {
    const seed = Math.floor(1e6 * Math.random());
    this.change(() => (this.head.keys = randomKeys(this.head.keys.length, seed)));
  }

  type(k, value) {
    if (!Number.isFinite(value) || this.selected < 0) return;
    this.change(() => (this.head.keys[this.selected][k] = value));
  }

  key(event) {
    const { selected, head } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "n") return (this.add(null), true);
    if (event.key === "Delete" || event.key === "Backspace") return (this.remove(), true);
    if (event.key === "Escape") return (this.select(-1), true);
    if (event.key === "[" || event.key === "]") {
      const n = head.keys.length;
      return (
        this.select(
          (Math.max(selected, -1) +
            (event.key === "]" ? 1 : n + n - 1) +
            (selected < 0 && event.key === "[" ? 1 : 0)) %
            n,
        ),
        true
      );
    }
    const step =
      (head.snap ? 0.25 : 2 ** Math.ceil(Math.log2(this.surface.half / 100))) *
      (event.shiftKey ? 4 : 1);
    const moves = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, step],
      ArrowDown: [0, -step],
    };
    if (selected < 0 || !moves[event.key]) return false;
    const [dx, dy] = moves[event.key],
      [x, y, b] = head.keys[selected];
    this.change(() => (head.keys[selected] = [x + dx, y + dy, b]));
    return true;
  }

  keepWindow() {
    this.head.window = this.surface.window;
    this.app.commit();
  }

  // --- Painting ----------------------------------------------------------------------------------

  paint(pen, surface) {
    const { head, diagram, app } = this;
    if (!diagram) return;
    const { found, winners } = diagram,
      { seen } = surface,
      { ink } = app;
    const isSoft = head.tau > 0;
    if (isSoft) {
      // The field has fewer pixels while something moves.
      const coarse = surface.dragged || this.dual.dragged ? this.coarse : 3,
        began = performance.now();
      this.picture.width = Math.ceil(surface.width / coarse);
      this.picture.height = Math.ceil(surface.height / coarse);
      paintField(
        this.picture,
        head,
        diagram.offsets,
        head.keys.map((_, j) => keyColour(j, app.isDark)),
        head.tau,
        surface,
      );
      pen.image(this.picture, surface.width, surface.height);
      if (coarse > 3)
        this.coarse = Math.min(
          10,
          Math.max(4, this.coarse + (performance.now() - began > 7 ? 1 : -1)),
        );
    }
    const margin = isSoft && head.band ? certainMargin(head.keys.length, head.tau, SHARE) : 0;
    for (let cell = 0; cell < found.n; cell++) {
      const winner = winners[cell],
        isHovered = winner === this.hovered;
      const points = cutToWindow(cornersOf(found, cell, seen), seen);
      if (points.length < 6) continue;
      const fill = isSoft
        ? isHovered
          ? css(strongColour(winner, app.isDark), 0.12)
          : null
        : css(keyColour(winner, app.isDark));
      if (fill) pen.polygon(onScreen(surface, points), { fill });
      if (!isSoft && isHovered)
        pen.polygon(onScreen(surface, points), {
          fill: css(strongColour(winner, app.isDark), 0.22),
        });
      if (margin > 0) {
        const part = cutToWindow(certainPart(head, diagram, cell, margin, seen), seen);
        if (part.length >= 6)
          pen.polygon(onScreen(surface, part), {
            fill: css(keyColour(winner, app.isDark)),
            stroke: css(strongColour(winner, app.isDark), 0.55),
            width: 1,
            dash: [4, 3],
          });
      }
    }
    this.paintWalls(pen, surface, isSoft ? 0.8 : 1.6);
    head.keys.forEach((key, j) => this.paintKey(pen, surface, j, ink));
  }

  paintWalls(pen, surface, width) {
    const { found, winners } = this.diagram,
      { seen } = surface;
    for (let cell = 0; cell < found.n; cell++) {
      const points = cornersOf(found, cell, seen),
        first = found.starts[cell],
        n = points.length / 2;
      for (let i = 0; i < n; i++) {
        if (found.walls[first + i] <= winners[cell]) continue;
        const k = (i + 1) % n;
        const segment = segmentInWindow(
          points[2 * i],
          points[2 * i + 1],
          points[2 * k],
          points[2 * k + 1],
          seen,
        );
        const isLit = this.hovered === winners[cell] || this.hovered === found.walls[first + i];
        if (segment)
          pen.line(onScreen(surface, segment), {
            stroke: this.app.ink,
            width: isLit ? width + 1 : width,
          });
      }
    }
  }

  paintKey(pen, surface, j, ink) {
    const { isDark, paper } = this.app,
      [x, y] = this.head.keys[j],
      [px, py] = surface.toScreen(x, y);
    const colour = css(strongColour(j, isDark)),
      isChosen = j === this.selected;
    if (isChosen || j === this.hovered)
      pen.circle(px, py, 12, { stroke: ink, width: isChosen ? 2 : 1 });
    if (this.dead[j]) {
      pen.circle(px, py, 6, { fill: paper, stroke: colour, width: 1.6, dash: [3, 2.4] });
      pen.line([px - 2.6, py - 2.6, px + 2.6, py + 2.6], { stroke: colour, width: 1.6 });
      pen.line([px - 2.6, py + 2.6, px + 2.6, py - 2.6], { stroke: colour, width: 1.6 });
    } else pen.circle(px, py, 6.5, { fill: colour, stroke: paper, width: 2 });
    if (this.head.keys.length <= 24) pen.text(px + 10, py - 10, String(j), { fill: ink, size: 11 });
  }

  paintPolytope(pen, surface) {
    const { head, diagram, app } = this;
    if (!diagram) return;
    const xs = head.keys.map(([x]) => x),
      ys = head.keys.map(([, y]) => y);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (!surface.dragged && !this.surface.dragged) {
      const aspect = surface.width / surface.height;
      Object.assign(surface, {
        x: (x0 + x1) / 2,
        y: (y0 + y1) / 2,
        half: Math.max(0.6 * (y1 - y0), (0.6 * (x1 - x0)) / aspect, 0.1),
      });
    }
    const hull = hullOf(head.keys);
    if (hull.length >= 6) pen.polygon(onScreen(surface, hull), { fill: app.wash });
    for (const [i, j] of diagram.edges) {
      const isLit = this.hovered === i || this.hovered === j;
      pen.line(onScreen(surface, [...head.keys[i].slice(0, 2), ...head.keys[j].slice(0, 2)]), {
        stroke: app.ink,
        width: isLit ? 2.4 : 1,
      });
    }
    head.keys.forEach(([x, y], j) => {
      const [px, py] = surface.toScreen(x, y),
        colour = css(strongColour(j, app.isDark));
      if (j === this.selected || j === this.hovered)
        pen.circle(px, py, 9, { stroke: app.ink, width: 1.4 });
      pen.circle(
        px,
        py,
        4.5,
        this.dead[j]
          ? { fill: app.paper, stroke: colour, width: 1.3, dash: [2, 2] }
          : { fill: colour, stroke: app.paper, width: 1.4 },
      );
    });
  }

  // --- Exports -------------------------------------------------------------------------------------

  python() {
    const { head } = this,
      list = (rows) => `[${rows.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
    const bias = head.bias === "none" ? "None" : `[${this.diagram.offsets.join(", ")}]`;
    return [
      "import numpy as np",
      "import hardmax as hm",
      "",
      `keys = np.array(${list(head.keys.map(([x, y]) => [x, y]))})`,
      `bias = ${bias}`,
      "head = hm.AttentionHead(np.eye(2), keys, keys, np.eye(2), logit_bias=bias)",
      "part = hm.enumerate_regions(hm.HardTransformer([hm.Block([head])]), hm.WholeSpace(2))",
      `print(part.n_cells)  # ${this.diagram.found.n}`,
      "hm.plot(head.diagram)",
      "",
    ].join("\n");
  }

  json() {
    const { head, diagram } = this;
    return {
      keys: head.keys.map(([x, y]) => [x, y]),
      logit_bias: diagram.offsets,
      temperature: head.tau,
      n_cells: diagram.found.n,
      winners: diagram.winners,
      dead: this.dead.flatMap((is, j) => (is ? [j] : [])),
      walls: diagram.edges,
    };
  }
}

// The convex hull of points, computed in floats, as x, y, x, y, ...
export function hullOf(points) {
  const sorted = points.map(([x, y]) => [x, y]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const chain = (list) => {
    const kept = [];
    for (const point of list) {
      while (kept.length > 1 && turn(kept[kept.length - 2], kept[kept.length - 1], point) <= 0)
        kept.pop();
      kept.push(point);
    }
    return kept.slice(0, -1);
  };
  return [...chain(sorted), ...chain(sorted.reverse())].flat();
}
