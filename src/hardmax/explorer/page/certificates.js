// Make a certificate of the cells found: a file of the network, and the claim with a point inside each cell.
// checker.js decides from the two files alone whether the certificate proves the claim.
import { hashOf, networkHash } from "./checker.js";
import { Composer, lineOf } from "./counting.js";
import { signatureOf } from "./engine.js";
import { integersOf, plane } from "./exact.js";
import { layerToArrays } from "./models.js";

// The bytes of the network file, and the text of the certificate.
export function certify(network, where, found) {
  const model = networkFile(network),
    { chart, denominator } = integerChart(network, where.chart),
    composer = new Composer(network, where.chart);
  const cells = Array.from({ length: found.n }, (_, cell) => cell);
  const table = (rows) => ({ shape: [rows.length, 3], entries: rows.flat() });
  const claim = {
    format: "hardmax.certificate/1",
    model: networkHash(model),
    domain: {
      chart: written(chart),
      chart_denominator: writtenInteger(denominator),
      dim: 2,
      rows: written(where.rows),
    },
    domain_fingerprint: hashOf([table(chart), denominator, table(where.rows)]),
    signatures: cells.map((cell) => Array.from(signatureOf(found, cell))),
    witnesses: written(cells.map((cell) => pointInside(composer, where, found, cell))),
    completeness: { kind: "tiling" },
  };
  return { model, text: JSON.stringify(claim) };
}

const SAFE = 1n << 53n;
const writtenInteger = (x) =>
  -SAFE < x && x < SAFE ? Number(x) : x < 0n ? `-0x${(-x).toString(16)}` : `0x${x.toString(16)}`;
const written = (rows) => rows.map((row) => row.map(writtenInteger));

// A chart as integers over a common denominator, one row per input. Without a chart, it is the identity.
function integerChart(network, chart) {
  if (chart === null)
    return {
      chart: [
        [1n, 0n, 0n],
        [0n, 1n, 0n],
      ],
      denominator: 1n,
    };
  const { nOut, weight, bias } = chart,
    { integers, exponent } = integersOf([...weight, ...bias]);
  const up = 1n << BigInt(Math.max(exponent, 0));
  return {
    chart: Array.from({ length: nOut }, (_, i) =>
      [0, 1, 2].map((k) => integers[k * nOut + i] * up),
    ),
    denominator: 1n << BigInt(Math.max(-exponent, 0)),
  };
}

// --- Witnesses ---------------------------------------------------------------------------------------

const FAR = [1, 2 ** 20, 2 ** 60];

// A rational point (p, q, r), which stands for (p / r, q / r), strictly inside a cell: the mean of its corners,
// in floats or, if that fails, in integers. Corners at infinity are replaced by points farther and farther out.
function pointInside(composer, where, found, cell) {
  const first = found.starts[cell],
    n = found.starts[cell + 1] - first;
  const lines = Array.from({ length: n }, (_, i) =>
    lineOf(composer, where, found, cell, first + i),
  );
  const isInside = ([p, q, r]) =>
    lines.every((line) => line === null || line[0] * p + line[1] * q + line[2] * r > 0n);
  for (const far of found.directions ? FAR : FAR.slice(0, 1)) {
    let x = 0,
      y = 0;
    for (let i = 2 * first; i < 2 * (first + n); i += 2) {
      x += found.points[i] + (found.directions ? far * found.directions[i] : 0);
      y += found.points[i + 1] + (found.directions ? far * found.directions[i + 1] : 0);
    }
    if (!Number.isFinite(x) || !Number.isFinite(y)) break;
    // Prefer few digits if they suffice.
    for (const digits of [24, 53]) {
      const point = fraction(shortened(x / n, digits), shortened(y / n, digits));
      if (isInside(point)) return point;
    }
  }
  for (let bits = 1; ; bits *= 4) {
    const point = meanOfCorners(lines, found, first, 1n << BigInt(bits));
    if (isInside(point)) return point;
    if (bits > 1 << 16) throw new Error("no interior point of a cell was found");
  }
}

const shortened = (x, digits) => (digits < 53 ? Math.fround(x) : x);

function fraction(x, y) {
  const { integers, exponent } = integersOf([x, y]),
    up = 1n << BigInt(Math.max(exponent, 0));
  return [integers[0] * up, integers[1] * up, 1n << BigInt(Math.max(-exponent, 0))];
}

// The mean of the corners of a cell, in integers; an unbounded cell is cut off at a square of size `far`.
function meanOfCorners(lines, found, first, far) {
  const n = lines.length;
  const sides = lines.map((line, i) => {
    if (line !== null) return line;
    const [a, b, , c] = plane()[found.walls[first + i] + 4].line;
    return [a, b, c * far];
  });
  let x = 0n,
    y = 0n,
    weight = 1n;
  sides.forEach(([a, b, c], i) => {
    const [p, q, r] = sides[(i + n - 1) % n];
    let w = p * b - q * a,
      u = q * c - r * b,
      v = r * a - p * c;
    if (w < 0n) [u, v, w] = [-u, -v, -w];
    [x, y, weight] = [x * w + u * weight, y * w + v * weight, weight * w];
  });
  return [x, y, weight * BigInt(n)];
}

// --- The file ----------------------------------------------------------------------------------------

const NAMES = ["slopes", "offsets", "starts", "slots", "gains", "values", "reads"];

// A network as a safetensors file of kind ArgmaxNetwork, with heads and units laid out as in the library.
export function networkFile(network) {
  const header = {},
    parts = [],
    identities = [];
  let end = 0;
  const add = (name, shape, numbers, isIndex = false) => {
    const bytes = new Uint8Array(
      (isIndex ? BigInt64Array.from(numbers, BigInt) : Float64Array.from(numbers)).buffer,
    );
    header[name] = {
      dtype: isIndex ? "I64" : "F64",
      shape,
      data_offsets: [end, (end += bytes.length)],
    };
    parts.push(bytes);
  };
  const addMap = (prefix, { nIn, nOut, weight, bias }) => {
    if (weight === null) identities.push(prefix);
    else add(`${prefix}weight`, [nIn, nOut], weight);
    add(`${prefix}bias`, [nOut], bias);
  };
  const layers = network.layers.map(layerToArrays);
  layers.forEach((layer, i) => {
    for (const name of NAMES)
      if (layer[name])
        add(
          `layers.${i}.${name}`,
          layer[name].shape,
          layer[name].numbers,
          ["starts", "slots", "reads"].includes(name),
        );
    addMap(`layers.${i}.query.`, layer.query);
    addMap(`layers.${i}.output.`, layer.output);
  });
  addMap("embedding.", network.embedding);
  addMap("readout.", network.readout);
  const fields = {
    format: "hardmax.model/1",
    kind: "ArgmaxNetwork",
    residuals: layers.map(({ residual }) => residual),
    identities,
  };
  header.__metadata__ = { hardmax: JSON.stringify(fields) };
  let text = JSON.stringify(header);
  text += " ".repeat(-text.length & 7);
  const file = new Uint8Array(8 + text.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(new TextEncoder().encode(text), 8);
  end = 8 + text.length;
  for (const part of parts) (file.set(part, end), (end += part.length));
  return file;
}
