// Exact arithmetic on stored numbers: floats as integers times a power of two, affine forms of the
// plane with rational coefficients, and convex polygons with a formal infinity.

const bits = new DataView(new ArrayBuffer(8));

// A finite float x as [m, e] with x = m 2^e and an odd integer m, or [0n, 0] for zero.
function dyadic(x) {
  if (x === 0) return [0n, 0];
  bits.setFloat64(0, x);
  const word = bits.getBigUint64(0);
  const field = Number((word >> 52n) & 0x7ffn);
  let m = word & 0xfffffffffffffn;
  if (field > 0) m |= 0x10000000000000n;
  let e = (field > 0 ? field : 1) - 1075;
  const low = trailingZeros(m);
  m >>= BigInt(low);
  e += low;
  return [x < 0 ? -m : m, e];
}

function trailingZeros(m) {
  let n = 0;
  while ((m & 0xffffn) === 0n) ((m >>= 16n), (n += 16));
  while ((m & 1n) === 0n) ((m >>= 1n), n++);
  return n;
}

// Floats as integers on one scale: x_i = integers[i] 2^exponent.
export function integersOf(numbers) {
  const pairs = Array.from(numbers, dyadic);
  let exponent = Infinity;
  for (const [m, e] of pairs) if (m !== 0n && e < exponent) exponent = e;
  if (exponent === Infinity) exponent = 0;
  const integers = pairs.map(([m, e]) => (m === 0n ? 0n : m << BigInt(e - exponent)));
  return { integers, exponent };
}

// The largest e <= 2000 with all numbers in 2^e Z.
export function finestGrid(numbers) {
  let grid = 2000;
  for (const x of numbers) {
    if (x === 0 || !Number.isFinite(x)) continue;
    grid = Math.min(grid, dyadic(x)[1]);
  }
  return grid;
}

const abs = (x) => (x < 0n ? -x : x);

function bitLength(x) {
  if (x === 0n) return 0;
  const digits = abs(x).toString(16);
  return 4 * (digits.length - 1) + 32 - Math.clz32(parseInt(digits[0], 16));
}

export function gcd(a, b) {
  ((a = abs(a)), (b = abs(b)));
  while (b) [a, b] = [b, a % b];
  return a;
}

// p / q rounded to nearest, and a bound on the error; [0, Infinity] if it exceeds the range of floats.
//
// The quotient is truncated to at least 64 bits. The last bit is set if anything nonzero was cut off, so
// Number() rounds the result as it would round the quotient. Small quotients are rounded to a multiple of
// 2^-1074.
export function divide(p, q) {
  if (p === 0n) return [0, 0];
  if (q < 0n) {
    p = -p;
    q = -q;
  }
  const size = abs(p),
    shift = 68 - (bitLength(size) - bitLength(q));
  let nearest = Number(cutQuotient(size, q, shift));
  for (let left = -shift; left !== 0;) {
    const step = Math.max(-900, Math.min(900, left));
    nearest *= 2 ** step;
    left -= step;
  }
  if (!Number.isFinite(nearest)) return [0, Infinity];
  if (nearest < 2 ** -1021) {
    const quarters = cutQuotient(size, q, 1076);
    nearest = Number((quarters + 1n + ((quarters >> 2n) & 1n)) >> 2n) * 2 ** -1074;
  }
  if (p < 0n) nearest = -nearest;
  const [m, e] = dyadic(nearest);
  const isExact = e >= 0 ? (m << BigInt(e)) * q === p : m * q === p << BigInt(-e);
  return isExact ? [nearest, 0] : [nearest, Math.abs(nearest) * 2 ** -52 + 2 ** -1070];
}

// p 2^shift / q for positive integers, truncated; the last bit is set if anything nonzero was cut off.
function cutQuotient(p, q, shift) {
  const up = shift > 0 ? p << BigInt(shift) : p,
    down = shift < 0 ? q << BigInt(-shift) : q;
  const cut = up / down;
  return cut * down === up ? cut : cut | 1n;
}

// --- Affine forms of the plane: rows (a1, a2, c) times 2^exponent / denominator -------------------

function rescale(forms, exponent, denominator) {
  const factor = (denominator / forms.denominator) << BigInt(forms.exponent - exponent);
  return factor === 1n ? forms.rows : forms.rows.map((row) => row.map((x) => x * factor));
}

const lcm = (a, b) => (a / gcd(a, b)) * b;

function sumOfForms(one, other) {
  const exponent = Math.min(one.exponent, other.exponent);
  const denominator = lcm(one.denominator, other.denominator);
  const rows = rescale(one, exponent, denominator);
  const more = rescale(other, exponent, denominator);
  return {
    rows: rows.map((row, i) => row.map((x, k) => x + more[i][k])),
    exponent,
    denominator,
  };
}

// The scale of forms as a quotient of integers.
export function unitOf(forms) {
  const { exponent, denominator } = forms;
  if (exponent >= 0) return [1n << BigInt(exponent), denominator];
  return [1n, denominator << BigInt(-exponent)];
}

// Apply a map to forms: weights (n_in, n_out), or (n_out, n_in) if `byForms`, and offsets (n_out).
function applyTable(forms, table, nIn, nOut, at) {
  const exponent = Math.min(forms.exponent, 0);
  const rows = rescale(forms, exponent, forms.denominator);
  const one = forms.denominator << BigInt(-exponent);
  const out = [];
  for (let i = 0; i < nOut; i++) {
    let a = 0n,
      b = 0n,
      c = table.integers[nIn * nOut + i] * one;
    for (let k = 0; k < nIn; k++) {
      const w = table.integers[at(k, i)];
      if (w === 0n) continue;
      const row = rows[k];
      ((a += w * row[0]), (b += w * row[1]), (c += w * row[2]));
    }
    out.push([a, b, c]);
  }
  return { rows: out, exponent: exponent + table.exponent, denominator: forms.denominator };
}

const tables = new WeakMap();
function tableOf(owner, weights, offsets) {
  let table = tables.get(owner);
  if (!table) {
    const joined = new Float64Array(weights.length + offsets.length);
    joined.set(weights);
    joined.set(offsets, weights.length);
    tables.set(owner, (table = integersOf(joined)));
  }
  return table;
}

export function compose(forms, map) {
  if (map.weight === null) return forms;
  const { nIn, nOut } = map;
  return applyTable(forms, tableOf(map, map.weight, map.bias), nIn, nOut, (k, i) => k * nOut + i);
}

// The coordinates of t W + b as forms in t, for a chart with W of shape (2, n) or the identity.
export function chartForms(chart) {
  if (chart === null)
    return {
      rows: [
        [1n, 0n, 0n],
        [0n, 1n, 0n],
      ],
      exponent: 0,
      denominator: 1n,
    };
  return compose(chartForms(null), chart);
}

export function layerScores(layer, stream) {
  const query = compose(stream, layer.query);
  if (layer.isRelu) {
    const rows = query.rows.flatMap((row) => [[0n, 0n, 0n], row]);
    return { ...query, rows };
  }
  const { nForms } = layer;
  const n = layer.query.nOut;
  const table = tableOf(layer, layer.slopes, layer.offsets);
  return applyTable(query, table, n, nForms, (k, j) => j * n + k);
}

const sameRow = (a, b) => a[0] === b[0] && a[1] === b[1] && a[2] === b[2];

// The stream after a layer on the cell where the given forms win. Forms that coincide with the winner tie
// with it everywhere on the cell, and the group contributes their mean.
export function layerOutput(layer, stream, scores, winners) {
  const { rows } = scores;
  const nSlots = layer.output.nIn;
  const tied = [];
  let shares = 1n;
  for (let g = 0; g < layer.nGroups; g++) {
    const first = startOf(layer, g),
      end = startOf(layer, g + 1),
      winner = first + winners[g];
    const forms = [];
    for (let j = first; j < end; j++)
      if (j === winner || sameRow(rows[j], rows[winner])) forms.push(j);
    tied.push(forms);
    shares = lcm(shares, BigInt(forms.length));
  }
  const carried = {
    rows: emptyRows(nSlots),
    exponent: scores.exponent,
    denominator: shares * scores.denominator,
  };
  const fixed = { rows: emptyRows(nSlots), exponent: 0, denominator: shares };
  if (layer.isRelu) {
    for (let g = 0; g < layer.nGroups; g++)
      for (const j of tied[g])
        if (j % 2 === 1) addTo(carried.rows[g], rows[j], shares / BigInt(tied[g].length));
  } else {
    const { width } = layer;
    const gains = tableOf(layer.gains, layer.gains, []),
      values = tableOf(layer.values, layer.values, []);
    carried.exponent += gains.exponent;
    fixed.exponent = values.exponent;
    for (let g = 0; g < layer.nGroups; g++) {
      const share = shares / BigInt(tied[g].length),
        slot = layer.slots[g];
      for (const j of tied[g]) {
        if (gains.integers[j]) addTo(carried.rows[slot], rows[j], share * gains.integers[j]);
        for (let k = 0; k < width; k++)
          fixed.rows[slot + k][2] += share * values.integers[j * width + k];
      }
    }
  }
  const result = compose(sumOfForms(carried, fixed), layer.output);
  return layer.residual ? sumOfForms(result, stream) : result;
}

const emptyRows = (n) => Array.from({ length: n }, () => [0n, 0n, 0n]);

function addTo(row, more, factor) {
  for (let k = 0; k < 3; k++) row[k] += factor * more[k];
}

export const startOf = (layer, group) => (layer.isRelu ? 2 * group : layer.starts[group]);

// A text that is equal for two affine maps if and only if the maps are equal.
export function mapKey(forms) {
  const entries = forms.rows.flat();
  let common = 0n;
  for (const x of entries) common = gcd(common, x);
  if (common === 0n) return `0/1 ${entries.join(" ")}`;
  let [up, down] = unitOf(forms);
  up *= common;
  const shared = gcd(up, down);
  return `${up / shared}/${down / shared} ${entries.map((x) => x / common).join(" ")}`;
}

// Forms rounded to floats: slopes, offsets and radii, in a block (4, n).
export function roundedForms(forms, rows, scale) {
  const [up, down] = unitOf(forms);
  const n = rows.length;
  const block = new Float64Array(4 * n);
  rows.forEach((row, i) => {
    const [a, b, c] = row.map((x) => divide(x * up, down));
    ((block[i] = a[0]), (block[n + i] = b[0]), (block[2 * n + i] = c[0]));
    block[3 * n + i] = Math.max(scale * Math.max(a[1], b[1]), c[1]);
  });
  return block;
}

// Forms rounded to sums of two floats: high parts, low parts and radii, in a block (7, n).
export function doubledForms(forms, rows, scale) {
  const [up, down] = unitOf(forms);
  const n = rows.length;
  const block = new Float64Array(7 * n);
  rows.forEach((row, i) => {
    row.forEach((x, k) => {
      const high = divide(x * up, down)[0];
      const [m, e] = dyadic(high);
      const [p, q] = e >= 0 ? [m << BigInt(e), 1n] : [m, 1n << BigInt(-e)];
      const [low, error] = divide(x * up * q - p * down, down * q);
      ((block[k * n + i] = high), (block[(3 + k) * n + i] = low));
      block[6 * n + i] = Math.max(block[6 * n + i], error * (k < 2 ? scale : 1));
    });
  });
  return block;
}

// --- Polygons ------------------------------------------------------------------------------------
//
// A line is four integers: the form a1 x + a2 y + c0 + c1 M, nonnegative inside, where M is a formal number
// larger than every real number. The plane is the square [-M, M]^2. A vertex is (x0 + x1 M, y0 + y1 M) / w
// with w > 0. An edge has a line, a label, its first vertex in counterclockwise order, and its source.

export function meet(one, other) {
  const [a1, a2, a3, a4] = one,
    [b1, b2, b3, b4] = other;
  return [
    a2 * b3 - a3 * b2,
    a2 * b4 - a4 * b2,
    a3 * b1 - a1 * b3,
    a4 * b1 - a1 * b4,
    a1 * b2 - a2 * b1,
  ];
}

// The sign of a form at a vertex; the coefficient of M decides first.
function signAt(line, vertex) {
  const [g1, g2, g3, g4] = line,
    [x0, x1, y0, y1, w] = vertex;
  let value = g1 * x1 + g2 * y1 + g4 * w;
  if (value === 0n) value = g1 * x0 + g2 * y0 + g3 * w;
  return value > 0n ? 1 : value < 0n ? -1 : 0;
}

export function polygonOf(lines) {
  return lines.map(({ line, label, source }, i) => ({
    line,
    label,
    source,
    start: meet(lines[(i + lines.length - 1) % lines.length].line, line),
  }));
}

export function plane() {
  const sides = [
    [0n, 1n, 0n, 1n],
    [-1n, 0n, 0n, 1n],
    [0n, -1n, 0n, 1n],
    [1n, 0n, 0n, 1n],
  ];
  return polygonOf(sides.map((line, i) => ({ line, label: [-1, -1 - i, 0, 0], source: -1 })));
}

// The part of a polygon where a form is positive: the polygon itself, a smaller one, or nothing. If the form
// vanishes on the whole polygon, nothing is left.
export function clipPolygon(edges, line, label, source) {
  const signs = edges.map((edge) => signAt(line, edge.start));
  if (Math.max(...signs) <= 0) return [];
  if (Math.min(...signs) >= 0) return edges;
  const n = edges.length;
  let first = 0;
  while (!(signs[first] > 0 && signs[(first + n - 1) % n] <= 0)) first++;
  const before = (first + n - 1) % n;
  const entry = edges[before];
  const kept = [signs[before] < 0 ? { ...entry, start: meet(line, entry.line) } : entry];
  let i = first;
  while (signs[i % n] > 0) kept.push(edges[i++ % n]);
  const leaving = signs[i % n] === 0 ? edges[i % n].start : meet(kept[kept.length - 1].line, line);
  kept.push({ line, label, source, start: leaving });
  return kept;
}

// Six numbers: point, radius, direction, radius.
export function roundedVertex([x0, x1, y0, y1, w]) {
  const x = divide(x0, w),
    y = divide(y0, w),
    dx = divide(x1, w),
    dy = divide(y1, w);
  return [x[0], y[0], Math.max(x[1], y[1]), dx[0], dy[0], Math.max(dx[1], dy[1])];
}

// Six numbers: coefficients near 1 or less, offset at infinity, radii of slopes and offset.
export function roundedLine(line) {
  if (line[3] !== 0n) return [Number(line[0]), Number(line[1]), 0, 1, 0, 0];
  const shift = 1n << BigInt(Math.max(...line.slice(0, 3).map(bitLength)));
  const [a, b, c] = line.slice(0, 3).map((x) => divide(x, shift));
  return [a[0], b[0], c[0], 0, Math.max(a[1], b[1]), c[1]];
}
