// A software rasterizer for convex polygons and thin lines, fast enough for thousands of them per frame.

export class Raster {
  constructor(width, height) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.left = new Float64Array(height);
    this.right = new Float64Array(height);
    Object.assign(this, { width, height });
  }

  clear() {
    this.pixels.fill(0);
  }

  // Fill a convex polygon with corners x, y, ... (the first n numbers of `points`); r, g, b are bytes. Each
  // row of pixels whose middle crosses the polygon is filled from the pixel where it enters to the pixel
  // where it leaves, so polygons that share an edge leave no gap.
  polygon(points, n, r, g, b) {
    const { pixels, left, right, width, height } = this,
      colour = (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
    let top = Infinity,
      bottom = -Infinity;
    for (let i = 1; i < n; i += 2) {
      if (points[i] < top) top = points[i];
      if (points[i] > bottom) bottom = points[i];
    }
    const first = Math.max(0, Math.ceil(top - 0.5)),
      end = Math.min(height, Math.ceil(bottom - 0.5));
    if (first >= end) return;
    left.fill(Infinity, first, end);
    right.fill(-Infinity, first, end);
    for (let i = 0, k = n - 2; i < n; k = i, i += 2) {
      const isDown = points[k + 1] < points[i + 1],
        from = isDown ? k : i,
        to = isDown ? i : k;
      const x = points[from],
        y = points[from + 1],
        slope = (points[to] - x) / (points[to + 1] - y);
      const stop = Math.min(end, Math.ceil(points[to + 1] - 0.5));
      for (let row = Math.max(first, Math.ceil(y - 0.5)); row < stop; row++) {
        const at = x + (row + 0.5 - y) * slope;
        if (at < left[row]) left[row] = at;
        if (at > right[row]) right[row] = at;
      }
    }
    for (let row = first; row < end; row++) {
      const from = Math.max(0, Math.floor(left[row])),
        to = Math.min(width - 1, Math.floor(right[row]));
      for (let at = row * width + from, last = row * width + to; at <= last; at++)
        pixels[at] = colour;
    }
  }

  // Draw a segment of width `size` in pixels with opacity `alpha` (0 to 1). At each step along its longer
  // direction, every pixel is blended according to the part that the segment covers.
  line(x, y, u, v, size, r, g, b, alpha) {
    const { width, height } = this;
    if (Math.abs(v - y) > Math.abs(u - x)) {
      if (y < v) this.stroke(y, x, v, u, height, width, width, 1, size, r, g, b, alpha);
      else this.stroke(v, u, y, x, height, width, width, 1, size, r, g, b, alpha);
    } else if (x < u) this.stroke(x, y, u, v, width, height, 1, width, size, r, g, b, alpha);
    else if (x > u) this.stroke(u, v, x, y, width, height, 1, width, size, r, g, b, alpha);
  }

  // Draw from (x, y) to (u, v) with x < u. The first coordinate has `long` pixels at a stride of `along` in
  // memory, the second has `short` pixels at a stride of `across`.
  stroke(x, y, u, v, long, short, along, across, size, r, g, b, alpha) {
    const { pixels } = this,
      slope = (v - y) / (u - x),
      half = 0.5 * size * Math.sqrt(1 + slope * slope),
      end = Math.min(long, Math.ceil(u - 0.5)),
      full = Math.round(256 * alpha);
    for (let i = Math.max(0, Math.ceil(x - 0.5)); i < end; i++) {
      const middle = y + (i + 0.5 - x) * slope,
        low = middle - half,
        high = middle + half;
      const last = Math.min(short - 1, Math.floor(high));
      for (let j = Math.max(0, Math.floor(low)); j <= last; j++) {
        const at = i * along + j * across,
          was = pixels[at];
        // Paint only over cells.
        if (was === 0) continue;
        const share = (full * ((high < j + 1 ? high : j + 1) - (low > j ? low : j))) | 0,
          red = was & 255,
          green = (was >> 8) & 255,
          blue = (was >> 16) & 255;
        pixels[at] =
          0xff000000 |
          ((blue + (((b - blue) * share) >> 8)) << 16) |
          ((green + (((g - green) * share) >> 8)) << 8) |
          (red + (((r - red) * share) >> 8));
      }
    }
  }
}
