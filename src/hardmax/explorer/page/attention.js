// Heads of a model at work: reading the queries and keys of its layers for one sequence from files; the
// plane through three queries, and the path between two.
import { chartForms, layerScores } from "./exact.js";
import { affine, isJson, networkOf, readHeader } from "./models.js";

export const HEADS_FORMAT = "hardmax.heads/1";
const MOST_NUMBERS = 2e6;

// Check data of heads: { format, name, about, labels, layers: [{ queries (heads, n, d), keys (key heads, n,
// d), is_causal, window, temperature }] }.
export function checkHeads(data) {
  const refuse = (why) => new Error(`This file does not contain heads of a model: ${why}.`);
  if (data?.format !== HEADS_FORMAT)
    throw refuse(`the format must be ${HEADS_FORMAT}; it is ${data?.format}`);
  const { labels, layers } = data;
  const isLabel = (one) => typeof one === "string" && one.length <= 200;
  if (!Array.isArray(labels) || labels.length < 2 || !labels.every(isLabel))
    throw refuse("it must have labels for at least two tokens");
  if (!Array.isArray(layers) || layers.length === 0) throw refuse("it has no layers");
  let nNumbers = 0;
  layers.forEach(({ queries, keys, temperature }, i) => {
    const isTable = (table, n) =>
      Array.isArray(table) && table.length === n && table.every(Array.isArray);
    const width = queries?.[0]?.[0]?.length;
    for (const heads of [queries, keys]) {
      if (!Array.isArray(heads) || heads.length === 0 || !(width > 0))
        throw refuse(`layer ${i} has no heads`);
      for (const head of heads) {
        const isRight =
          isTable(head, labels.length) &&
          head.every((row) => row.length === width && row.every(Number.isFinite));
        if (!isRight) throw refuse(`a head of layer ${i} has the wrong shape`);
        nNumbers += labels.length * width;
      }
    }
    if (queries.length % keys.length !== 0)
      throw refuse(
        `layer ${i} has ${queries.length} query heads, not a multiple of its ${keys.length} key heads`,
      );
    if (!(temperature > 0))
      throw refuse(`the temperature of layer ${i} must be positive; it is ${temperature}`);
  });
  if (nNumbers > MOST_NUMBERS)
    throw refuse(`it has ${nNumbers} numbers; at most ${MOST_NUMBERS} are supported`);
  return data;
}

// The kind of a file: "heads", "certificate" or, if it is neither, "model".
export function kindOfFile(buffer) {
  try {
    if (isJson(buffer)) {
      const { format, heads } = JSON.parse(new TextDecoder().decode(buffer));
      if (String(format).startsWith("hardmax.certificate/")) return "certificate";
      return format === HEADS_FORMAT || heads?.format === HEADS_FORMAT ? "heads" : "model";
    }
    return readHeader(buffer).header["blocks.0.attn.hook_k"] ? "heads" : "model";
  } catch {
    return "model";
  }
}

// Read a file of heads: JSON saved by the page, or a TransformerLens cache in safetensors, with tensors
// blocks.0.attn.hook_q and hook_k of shape (batch, n, heads, d). Only the first sequence is read.
export function readHeadsFile(name, buffer) {
  if (isJson(buffer)) {
    const data = JSON.parse(new TextDecoder().decode(buffer));
    return checkHeads(data.heads ?? data);
  }
  const { header, tensor } = readHeader(buffer);
  const layers = [];
  const heads = (at, letter) => {
    const turned = `${at}rot_${letter}`,
      { shape, numbers } = tensor(header[turned] ? turned : `${at}${letter}`);
    const [n, nHeads, width] = shape.slice(-3);
    return Array.from({ length: nHeads }, (_, h) =>
      Array.from({ length: n }, (_, i) => {
        const first = (i * nHeads + h) * width;
        return Array.from(numbers.subarray(first, first + width));
      }),
    );
  };
  while (header[`blocks.${layers.length}.attn.hook_k`]) {
    const at = `blocks.${layers.length}.attn.hook_`,
      queries = heads(at, "q"),
      keys = heads(at, "k");
    const temperature = Math.sqrt(queries[0][0].length);
    layers.push({ queries, keys, is_causal: true, window: null, temperature });
  }
  if (layers.length === 0)
    throw new Error(
      "This file is neither a model of hardmax nor a cache of heads: blocks.0.attn.hook_k is missing.",
    );
  const labels = layers[0].queries[0].map((_, i) => String(i));
  const about = "a cache of queries and keys; assumed to be causal";
  return checkHeads({ format: HEADS_FORMAT, name, about, labels, layers });
}

// The keys that a token sees.
export function seenKeys({ is_causal, window }, n, reader) {
  const tokens = Array.from({ length: n }, (_, j) => j);
  return tokens.filter((j) => (!is_causal || j <= reader) && (!window || reader - j < window));
}

// The scores of a token's query with the keys that it sees, divided by the temperature, in floats.
export function scoresOf(layer, head, token, seen) {
  const keys = layer.keys[Math.floor((head * layer.keys.length) / layer.queries.length)],
    query = layer.queries[head][token];
  return seen.map((j) => {
    let sum = 0;
    for (let k = 0; k < query.length; k++) sum += query[k] * keys[j][k];
    return sum / layer.temperature;
  });
}

// The position of the largest score, its margin, and its attention weight.
export function leaderOf(scores) {
  let first = 0,
    next = -Infinity,
    total = 0;
  scores.forEach((score, i) => {
    if (score > scores[first]) first = i;
  });
  scores.forEach((score, i) => {
    if (i !== first && score > next) next = score;
    total += Math.exp(score - scores[first]);
  });
  return { first, margin: scores[first] - next, weight: 1 / total };
}

const MOST_ASKED = 32;

// The hardness of each head of each layer: the mean over tokens of the largest attention weight. In a long
// sequence, only equally spaced tokens are used.
export function hardness({ layers, labels }) {
  const n = labels.length,
    step = Math.ceil(n / MOST_ASKED);
  return layers.map((layer) =>
    layer.queries.map((_, head) => {
      let sum = 0,
        count = 0;
      for (let token = n - 1; token > 0; token -= step, count++)
        sum += leaderOf(scoresOf(layer, head, token, seenKeys(layer, n, token))).weight;
      return sum / count;
    }),
  );
}

// The head and the three tokens to show first: tokens with different winners if possible, in the hardest
// head that has them.
export function chooseFirstView(data) {
  const n = data.labels.length,
    shares = hardness(data);
  let best = { nWinners: 0 };
  data.layers.forEach((one, layer) => {
    const seen = seenKeys(one, n, n - 1);
    one.queries.forEach((_, head) => {
      const winners = new Map();
      for (let token = 0; token < n && winners.size < 3; token++) {
        const { first } = leaderOf(scoresOf(one, head, token, seen));
        if (!winners.has(first)) winners.set(first, token);
      }
      const nWinners = winners.size,
        share = shares[layer][head];
      if (nWinners < best.nWinners || (nWinners === best.nWinners && share <= best.share)) return;
      const tokens = [...winners.values()];
      for (let token = 0; tokens.length < 3; token++)
        if (!tokens.includes(token) || token >= n) tokens.push(Math.min(token, n - 1));
      best = { nWinners, share, layer, head, tokens };
    });
  });
  const { layer, head, tokens } = best;
  return { layer, head, tokens };
}

// Heads of a layer on the plane through the queries of three tokens, as plain data. The inputs are the
// weights of the three queries, which add up to 1. Each head outputs the number of the token whose key wins.
export function planeModel(layer, heads, tokens, reader) {
  const n = layer.keys[0].length,
    seen = seenKeys(layer, n, reader);
  return {
    kind: "HardTransformer",
    blocks: [
      {
        heads: heads.map((h, i) => {
          const keys = layer.keys[Math.floor((h * layer.keys.length) / layer.queries.length)];
          return {
            query_weight: tokens.map((token) => layer.queries[h][token]),
            keys: seen.map((j) => keys[j]),
            values: seen.map((j) => [j]),
            output_weight: [heads.map((_, k) => (k === i ? 1 : 0))],
          };
        }),
        ffn: null,
        attention_residual: false,
        ffn_residual: true,
      },
    ],
  };
}

// The plane through three points, drawn with their true distances: the positions of the three, and the map
// from the plane to their weights. The map is rounded to a grid on which the weights add up to exactly 1.
export function planeChart([a, b, c]) {
  const across = b.map((x, k) => x - a[k]),
    up = c.map((x, k) => x - a[k]);
  const dot = (u, v) => u.reduce((sum, x, k) => sum + x * v[k], 0);
  let width = Math.sqrt(dot(across, across)),
    shift = width > 0 ? dot(across, up) / width : 0,
    height = Math.sqrt(Math.max(0, dot(up, up) - shift * shift));
  // Collinear points span no plane. Then the plane shows weights instead of distances.
  const isFlat = !(height > 1e-9 * width && width > 1e-9 * height && height < 1e150);
  if (isFlat) [width, shift, height] = [2, 1, Math.sqrt(3)];
  const most = Math.max(1 / width, 1 / height, Math.abs(shift) / (height * width));
  const grid = 2 ** (Math.floor(Math.log2(most)) - 44);
  const near = (x) => Math.round(x / grid) * grid;
  const [along, lean, rise] = [near(1 / width), near(-shift / (height * width)), near(1 / height)];
  return {
    isFlat,
    places: [
      [0, 0],
      [width, 0],
      [shift, height],
    ],
    chart: {
      weight: [
        [-along, along, 0],
        [-(lean + rise), lean, rise],
      ],
      bias: [1, 0, 0],
    },
  };
}

// --- Paths -------------------------------------------------------------------------------------------

// The winners between the first two of the three tokens: for each head, pieces { winner, begin, end } whose
// ends are exact fractions [p, q] between 0 and 1.
export function pathPieces(model) {
  const network = networkOf(model),
    [layer] = network.layers;
  // The point s of the path has the weights 1 - s, s and 0.
  const path = affine(
    [
      [-1, 1, 0],
      [0, 0, 0],
    ],
    [1, 0, 0],
  );
  const { rows } = layerScores(layer, chartForms(path));
  return Array.from({ length: layer.nGroups }, (_, g) => {
    const first = layer.starts[g];
    const lines = rows
      .slice(first, layer.starts[g + 1])
      .map(([slope, , start], j) => ({ slope, start, j }));
    return envelope(lines);
  });
}

// The upper envelope of lines start + s slope for 0 < s < 1.
function envelope(lines) {
  const beats = (a, b) => a.start > b.start || (a.start === b.start && a.slope > b.slope);
  let best = lines.reduce((one, line) => (beats(line, one) ? line : one)),
    begin = [0n, 1n];
  const pieces = [];
  for (;;) {
    // The steeper line that meets `best` first; of several, the steepest.
    let end = [1n, 1n],
      next = null;
    for (const line of lines) {
      if (line.slope <= best.slope) continue;
      const at = [best.start - line.start, line.slope - best.slope];
      const gap = at[0] * end[1] - end[0] * at[1];
      if (gap < 0n || (gap === 0n && next !== null && line.slope > next.slope))
        ((end = at), (next = line));
    }
    pieces.push({ winner: best.j, begin, end });
    if (next === null) return pieces;
    ((best = next), (begin = end));
  }
}

// The points where any head changes its winner: fractions in increasing order, each listed once.
export function breakpoints(paths) {
  const all = paths.flatMap((pieces) => pieces.slice(1).map(({ begin }) => begin));
  const gap = ([p, q], [r, s]) => p * s - r * q;
  all.sort((a, b) => (gap(a, b) < 0n ? -1 : gap(a, b) > 0n ? 1 : 0));
  return all.filter((at, i) => i === 0 || gap(all[i - 1], at) !== 0n);
}
