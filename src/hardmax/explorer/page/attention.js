// Heads of a model at work: the queries and keys of its layers for one sequence, from files; the plane
// through three queries, and the path between two.
import { chartForms, layerScores } from "./exact.js";
import { affine, isJson, networkOf, readHeader } from "./models.js";

export const HEADS_FORMAT = "hardmax.heads/1";
const MOST_NUMBERS = 2e6;

// Check data of heads: { format, name, about, labels, layers: [{ queries (heads, n, d), keys (key heads, n,
// d), is_causal, window, temperature }] }.
export function checkHeads(data) {
  const refuse = (why) => new Error(`these are no heads of a model: ${why}`);
  if (data?.format !== HEADS_FORMAT) throw refuse(`the format is ${data?.format}`);
  const { labels, layers } = data;
  const isLabel = (one) => typeof one === "string" && one.length <= 200;
  if (!Array.isArray(labels) || labels.length < 2 || !labels.every(isLabel))
    throw refuse("it must have the labels of two tokens or more");
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
        if (!isRight) throw refuse(`layer ${i} has a head of another shape`);
        nNumbers += labels.length * width;
      }
    }
    if (queries.length % keys.length !== 0) throw refuse(`layer ${i} has ${keys.length} key heads`);
    if (!(temperature > 0)) throw refuse(`layer ${i} has the temperature ${temperature}`);
  });
  if (nNumbers > MOST_NUMBERS) throw refuse("there are too many numbers");
  return data;
}

// What a file is: "heads", "certificate" or, if it is neither, "model".
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

// A file of heads: JSON as the page saves it, or a cache as TransformerLens makes them, in safetensors:
// tensors blocks.0.attn.hook_q and hook_k of shape (batch, n, heads, d), of which the first sequence is read.
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
      "this is neither a model of hardmax nor a cache of heads (blocks.0.attn.hook_q)",
    );
  const labels = layers[0].queries[0].map((_, i) => String(i));
  const about = "a cache of queries and keys; taken to be causal";
  return checkHeads({ format: HEADS_FORMAT, name, about, labels, layers });
}

// Which keys a token sees.
export function seenKeys({ is_causal, window }, n, reader) {
  const tokens = Array.from({ length: n }, (_, j) => j);
  return tokens.filter((j) => (!is_causal || j <= reader) && (!window || reader - j < window));
}

// The scores that a token's query gives the keys it may see, over the temperature; rounded.
export function scoresOf(layer, head, token, seen) {
  const keys = layer.keys[Math.floor((head * layer.keys.length) / layer.queries.length)],
    query = layer.queries[head][token];
  return seen.map((j) => {
    let sum = 0;
    for (let k = 0; k < query.length; k++) sum += query[k] * keys[j][k];
    return sum / layer.temperature;
  });
}

// The place of the largest score, its lead, and its weight.
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

// For each head of each layer the mean over tokens of the largest weight: how hard it is. Of many tokens
// some are asked, at equal distances.
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

// A head to look at first, and three tokens: those with different winners if there are such, in the hardest
// head that has them.
export function firstLook(data) {
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

// Heads of a layer on the plane through the queries of three tokens, as plain data: weights of the three,
// which add up to 1, go in, and each head answers with the number of the token whose key wins.
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

// The plane through three points, drawn with their true distances: the places of the three, and the map
// from the plane to their weights, on a grid so fine that the weights add up to 1 exactly.
export function planeChart([a, b, c]) {
  const across = b.map((x, k) => x - a[k]),
    up = c.map((x, k) => x - a[k]);
  const dot = (u, v) => u.reduce((sum, x, k) => sum + x * v[k], 0);
  let width = Math.sqrt(dot(across, across)),
    shift = width > 0 ? dot(across, up) / width : 0,
    height = Math.sqrt(Math.max(0, dot(up, up) - shift * shift));
  // Points on one line, or equal ones, span no plane: weights are drawn then, not distances.
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

// Who wins between the first two of the three tokens: for each head pieces { winner, begin, end }, fractions
// [p, q] between 0 and 1, exact.
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
    // The first of the steeper lines that comes up, and of these the steepest.
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

// Where any of the heads changes its winner: fractions in order, each once.
export function breakpoints(paths) {
  const all = paths.flatMap((pieces) => pieces.slice(1).map(({ begin }) => begin));
  const gap = ([p, q], [r, s]) => p * s - r * q;
  all.sort((a, b) => (gap(a, b) < 0n ? -1 : gap(a, b) > 0n ? 1 : 0));
  return all.filter((at, i) => i === 0 || gap(all[i - 1], at) !== 0n);
}
