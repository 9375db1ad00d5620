// Diagrams of heads: the exact cells of the keys, the field of soft attention, and where the winner is certain.
import { findCells } from "./engine.js";
import { cornersOf, cutByLine } from "./surface.js";

const PLANE = { plane: true };
const EYE = { nIn: 2, nOut: 2, weight: null, bias: new Float64Array(2) };

// The offsets c_j of the scores <k_j, x> + c_j of a head { keys: [[x, y, weight], ...], bias: mode }: zero;
// -|k_j|^2 / 2, which gives the Voronoi diagram of the keys; or -|k_j|^2 / 2 plus a weight, which gives a power
// diagram.
export function offsetsOf({ keys, bias }) {
  return keys.map(([x, y, weight]) =>
    bias === "none" ? 0 : (bias === "own" ? weight : 0) - (x * x + y * y) / 2,
  );
}

// Several heads as one layer with one group per head.
export function networkOfHeads(heads) {
  const starts = [0];
  for (const { keys } of heads) starts.push(starts[starts.length - 1] + keys.length);
  const nForms = starts[heads.length];
  const slopes = heads.flatMap(({ keys }) => keys.flatMap(([x, y]) => [x, y]));
  const layer = {
    isRelu: false,
    residual: false,
    nForms,
    nGroups: heads.length,
    width: 1,
    query: EYE,
    output: {
      nIn: heads.length,
      nOut: heads.length,
      weight: null,
      bias: new Float64Array(heads.length),
    },
    starts,
    slots: heads.map((_, h) => h),
    slopes: Float64Array.from(slopes),
    offsets: Float64Array.from(heads.flatMap(offsetsOf)),
    gains: new Float64Array(nForms),
    values: new Float64Array(nForms),
  };
  const readout = {
    nIn: heads.length,
    nOut: heads.length,
    weight: null,
    bias: new Float64Array(heads.length),
  };
  return { layers: [layer], words: [["block 0", "head", "key"]], embedding: EYE, readout };
}

// The diagram of one head: cells, the key of each cell, the cell of each key (-1 if it has none), neighbours.
export function diagramOf(engine, head) {
  const found = findCells(engine, networkOfHeads([head]), PLANE);
  const cellOf = head.keys.map(() => -1),
    winners = [],
    edges = [];
  for (let cell = 0; cell < found.n; cell++) {
    const winner = found.signatures[cell];
    cellOf[winner] = cell;
    winners.push(winner);
    for (let i = found.starts[cell]; i < found.starts[cell + 1]; i++)
      if (found.walls[i] > winner) edges.push([winner, found.walls[i]]);
  }
  const offsets = offsetsOf(head);
  // A key with the same scores as an earlier one is not dead: both win together.
  const twin = head.keys.map(([x, y], j) =>
    head.keys.findIndex(([u, v], i) => i < j && u === x && v === y && offsets[i] === offsets[j]),
  );
  return { found, cellOf, winners, edges, offsets, twin };
}

function scoresAt({ keys }, offsets, [x, y]) {
  return keys.map(([a, b], j) => a * x + b * y + offsets[j]);
}

// Winner, runner-up, margin and the winner's weight at a temperature.
export function rankingAt(head, offsets, point, tau) {
  const scores = scoresAt(head, offsets, point);
  const order = scores.map((_, j) => j).sort((i, j) => scores[j] - scores[i] || i - j);
  const [first, second] = order,
    margin = order.length > 1 ? scores[first] - scores[second] : Infinity;
  const total =
    tau > 0 ? scores.reduce((sum, s) => sum + Math.exp((s - scores[first]) / tau), 0) : 1;
  return { first, second, margin, weight: 1 / total };
}

// The margin from which on all other keys together have at most the weight `share`: their total weight is
// below (N - 1) exp(-margin / tau).
export const certainMargin = (nKeys, tau, share) =>
  nKeys > 1 ? tau * Math.log((nKeys - 1) / share) : 0;

// The part of a cell where its key has at least a given margin: a convex polygon, in floats.
export function certainPart(head, diagram, cell, margin, seen) {
  const { found, offsets } = diagram,
    winner = diagram.winners[cell];
  const [a, b] = head.keys[winner];
  let points = cornersOf(found, cell, seen);
  head.keys.forEach(([x, y], j) => {
    if (j !== winner && points.length > 0 && diagram.twin[j] !== winner)
      points = cutByLine(points, a - x, b - y, offsets[winner] - offsets[j] - margin);
  });
  return points;
}

const WEIGHTS = Float64Array.from({ length: 7 * 128 + 1 }, (_, i) => Math.exp(-i / 128));

// Paint the field of soft attention: each pixel blends the colours of the keys by their weights.
export function paintField(picture, head, offsets, colours, tau, surface) {
  const { width, height } = picture,
    { keys } = head,
    n = keys.length;
  const context = picture.getContext("2d"),
    image = context.createImageData(width, height),
    { data } = image;
  const scores = new Float64Array(n),
    reach = 7,
    [x0, y0] = surface.toPlane((0.5 * surface.width) / width, (0.5 * surface.height) / height);
  const step = surface.width / width / surface.unit,
    down = surface.height / height / surface.unit;
  const slopes = Float64Array.from(keys, ([x]) => (x * step) / tau),
    base = new Float64Array(n);
  for (let row = 0, at = 0; row < height; row++) {
    const y = y0 - row * down;
    for (let j = 0; j < n; j++) base[j] = (keys[j][0] * x0 + keys[j][1] * y + offsets[j]) / tau;
    for (let column = 0; column < width; column++, at += 4) {
      let most = -Infinity;
      for (let j = 0; j < n; j++) {
        const score = (scores[j] = base[j] + column * slopes[j]);
        if (score > most) most = score;
      }
      let total = 0,
        r = 0,
        g = 0,
        b = 0;
      for (let j = 0; j < n; j++) {
        const gap = scores[j] - most;
        if (gap < -reach) continue;
        // Tabulated weights are precise enough for colours.
        const weight = WEIGHTS[(-gap * 128) | 0],
          colour = colours[j];
        ((total += weight),
          (r += weight * colour[0]),
          (g += weight * colour[1]),
          (b += weight * colour[2]));
      }
      ((data[at] = r / total),
        (data[at + 1] = g / total),
        (data[at + 2] = b / total),
        (data[at + 3] = 255));
    }
  }
  context.putImageData(image, 0, 0);
}
