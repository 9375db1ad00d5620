// A canvas that shows a window of the plane, with painting, panning, zooming and dragging by mouse, touch and
// keyboard.
import { CanvasPen } from "./pens.js";

export class Surface {
  // `handlers`: paint(pen, surface) draws. grab(point, tolerance) returns an object with move(point) and
  // end(), which is then dragged, or null. hover(point or null), tap(point), doubleTap(point), key(event) and
  // moved() handle events. Points are [x, y] in the plane.
  constructor(canvas, handlers, { isFixed = false } = {}) {
    Object.assign(this, { canvas, handlers, isFixed, x: 0, y: 0, half: 3, frames: [] });
    this.pointers = new Map();
    this.isWaiting = false;
    canvas.tabIndex = 0;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"])
      canvas.addEventListener(name, (event) => this.up(event));
    canvas.addEventListener(
      "pointerleave",
      () => this.pointers.size === 0 && this.tell("hover", null),
    );
    canvas.addEventListener("dblclick", (event) => this.tell("doubleTap", this.pointOf(event)));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  tell(name, ...given) {
    return this.handlers[name]?.(...given);
  }

  look({ x, y, half }) {
    Object.assign(this, { x, y, half });
    this.request();
  }

  get window() {
    return { x: this.x, y: this.y, half: this.half };
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (width === 0 || height === 0) return;
    this.width = width;
    this.height = height;
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ratio = ratio;
    this.paint();
  }

  // Whether the window is being moved.
  get isMoving() {
    return (this.pointers.size > 0 && !this.dragged) || performance.now() < (this.movingUntil ?? 0);
  }

  // Pixels per unit of the plane.
  get unit() {
    return Math.min(this.width, this.height) / (2 * this.half);
  }

  toScreen(x, y) {
    return [this.width / 2 + (x - this.x) * this.unit, this.height / 2 - (y - this.y) * this.unit];
  }

  toPlane(px, py) {
    return [
      this.x + (px - this.width / 2) / this.unit,
      this.y - (py - this.height / 2) / this.unit,
    ];
  }

  // The visible part of the plane and a small margin: left, bottom, right, top.
  get seen() {
    const [x0, y1] = this.toPlane(-4, -4),
      [x1, y0] = this.toPlane(this.width + 4, this.height + 4);
    return [x0, y0, x1, y1];
  }

  request() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.paint();
    });
  }

  paint() {
    // Do not paint a view that has been replaced.
    if (!this.width || !this.canvas.isConnected) return;
    const context = this.canvas.getContext("2d"),
      began = performance.now();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.handlers.paint(new CanvasPen(context), this);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600) this.frames.shift();
  }

  pixelOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  pointOf(event) {
    return this.toPlane(...this.pixelOf(event));
  }

  down(event) {
    if (event.button > 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.dataset.by = "pointer";
    this.canvas.focus({ preventScroll: true });
    this.pointers.set(event.pointerId, this.pixelOf(event));
    this.hasMoved = false;
    if (this.pointers.size === 1) {
      const tolerance = (event.pointerType === "touch" ? 24 : 13) / this.unit;
      this.dragged = this.tell("grab", this.pointOf(event), tolerance) ?? null;
    } else {
      this.dragged?.end?.();
      this.dragged = null;
    }
  }

  move(event) {
    const pixel = this.pixelOf(event),
      before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") this.tell("hover", this.toPlane(...pixel));
      return;
    }
    if (Math.hypot(pixel[0] - before[0], pixel[1] - before[1]) > 2) this.hasMoved = true;
    if (this.dragged) {
      this.dragged.move(this.toPlane(...pixel));
      this.request();
    } else if (this.hasMoved && !this.isFixed) {
      this.slide(event.pointerId, before, pixel);
    }
    if (this.hasMoved) this.pointers.set(event.pointerId, pixel);
  }

  // One finger moves the plane; two fingers also scale it.
  slide(id, before, pixel) {
    const other = [...this.pointers].find(([key]) => key !== id)?.[1];
    if (other) {
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
      const is = Math.hypot(pixel[0] - other[0], pixel[1] - other[1]);
      if (was > 0 && is > 0)
        this.zoom(was / is, (pixel[0] + other[0]) / 2, (pixel[1] + other[1]) / 2);
    }
    const share = other ? 0.5 : 1;
    this.x -= (share * (pixel[0] - before[0])) / this.unit;
    this.y += (share * (pixel[1] - before[1])) / this.unit;
    this.request();
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.dragged) {
      this.dragged.end?.();
      this.dragged = null;
    } else if (!this.hasMoved && event.type === "pointerup") {
      this.tell("tap", this.pointOf(event));
    } else if (this.pointers.size === 0) {
      this.tell("moved");
    }
    this.request();
  }

  wheel(event) {
    if (this.isFixed) return;
    event.preventDefault();
    this.zoom(
      Math.exp(Math.max(-0.6, Math.min(0.6, event.deltaY * 0.0022))),
      ...this.pixelOf(event),
    );
    clearTimeout(this.settling);
    this.movingUntil = performance.now() + 200;
    this.settling = setTimeout(() => (this.tell("moved"), this.request()), 250);
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.toPlane(px, py);
    this.half = Math.min(1e7, Math.max(1e-11, this.half * factor));
    const [nx, ny] = this.toPlane(px, py);
    this.x += x - nx;
    this.y += y - ny;
    this.request();
  }

  key(event) {
    this.canvas.dataset.by = "keys";
    if (this.tell("key", event)) {
      event.preventDefault();
    } else if (!this.isFixed && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const step = 0.15 * this.half;
      const moves = {
        ArrowLeft: [-step, 0],
        ArrowRight: [step, 0],
        ArrowUp: [0, step],
        ArrowDown: [0, -step],
      };
      if (moves[event.key]) ((this.x += moves[event.key][0]), (this.y += moves[event.key][1]));
      else if (event.key === "+" || event.key === "=") this.zoom(0.8);
      else if (event.key === "-") this.zoom(1.25);
      else return;
      event.preventDefault();
      this.tell("moved");
    } else return;
    this.request();
  }
}

// A vertex; a vertex at infinity is placed far outside the visible part.
export function cornerOf(found, i, seen) {
  const x = found.points[2 * i],
    y = found.points[2 * i + 1];
  if (!found.directions) return [x, y];
  const dx = found.directions[2 * i],
    dy = found.directions[2 * i + 1];
  if (dx === 0 && dy === 0) return [x, y];
  const far =
    8 * (Math.abs(seen[0]) + Math.abs(seen[1]) + Math.abs(seen[2]) + Math.abs(seen[3])) +
    2 * (Math.abs(x) + Math.abs(y));
  return [x + far * dx, y + far * dy];
}

export function cornersOf(found, cell, seen) {
  const first = found.starts[cell],
    end = found.starts[cell + 1];
  if (!found.directions) return Array.from(found.points.subarray(2 * first, 2 * end));
  const points = [];
  for (let i = first; i < end; i++) points.push(...cornerOf(found, i, seen));
  return points;
}

// A convex polygon clipped to the visible part.
export function cutToWindow(points, [x0, y0, x1, y1]) {
  let low = Infinity,
    high = -Infinity,
    left = Infinity,
    right = -Infinity;
  for (let i = 0; i < points.length; i += 2) {
    ((left = Math.min(left, points[i])), (right = Math.max(right, points[i])));
    ((low = Math.min(low, points[i + 1])), (high = Math.max(high, points[i + 1])));
  }
  if (left >= x0 && right <= x1 && low >= y0 && high <= y1) return points;
  if (right < x0 || left > x1 || high < y0 || low > y1) return [];
  let cut = cutByLine(points, 1, 0, -x0);
  cut = cutByLine(cut, -1, 0, x1);
  cut = cutByLine(cut, 0, 1, -y0);
  return cutByLine(cut, 0, -1, y1);
}

// The part of a polygon where a x + b y + c >= 0.
export function cutByLine(points, a, b, c) {
  const kept = [],
    n = points.length;
  for (let i = 0; i < n; i += 2) {
    const k = (i + 2) % n;
    const x = points[i],
      y = points[i + 1],
      u = points[k],
      v = points[k + 1];
    const here = a * x + b * y + c,
      there = a * u + b * v + c;
    if (here >= 0) kept.push(x, y);
    if (here < 0 !== there < 0) {
      const part = here / (here - there);
      kept.push(x + part * (u - x), y + part * (v - y));
    }
  }
  return kept;
}

// A segment clipped to the visible part, or null.
export function segmentInWindow(x, y, u, v, [x0, y0, x1, y1]) {
  let from = 0,
    to = 1;
  for (const [start, step, low, high] of [
    [x, u - x, x0, x1],
    [y, v - y, y0, y1],
  ]) {
    if (step === 0) {
      if (start < low || start > high) return null;
      continue;
    }
    const a = (low - start) / step,
      b = (high - start) / step;
    ((from = Math.max(from, Math.min(a, b))), (to = Math.min(to, Math.max(a, b))));
  }
  return from < to
    ? [x + from * (u - x), y + from * (v - y), x + to * (u - x), y + to * (v - y)]
    : null;
}

export function onScreen(surface, points) {
  const { unit } = surface,
    x = surface.width / 2 - surface.x * unit,
    y = surface.height / 2 + surface.y * unit;
  if (surface.half > 1e-3) return points.map((z, i) => (i % 2 === 0 ? x + z * unit : y - z * unit));
  // At high zoom, subtract the centre of the window first, to keep the precision.
  const left = surface.width / 2,
    middle = surface.height / 2;
  return points.map((z, i) =>
    i % 2 === 0 ? left + (z - surface.x) * unit : middle - (z - surface.y) * unit,
  );
}

export function contains(points, x, y) {
  const n = points.length;
  for (let i = 0; i < n; i += 2) {
    const k = (i + 2) % n;
    if (
      (points[k] - points[i]) * (y - points[i + 1]) <
      (points[k + 1] - points[i + 1]) * (x - points[i])
    )
      return false;
  }
  return n > 0;
}
