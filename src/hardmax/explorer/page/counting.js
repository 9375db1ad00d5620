// The three counts, which are never mixed: cells, regions (connected, with one affine map) and affine maps.
import { checkSize, firstForms, signatureOf } from "./engine.js";
import { gcd, layerOutput, layerScores, compose, mapKey, startOf } from "./exact.js";

// The exact forms of the layers on cells. Each region of the earlier layers is composed once.
export class Composer {
  constructor(network, chart) {
    Object.assign(this, { network, known: new Map(), rows: new WeakMap() });
    this.first = firstForms(network, chart);
    this.ends = [0];
    for (const layer of network.layers)
      this.ends.push(this.ends[this.ends.length - 1] + layer.nGroups);
  }

  // The stream before a layer, and its scores, on the region of a signature.
  at(index, signature) {
    const prefix = `${index}:${signature.subarray(0, this.ends[index]).join()}`;
    let region = this.known.get(prefix);
    if (!region) {
      const stream = this.streamBefore(index, signature);
      const layer = this.network.layers[index];
      region = { stream, scores: layerScores(layer, stream) };
      this.known.set(prefix, region);
    }
    return region;
  }

  streamBefore(index, signature) {
    if (index === 0) return this.first;
    const { stream, scores } = this.at(index - 1, signature);
    return layerOutput(
      this.network.layers[index - 1],
      stream,
      scores,
      signature.subarray(this.ends[index - 1], this.ends[index]),
    );
  }

  output(signature) {
    return compose(this.streamBefore(this.network.layers.length, signature), this.network.readout);
  }

  // Winner minus rival of a group, as coprime integers.
  row(index, signature, group, winner, rival) {
    const { rows } = this.at(index, signature).scores,
      first = startOf(this.network.layers[index], group);
    return primitive(rows[first + winner].map((x, k) => x - rows[first + rival][k]));
  }
}

function primitive(row) {
  const common = row.reduce(gcd, 0n);
  return common > 1n ? row.map((x) => x / common) : row;
}

// A number for each cell; two numbers are equal if and only if the maps are equal.
function mapClasses(found, composer) {
  const n = found.n,
    size = n > 0 ? found.maps.length / n : 0;
  // Two maps differ if a coefficient differs by more than the sum of its two radii. Overlapping intervals
  // are chained into classes, which the next coefficient splits further.
  let classes = [Array.from({ length: n }, (_, i) => i)],
    alone = [];
  for (let k = 0; k < size; k++) {
    const next = [];
    for (const members of classes) {
      const interval = (i) => {
        const x = found.maps[i * size + k],
          radius = found.radii[i];
        return [before(x - radius), after(x + radius), i];
      };
      const ordered = members
        .map(interval)
        .sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[2] - b[2]));
      let reach = -Infinity,
        chain = null;
      for (const [from, to, i] of ordered) {
        if (chain === null || from > reach) next.push((chain = []));
        chain.push(i);
        reach = Math.max(reach, to);
      }
    }
    for (const members of next) if (members.length === 1) alone.push(members);
    classes = next.filter((members) => members.length > 1);
  }
  const labels = new Int32Array(n);
  let count = 0;
  for (const [i] of alone) labels[i] = count++;
  for (const members of classes) {
    const isExact = members.every((i) => found.radii[i] === 0);
    const keys = new Map();
    for (const i of members) {
      const key = isExact
        ? Array.from(found.maps.subarray(i * size, (i + 1) * size), (x) => x + 0).join()
        : mapKey(composer.output(signatureOf(found, i)));
      if (!keys.has(key)) keys.set(key, count++);
      labels[i] = keys.get(key);
    }
  }
  return { labels, count };
}

// Floats that are smaller and larger than x by at least one rounding error; infinite if x is not finite.
const before = (x) =>
  Number.isFinite(x) ? x - Math.abs(x) * 2 ** -52 - Number.MIN_VALUE : -Infinity;
const after = (x) =>
  Number.isFinite(x) ? x + Math.abs(x) * 2 ** -52 + Number.MIN_VALUE : Infinity;

// --- Neighbours ----------------------------------------------------------------------------------

// Pairs of neighbouring cells, which share a part of a wall of positive length, as a flat array. The core
// proves most pairs from floats and wall names; integers decide the others.
export function neighbours(engine, network, where, found) {
  const matching = matchNeighbours(engine, network, where, found);
  const open = [];
  matching.isOpen.forEach((is, edge) => is && open.push(edge));
  if (open.length === 0) return matching.pairs;
  return [
    ...matching.pairs,
    ...findOverlaps(new Composer(network, where.chart), where, found, open),
  ];
}

function passesMaximum(layer) {
  if (layer.isRelu) return Array(layer.nGroups).fill(1);
  const n = layer.query.nOut;
  return Array.from({ length: layer.nGroups }, (_, g) => {
    for (let j = layer.starts[g]; j < layer.starts[g + 1]; j++) {
      const isZero =
        layer.offsets[j] === 0 && layer.slopes.subarray(j * n, (j + 1) * n).every((x) => x === 0);
      const isConstant = layer.values
        .subarray(j * layer.width, (j + 1) * layer.width)
        .some((x) => x !== 0);
      if (isConstant || !(isZero || layer.gains[j] === 1)) return 0;
    }
    return 1;
  });
}

function formStarts(network) {
  const starts = [0];
  let before = 0;
  for (const layer of network.layers) {
    for (let g = 0; g < layer.nGroups; g++) starts.push(before + startOf(layer, g + 1));
    before += layer.nForms;
  }
  return starts;
}

function matchNeighbours(engine, network, where, found) {
  engine.forget();
  const { core } = engine,
    nEdges = found.walls.length,
    { layers } = network;
  const firstGroups = [0];
  for (const layer of layers) firstGroups.push(firstGroups[firstGroups.length - 1] + layer.nGroups);
  const passes = layers.flatMap(passesMaximum);
  const isShort = found.signatures instanceof Uint8Array;
  const putBytes = (array) => {
    const at = engine.take(array.length);
    engine.bytes(at, array.length).set(array);
    return at;
  };
  const signatures = isShort ? putBytes(found.signatures) : engine.putInts(found.signatures);
  const pointers = [
    isShort ? signatures : 0,
    isShort ? 0 : signatures,
    engine.putLongs(Array.from(found.starts)),
    engine.putInts(found.walls),
    engine.put(found.points),
    found.directions ? engine.put(found.directions) : 0,
    engine.putInts(firstGroups),
    engine.putInts(formStarts(network)),
    putBytes(passes),
    found.hasMeans ? 1 : 0,
  ];
  const polygons = engine.take(72);
  engine.longs(polygons, 2).set([BigInt(found.n), BigInt(nEdges)]);
  engine.ints(polygons + 16, 2).set([layers.length, found.nGroups]);
  engine.floats(polygons + 24, 1)[0] = where.scale;
  engine.ints(polygons + 32, 10).set(pointers);
  const memory = engine.take(checkSize(core.hm_neighbours_size(polygons)));
  const needed = Number(core.hm_neighbours_gather(polygons, memory));
  if (needed < 0) throw new Error("The cells are not in the order of their signatures.");
  const room = engine.take(needed),
    isOpen = engine.take(nEdges);
  const n = Number(core.hm_neighbours_match(polygons, memory, room, isOpen));
  const pairs = engine.take(16 * n),
    edges = engine.take(8 * n);
  core.hm_neighbours_pairs(polygons, memory, pairs, edges);
  return {
    isOpen: engine.bytes(isOpen, nEdges).slice(),
    pairs: Array.from({ length: n }, (_, i) => [
      Number(engine.longs(pairs + 16 * i, 1)[0]),
      Number(engine.longs(pairs + 16 * i + 8, 1)[0]),
    ]),
  };
}

// Layer, group, winner and rival of an edge of a cell; for a side of the domain, -1 and the row.
export function wallOf(network, found, cell, edge) {
  const code = found.walls[edge];
  if (code < 0) return [-1, -5 - code, 0, 0];
  let form = code,
    first = 0;
  for (let index = 0; ; index++) {
    const layer = network.layers[index];
    if (form < layer.nForms) {
      let group = layer.isRelu ? form >> 1 : 0;
      while (startOf(layer, group + 1) <= form) group++;
      return [index, group, signatureOf(found, cell)[first + group], form - startOf(layer, group)];
    }
    form -= layer.nForms;
    first += layer.nGroups;
  }
}

// The line of an edge of a cell, positive inside, in coprime integers; null for one at infinity.
export function lineOf(composer, where, found, cell, edge) {
  const [layer, group, winner, rival] = wallOf(composer.network, found, cell, edge);
  if (layer >= 0) return composer.row(layer, signatureOf(found, cell), group, winner, rival);
  if (group < 0) return null;
  const [a, b, c] = where.rows[group];
  return [-a, -b, c];
}

const less = ([p, q], [r, s]) =>
  q === 0n || s === 0n ? infinite(p, q) < infinite(r, s) : p * s < r * q;
const infinite = (p, q) => (q === 0n ? (p > 0n ? 1 : -1) : 0);
const opposite = ([p, q]) => [-p, q];

// The position where two lines meet, measured along the first line with its positive side on the left: a
// fraction, or [1n, 0n] or [-1n, 0n] at infinity.
function position([a, b, c], [p, q, r]) {
  const weight = a * q - b * p,
    up = b * (b * r - c * q) - a * (c * p - a * r);
  return weight < 0n ? [-up, -weight] : [up, weight];
}

function findOverlaps(composer, where, found, open) {
  const sides = new Map();
  let cell = 0;
  for (const edge of open) {
    while (found.starts[cell + 1] <= edge) cell++;
    const first = found.starts[cell],
      n = found.starts[cell + 1] - first;
    const rowOf = (i) => lineOf(composer, where, found, cell, first + i);
    const isFar = (i) =>
      found.directions !== null &&
      (found.directions[2 * (first + i)] !== 0 || found.directions[2 * (first + i) + 1] !== 0);
    if (found.walls[edge] < 0) continue;
    const i = edge - first,
      next = (i + 1) % n,
      row = rowOf(i);
    const begin = isFar(i) ? [-1n, 0n] : position(row, rowOf((i + n - 1) % n));
    const end = isFar(next) ? [1n, 0n] : position(row, rowOf(next));
    const back = row.map((x) => -x);
    const isForward = row[0] > 0n || (row[0] === 0n && row[1] > 0n);
    const key = (isForward ? row : back).join();
    if (!sides.has(key)) sides.set(key, [[], []]);
    if (isForward) sides.get(key)[0].push({ begin, end, cell });
    else sides.get(key)[1].push({ begin: opposite(end), end: opposite(begin), cell });
  }
  const pairs = [];
  for (const both of sides.values()) {
    const [left, right] = both.map((list) =>
      list.sort((a, b) => (less(a.begin, b.begin) ? -1 : 1)),
    );
    for (let i = 0, j = 0; i < left.length && j < right.length;) {
      const one = left[i],
        other = right[j];
      const begin = less(one.begin, other.begin) ? other.begin : one.begin;
      const end = less(one.end, other.end) ? one.end : other.end;
      if (less(begin, end)) pairs.push([one.cell, other.cell]);
      if (less(other.end, one.end)) j++;
      else i++;
    }
  }
  return pairs;
}

// The number of regions and of maps, with a label for each cell.
export function countRegions(engine, network, where, found) {
  const composer = new Composer(network, where.chart);
  const { labels, count } = mapClasses(found, composer);
  const parent = Int32Array.from({ length: found.n }, (_, i) => i);
  const root = (i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  let nRegions = found.n;
  for (const [one, other] of neighbours(engine, network, where, found)) {
    if (labels[one] !== labels[other]) continue;
    const a = root(one),
      b = root(other);
    if (a !== b) ((parent[a] = b), nRegions--);
  }
  return { nRegions, nMaps: count, maps: labels, regions: parent.map((_, i) => root(i)) };
}
