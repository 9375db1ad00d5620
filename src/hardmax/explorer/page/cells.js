// The cells of a network on a plane, found by the worker thread: requesting, counting, inspecting, painting
// and certifying them. The views of regions and of real models extend this class.
import { css, wallColour } from "./colours.js";
import { button, element, formatFixed, groupDigits, section } from "./controls.js";
import { wallOf } from "./counting.js";
import { WALL, drawingOf } from "./drawings.js";
import { outputForms, readDomain, signatureOf } from "./engine.js";
import { divide, unitOf } from "./exact.js";
import { nameWall, titleOf, truncate } from "./models.js";
import { CanvasPen } from "./pens.js";
import { Raster } from "./raster.js";
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

const MANY = 30000;
const PATIENCE = 300;
const SLOW = 1500;
const MOST_COUNTED = 400000;

// A subclass defines: `given`, its part of the state; `model`, plain data; `domain`; `network`; `shown`, data
// that it needs back together with the cells; `counts`, the numbers of its panel; grab(point, tolerance);
// paintOver(pen, surface). With `isLight`, regions and maps are not counted.
export class CellsView {
  constructor(app, stage) {
    Object.assign(this, {
      app,
      stage,
      cells: null,
      hovered: -1,
      waiting: null,
      question: null,
      latency: 0,
      isLight: false,
    });
    this.picture = { canvas: document.createElement("canvas") };
    this.surface = new Surface(stage, {
      paint: (pen, surface) => this.paint(pen, surface),
      grab: (point, tolerance) => this.grab(point, tolerance),
      hover: (point) => this.hover(point),
      tap: (point) => this.hover(point),
      doubleTap: (point) => this.zoomInto(point),
      moved: () => this.keepWindow(),
      key: (event) => this.key(event),
    });
    this.status = element("p", { class: "hint status" }, "");
    this.alarm = element("p", { class: "hint alarm", role: "alert", hidden: true });
    this.stopButton = button("stop", () => this.cancel(), { title: "stop this search" });
    this.stopButton.hidden = true;
    this.info = element("div", { class: "info" });
    this.proof = element("div", { class: "hint", role: "status" });
    this.proofSection = section(
      "Proof",
      button("certificate", () => this.certify(), {
        title: "make a certificate that all cells are listed, and check it in integers",
      }),
      this.proof,
    );
  }

  warn(words) {
    this.alarm.textContent = words;
    this.alarm.hidden = false;
  }

  // --- Questions to the worker thread --------------------------------------------------------------

  // One question is being answered, and only the newest one waits. The waiting one replaces a search that
  // takes long.
  ask() {
    this.alarm.hidden = true;
    this.waiting = {
      model: this.model,
      domain: this.domain,
      depth: this.given.depth ?? this.network.layers.length,
      network: truncate(this.network, this.given.depth ?? this.network.layers.length),
      shown: this.shown,
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
      id: ++this.app.asked,
      since: performance.now(),
      isAnswered: false,
    };
    this.waiting = null;
    const { id, model, domain, depth } = this.question,
      { isLight } = this,
      { isDark } = this.app;
    if (this.app.worker) this.app.worker.postMessage({ id, model, domain, depth, isDark, isLight });
    else this.app.server.ask(this.question);
  }

  // Start a long search in the native engine as well, if there is one.
  askNatively() {
    if (this.question.isNative || !this.app.worker) return;
    this.question.isNative = true;
    this.app.server.ask(this.question);
  }

  // Stop the current search; the previous result stays visible.
  cancel() {
    this.app.worker?.postMessage({ id: 0, kind: "cancel" });
    this.app.server.cancel(this.question.id);
    this.question.isAnswered = true;
    this.question.id = -1;
    this.status.textContent = "stopped";
    this.stopButton.hidden = true;
    this.pump();
  }

  // Handle an answer of the worker thread or of the server.
  receive(answer) {
    const { question } = this,
      { id, found, counts, progress, error, isNative } = answer;
    if (!question || id !== question.id) return;
    if (error) {
      question.isAnswered = true;
      this.warn(error);
      this.pump();
      return;
    }
    if (answer.certificate !== undefined) {
      const { certificate, isProved, n } = answer;
      this.showProof(
        isProved ? { n, text: certificate } : { reason: "the certificate does not prove its claim" },
      );
      return;
    }
    if (progress !== undefined) {
      if (question.isAnswered || (question.isNative && !isNative)) return;
      this.status.textContent = `${groupDigits(progress)} cells so far${isNative ? ", by the native engine" : ""} …`;
      this.stopButton.hidden = false;
      if (performance.now() - question.since > SLOW) this.askNatively();
      return;
    }
    if (found && question.isAnswered) return;
    if (found) this.showCells(answer);
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

  showCells({ id, found, isComplete, isNative, nExact, drawing }) {
    const { question } = this;
    question.isAnswered = true;
    this.proof.replaceChildren();
    this.stopButton.hidden = true;
    if (isNative) this.app.worker?.postMessage({ id: 0, kind: "cancel" });
    else if (question.isNative) this.app.server.cancel(id);
    this.latency = performance.now() - question.since;
    const { network, domain, shown } = question;
    this.cells = { found, network, domain, shown, isComplete, counts: null };
    this.cells.drawing = drawing ?? drawingOf(found, network, this.app.isDark);
    this.recolour();
    this.counts.set({
      cells: isComplete ? found.n : `≥ ${groupDigits(found.n)}`,
      ...(isComplete ? {} : { regions: "–", maps: "–" }),
    });
    this.counts.fade(isComplete ? ["regions", "maps"] : []);
    const how = isNative
      ? ", by the native engine"
      : nExact > 0
        ? `, ${nExact} splits by integers`
        : "";
    this.status.textContent = `exact, ${this.latency.toFixed(1)} ms${how}`;
    if (isNative) this.countHere(question, found);
    this.app.announce(`${found.n} cells`);
    this.hovered = -1;
  }

  // Count the regions and maps of cells that the server found here, if the page has an engine.
  countHere({ id, model, domain, depth }, found) {
    if (found.n <= MOST_COUNTED) this.app.worker?.postMessage({ id, model, domain, depth, found });
    else this.counts.set({ regions: "–", maps: "–" });
  }

  recolour() {
    if (!this.cells) return;
    const { cells } = this,
      { found, network, counts } = cells,
      { isDark } = this.app;
    if (cells.drawing.isDark !== isDark) cells.drawing = drawingOf(found, network, isDark);
    cells.colours = cells.drawing.colours;
    const kind = this.given.colour;
    if (!counts || (kind !== "region" && kind !== "map")) return;
    // All cells of a region, or all cells with one map, have the colour of the first of them.
    const labels = kind === "map" ? counts.maps : counts.regions,
      firsts = new Map();
    cells.colours = cells.colours.slice();
    for (let i = 0; i < found.n; i++) {
      if (!firsts.has(labels[i])) firsts.set(labels[i], i);
      const from = firsts.get(labels[i]);
      cells.colours.copyWithin(3 * i, 3 * from, 3 * from + 3);
    }
  }

  // --- Proofs ----------------------------------------------------------------------------------------

  // Make and check a certificate of the cells shown, or check a given certificate, in a separate thread; or
  // on the server if the page has no engine.
  certify(certificate) {
    const { question } = this;
    if (!question) return;
    this.proof.textContent = certificate
      ? "checking the certificate …"
      : "making a certificate and checking it …";
    if (!this.app.worker) {
      this.app.server.certify(question);
      return;
    }
    const { id, model, domain, depth } = question;
    this.app.askOnce({ id, kind: "certificate", model, domain, depth, certificate }, (answer) => {
      if (answer.id === this.question.id && answer.progress === undefined)
        this.showProof(answer.proof ?? { reason: answer.error });
    });
  }

  showProof({ n, reason, isGiven, text, model }) {
    if (reason !== undefined) {
      const what = isGiven ? "The certificate is refused" : "No proof";
      this.proof.replaceChildren(element("p", { class: "alarm" }, `${what}: ${reason}`));
      return;
    }
    const save = (name, content, type) =>
      content ? button(name, () => this.app.download(new Blob([content], { type }), name)) : null;
    this.proof.replaceChildren(
      element("p", {}, `Proved in integers: all cells are listed, ${groupDigits(n)} in total.`),
      element(
        "div",
        { class: "row" },
        save("certificate.json", text, "application/json"),
        save("model.safetensors", model, "application/octet-stream"),
      ),
    );
    if (model)
      this.proof.append(
        element("p", {}, "To check it elsewhere, save both files and run "),
        element("code", {}, "hardmax verify model.safetensors certificate.json"),
      );
    this.app.announce("proved");
  }

  // --- Inspecting ----------------------------------------------------------------------------------

  cellAt(point) {
    if (!point || !this.cells) return -1;
    const { found, drawing } = this.cells,
      { boxes } = drawing,
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

  // Keyboard: ] and [ move from cell to cell, Enter zooms into the current one.
  key(event) {
    if (!this.cells || event.ctrlKey || event.metaKey || event.altKey) return false;
    const step = { "]": 1, "[": -1 }[event.key],
      { n } = this.cells.found;
    if (event.key === "Enter" && this.hovered >= 0) return (this.zoomInto(this.pointer), true);
    if (!step || n === 0) return false;
    const from = this.hovered < 0 ? (step > 0 ? -1 : 0) : this.hovered;
    this.goTo((from + step + n) % n);
    return true;
  }

  // Select a cell and announce the facts about it.
  goTo(cell) {
    const { surface } = this,
      corners = cornersOf(this.cells.found, cell, surface.seen),
      cut = cutToWindow(corners, surface.seen);
    const points = cut.length > 0 ? cut : corners,
      middle = [0, 1].map(
        (k) =>
          points.filter((_, i) => i % 2 === k).reduce((sum, z) => sum + z, 0) / (points.length / 2),
      );
    if (cut.length === 0) {
      surface.look({ ...surface.window, x: middle[0], y: middle[1] });
      this.keepWindow();
    }
    this.pointer = middle;
    this.hovered = cell;
    this.tell();
    const facts = Array.from(this.info.querySelectorAll("dt, dd"), (one) => one.textContent);
    this.app.announce(`cell ${cell}, one of ${this.cells.found.n}: ${facts.join(" ")}`);
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

  // Show the facts about the cell under the pointer.
  tell() {
    const { cells, hovered } = this;
    if (!cells || hovered < 0) {
      this.info.replaceChildren(
        element("p", {}, "Move the pointer over a cell. Double-click to zoom into it."),
      );
      return;
    }
    const { found, network, domain } = cells,
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
          element("dt", {}, titleOf(network.words[i])),
          element("dd", {}, part.length > 40 ? `${part.slice(0, 38)} …` : part),
        ),
      );
      first += layer.nGroups;
    });
    const forms = outputForms(network, readDomain(domain).chart, signature),
      [up, down] = unitOf(forms);
    forms.rows.slice(0, 3).forEach((row, i) => {
      const [a, b, c] = row.map((x) => divide(x * up, down)[0]);
      const term = (x) => `${x < 0 ? "\u2212" : "+"} ${formatFixed(Math.abs(x)).trim()}`;
      lines.push(
        element(
          "div",
          {},
          element("dt", {}, `output ${i}`),
          element("dd", {}, `${formatFixed(a)} x ${term(b)} y ${term(c)}`),
        ),
      );
    });
    lines.push(
      element(
        "div",
        {},
        element("dt", {}, "nearest wall"),
        element("dd", {}, this.nearestWall()),
      ),
    );
    this.info.replaceChildren(element("dl", { class: "facts" }, ...lines));
  }

  nearestWall() {
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
    return this.nameWall(layer, group, winner, rival);
  }

  nameWall(layer, group, winner, rival) {
    return nameWall(this.cells.network, layer, group, winner, rival);
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
    this.paintOver(pen, surface);
  }

  // Cells are painted into a separate picture, which is reused until the cells or the window change. While
  // the window moves over very many cells, the picture itself is moved.
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
      const { canvas } = picture,
        { width, height } = surface.canvas;
      if (picture.raster?.width !== width || picture.raster.height !== height) {
        Object.assign(canvas, { width, height });
        picture.raster = new Raster(width, height);
      }
      this.paintPixels(picture.raster, surface);
      canvas.getContext("2d").putImageData(picture.raster.image, 0, 0);
    }
    pen.context.drawImage(picture.canvas, 0, 0, width, height);
  }

  // Whether a cell may be visible.
  isSeen(cell, [x0, y0, x1, y1]) {
    const { boxes } = this.cells.drawing,
      at = 4 * cell;
    return boxes[at] <= x1 && boxes[at + 2] >= x0 && boxes[at + 1] <= y1 && boxes[at + 3] >= y0;
  }

  // Walls around cells of a few pixels are fainter or omitted.
  wallStrength(cell, pixel) {
    const { boxes } = this.cells.drawing,
      at = 4 * cell;
    const size = Math.max(boxes[at + 2] - boxes[at], boxes[at + 3] - boxes[at + 1]) / pixel;
    return size < 3 ? 0 : size < 12 ? 0.4 : 0.85;
  }

  // Walls of later blocks are thinner; walls of units are thinner than walls of heads.
  wallWidth(block, head) {
    return Math.max(0.5, 1.8 * 0.72 ** block * (head < 0 ? 0.75 : 1));
  }

  paintPixels(raster, surface) {
    const { found, colours, drawing } = this.cells,
      { walls } = drawing,
      { seen, ratio } = surface,
      unit = surface.unit * ratio,
      left = (surface.width * ratio) / 2,
      top = (surface.height * ratio) / 2;
    raster.clear();
    let points = new Float64Array(64);
    // Write the pixel of a vertex.
    const corner = (i, k) => {
      let x = found.points[2 * i],
        y = found.points[2 * i + 1];
      if (found.directions) [x, y] = cornerOf(found, i, seen);
      points[k] = left + (x - surface.x) * unit;
      points[k + 1] = top - (y - surface.y) * unit;
    };
    for (let cell = 0; cell < found.n; cell++) {
      if (!this.isSeen(cell, seen)) continue;
      const first = found.starts[cell],
        n = 2 * (found.starts[cell + 1] - first);
      if (n > points.length) points = new Float64Array(2 * n);
      for (let k = 0; k < n; k += 2) corner(first + k / 2, k);
      raster.polygon(points, n, colours[3 * cell], colours[3 * cell + 1], colours[3 * cell + 2]);
    }
    const inks = this.inks(),
      pixel = 1 / surface.unit;
    for (let at = 0; at < walls.length; at += WALL) {
      const cell = walls[at],
        head = walls[at + 4];
      const strength = this.isSeen(cell, seen) ? this.wallStrength(cell, pixel) : 0;
      if (strength === 0) continue;
      for (let k = 0; k < 2; k++) corner(walls[at + 1 + k], 2 * k);
      const [r, g, b] = inks[head + 1],
        size = this.wallWidth(walls[at + 3], head) * ratio;
      raster.line(points[0], points[1], points[2], points[3], size, r, g, b, strength);
    }
  }

  // Paint the same cells with a pen.
  paintCells(pen, surface) {
    const { found, colours, drawing } = this.cells,
      { seen } = surface;
    for (let cell = 0; cell < found.n; cell++) {
      if (!this.isSeen(cell, seen)) continue;
      const points = onScreen(surface, cutToWindow(cornersOf(found, cell, seen), seen));
      if (points.length >= 6)
        pen.polygon(points, { fill: css(colours.subarray(3 * cell, 3 * cell + 3)) });
    }
    // Walls with the same style form one path.
    const inks = this.inks(),
      lists = new Map();
    for (let at = 0; at < drawing.walls.length; at += WALL) {
      const [cell, edge, next, block, head] = drawing.walls.subarray(at, at + WALL);
      const strength = this.isSeen(cell, seen) ? this.wallStrength(cell, 1 / surface.unit) : 0;
      if (strength === 0) continue;
      const ends = [...cornerOf(found, edge, seen), ...cornerOf(found, next, seen)];
      const segment = segmentInWindow(...ends, seen),
        key = [strength, block, head].join();
      if (!lists.has(key)) lists.set(key, { strength, block, head, list: [] });
      if (segment) lists.get(key).list.push(...segment);
    }
    for (const { strength, block, head, list } of lists.values())
      pen.segments(onScreen(surface, list), {
        stroke: css(inks[head + 1], strength),
        width: this.wallWidth(block, head),
      });
  }

  // The colours of walls: first the colour of units, then the colours of head 0, 1, ...
  inks() {
    const { layers } = this.cells.network,
      most = Math.max(...layers.map((layer) => layer.nGroups), 0);
    return Array.from({ length: most + 1 }, (_, i) => wallColour(i - 1, this.app.isDark));
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

  // --- Exports ---------------------------------------------------------------------------------------

  // A Python snippet that recomputes the cells shown.
  python() {
    const { model } = this,
      { box, rows, chart } = this.domain,
      list = (values) => `[${values.join(", ")}]`;
    const inner = box
      ? `hm.Box([${box[0]}, ${box[1]}], [${box[2]}, ${box[3]}])`
      : rows
        ? `hm.Polytope.from_rows([${rows.map((row) => `(${row.join(", ")})`).join(", ")}], 2)`
        : "hm.WholeSpace(2)";
    const { found, counts } = this.cells ?? {};
    return [
      "import numpy as np",
      "import hardmax as hm",
      "",
      ...modelText(model),
      `part = hm.enumerate_regions(model, ${chart ? `hm.Slice(${list(chart.bias)}, [${chart.weight.map(list)}], ${inner})` : inner})`,
      `print(part.n_cells, part.n_regions, part.n_affine_maps)${this.isWhole ? `  # ${found.n} ${counts?.nRegions ?? ""} ${counts?.nMaps ?? ""}` : ""}`,
      "hm.plot(part)",
      "",
    ].join("\n");
  }

  get isWhole() {
    return (
      this.cells?.isComplete && this.cells.network.layers.length === this.network.layers.length
    );
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
