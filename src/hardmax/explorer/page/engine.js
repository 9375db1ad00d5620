// The compiled planar search, driven from JavaScript: packing networks for the core, running slices of a
// search, and splitting cells in integers where floats cannot decide.
import {
  chartForms,
  clipPolygon,
  compose,
  divide,
  doubledForms,
  finestGrid,
  integersOf,
  layerOutput,
  layerScores,
  plane,
  polygonOf,
  roundedForms,
  roundedLine,
  roundedVertex,
  startOf,
  unitOf,
} from "./exact.js";
import { affine } from "./models.js";

const DONE = 0,
  BUDGET = 1,
  STACK_FULL = 2,
  CELLS_FULL = 3,
  CELL_LIMIT = 4,
  UNCLEAR = 5,
  IMPRECISE = 6;
const OUT_OF_RANGE = 3;
const EDGE = 12;

// The status of a core call, or the number of bytes it needs. Throws an error if the core refused a size or
// an index.
export function checkStatus(status, refusal = OUT_OF_RANGE) {
  if (status === refusal) throw new Error("A size or an index of the model is out of range.");
  return status;
}

export const checkSize = (nBytes) => checkStatus(nBytes, 0);

// The memory of the module is allocated block by block, and released all at once.
export class Engine {
  constructor(instance) {
    this.core = instance.exports;
    this.core._initialize();
    this.base = (this.core.__heap_base.value + 63) & ~63;
    this.forget();
  }

  static async load(bytes) {
    const { instance } = await WebAssembly.instantiate(bytes, {});
    return new Engine(instance);
  }

  forget() {
    this.top = this.base;
  }

  // Allocate a block of memory, aligned to 64 bytes and filled with zeros.
  take(nBytes) {
    const at = this.top;
    this.top = (at + nBytes + 63) & ~63;
    const lacking = this.top - this.core.memory.buffer.byteLength;
    if (lacking > 0) this.core.memory.grow(Math.max(Math.ceil(lacking / 65536), 64));
    new Uint8Array(this.core.memory.buffer, at, nBytes).fill(0);
    return at;
  }

  floats(at, n) {
    return new Float64Array(this.core.memory.buffer, at, n);
  }

  ints(at, n) {
    return new Int32Array(this.core.memory.buffer, at, n);
  }

  longs(at, n) {
    return new BigInt64Array(this.core.memory.buffer, at, n);
  }

  bytes(at, n) {
    return new Uint8Array(this.core.memory.buffer, at, n);
  }

  put(numbers) {
    const at = this.take(8 * numbers.length);
    this.floats(at, numbers.length).set(numbers);
    return at;
  }

  putInts(numbers) {
    const at = this.take(4 * numbers.length);
    this.ints(at, numbers.length).set(numbers);
    return at;
  }

  putLongs(numbers) {
    const at = this.take(8 * numbers.length);
    this.longs(at, numbers.length).set(numbers.map(BigInt));
    return at;
  }
}

// --- Networks ------------------------------------------------------------------------------------

function packMap(map, integers, numbers) {
  integers.push(map.nIn, map.nOut, map.weight === null ? 1 : 0);
  if (map.weight !== null) numbers.push(map.weight);
  numbers.push(map.bias);
}

function packLayer(layer, classes, integers, numbers) {
  integers.push(
    layer.isRelu ? 1 : 0,
    layer.residual ? 1 : 0,
    layer.nForms,
    layer.nGroups,
    layer.width,
  );
  packMap(layer.query, integers, numbers);
  const outputs = [];
  packMap(layer.output, integers, outputs);
  if (!layer.isRelu) {
    integers.push(...layer.starts, ...layer.slots);
    if (layer.read) integers.push(layer.read.n, ...layer.read.columns);
    else integers.push(-1);
    integers.push(classes.length > 0 ? 1 : 0);
    numbers.push(layer.read ? layer.read.slopes : layer.slopes, layer.offsets);
    if (classes.length > 0) {
      const { first, gains, gainRadii, values, valueRadii } = coincidingMeans(layer, classes);
      integers.push(...first);
      numbers.push(gains, gainRadii, values, valueRadii);
    } else {
      numbers.push(layer.gains, layer.values);
    }
  }
  numbers.push(...outputs);
}

// Pack a network for the core. Forms that coincide on every input are searched for where floats cannot
// exclude them.
function packNetwork(engine, network) {
  let classes = network.layers.map(() => []);
  let packed = pack(engine, network, classes);
  if (!packed.isDistinct) {
    classes = network.layers.map((layer) => (layer.isRelu ? [] : coincidentClasses(layer)));
    if (classes.some((sets) => sets.length > 0)) packed = pack(engine, network, classes);
  }
  return packed.at;
}

function pack(engine, network, classes) {
  const integers = [network.layers.length, network.embedding.nOut],
    numbers = [];
  network.layers.forEach((layer, i) => packLayer(layer, classes[i], integers, numbers));
  packMap(network.readout, integers, numbers);
  let n = 0;
  for (const array of numbers) n += array.length;
  const at = engine.take(8 * n),
    flat = engine.floats(at, n);
  n = 0;
  for (const array of numbers) (flat.set(array, n), (n += array.length));
  const { core } = engine,
    given = engine.putLongs(integers);
  const nBytes = core.hm_network_size(given, BigInt(integers.length), at, BigInt(n));
  const memory = engine.take(checkSize(nBytes));
  return { at: memory, isDistinct: core.hm_network_init(memory, given, at, 0) !== 0 };
}

// Sets of two or more forms of one group that coincide on every input of the layer: as forms of that input,
// of any width, they have equal integers.
function coincidentClasses(layer) {
  const { nIn, nOut, weight, bias } = layer.query;
  const slopes = integersOf(layer.slopes),
    offsets = integersOf(layer.offsets);
  const query = weight === null ? null : integersOf([...weight, ...bias]);
  const rows = [];
  for (let j = 0; j < layer.nForms; j++) {
    const slope = (k) => slopes.integers[j * nOut + k];
    if (query === null) {
      // Slopes and offsets of equal forms are equal floats.
      const own = Array.from(layer.slopes.subarray(j * nOut, (j + 1) * nOut), (x) => x + 0);
      rows.push([...own, layer.offsets[j] + 0].join(" "));
      continue;
    }
    const row = [];
    for (let i = 0; i <= nIn; i++) {
      let sum = 0n;
      for (let k = 0; k < nOut; k++)
        sum += slope(k) * query.integers[i < nIn ? i * nOut + k : nIn * nOut + k];
      row.push(sum);
    }
    // The offset has a different scale; convert both to the finer one.
    const exponent = slopes.exponent + query.exponent,
      finest = Math.min(exponent, offsets.exponent);
    row[nIn] =
      (row[nIn] << BigInt(exponent - finest)) +
      (offsets.integers[j] << BigInt(offsets.exponent - finest));
    rows.push(row.join(" "));
  }
  return classesOf(rows, layer);
}

function classesOf(rows, layer) {
  const classes = [];
  for (let g = 0; g < layer.nGroups; g++) {
    const seen = new Map();
    for (let j = layer.starts[g]; j < layer.starts[g + 1]; j++) {
      if (!seen.has(rows[j])) seen.set(rows[j], []);
      seen.get(rows[j]).push(j);
    }
    for (const members of seen.values()) if (members.length > 1) classes.push(members);
  }
  return classes;
}

// The mean over coinciding forms is assigned to the first form of each class. All numbers have radii.
function coincidingMeans(layer, classes) {
  const first = Int32Array.from({ length: layer.nForms }, (_, j) => j);
  const gains = layer.gains.slice(),
    values = layer.values.slice();
  const gainRadii = new Float64Array(gains.length),
    valueRadii = new Float64Array(values.length);
  for (const members of classes) {
    const to = members[0];
    for (const j of members) first[j] = to;
    [gains[to], gainRadii[to]] = meanOf(members.map((j) => layer.gains[j]));
    for (let k = 0; k < layer.width; k++) {
      const at = to * layer.width + k;
      [values[at], valueRadii[at]] = meanOf(members.map((j) => layer.values[j * layer.width + k]));
    }
  }
  return { first, gains, gainRadii, values, valueRadii };
}

function meanOf(numbers) {
  const { integers, exponent } = integersOf(numbers);
  const sum = integers.reduce((a, b) => a + b, 0n),
    n = BigInt(numbers.length);
  return exponent >= 0 ? divide(sum << BigInt(exponent), n) : divide(sum, n << BigInt(-exponent));
}

// --- Domains -------------------------------------------------------------------------------------

// Read { box: [x0, y0, x1, y1] }, { plane: true } or { rows: [[a, b, c], ...] } with integers as text,
// for a x + b y <= c; with `chart`, a map { weight: (2, n), bias: (n) } from the plane to inputs.
export function readDomain(domain) {
  const chart = domain.chart ? affine(domain.chart.weight, domain.chart.bias) : null;
  const numbers = chart ? [...chart.weight, ...chart.bias] : [];
  const isPlane = !chart || (chart.nIn === 2 && chart.weight.length === 2 * chart.nOut);
  if (!isPlane || ![...numbers, ...(domain.box ?? [])].every(Number.isFinite))
    throw new Error("The domain is not a plane in the model's input space.");
  if (domain.box) {
    const [x0, y0, x1, y1] = domain.box;
    if (!(x0 < x1 && y0 < y1)) throw new Error("The domain has no interior.");
    const corners = [
      [x0, y0],
      [x1, y0],
      [x1, y1],
      [x0, y1],
    ];
    const sides = [
      [0, 1, -y0],
      [-1, 0, x1],
      [0, -1, y1],
      [1, 0, -x0],
    ];
    const edges = new Float64Array(4 * EDGE);
    sides.forEach((side, i) => edges.set(side, i * EDGE));
    corners.forEach((corner, i) => edges.set(corner, i * EDGE + 6));
    const walls = [3, 0, 1, 2].flatMap((row) => [-1, row, 0, 0]);
    const rows = [
      [1, 0, x1],
      [0, 1, y1],
      [-1, 0, -x0],
      [0, -1, -y0],
    ].map((row) => integersOf(row).integers);
    return { chart, rows, edges, walls, isBounded: true, scale: scaleOf(edges) };
  }
  const rows = (domain.rows ?? []).map((row) => row.map(BigInt));
  let polygon = plane();
  rows.forEach(([a, b, c], i) => {
    polygon = clipPolygon(polygon, [-a, -b, c, 0n], [-1, i, 0, 0], i);
  });
  if (polygon.length === 0) throw new Error("The domain has no interior.");
  const edges = new Float64Array(polygon.length * EDGE);
  polygon.forEach((edge, i) => {
    edges.set([...roundedLine(edge.line), ...roundedVertex(edge.start)], i * EDGE);
  });
  const isBounded = polygon.every((edge) => edge.start[1] === 0n && edge.start[3] === 0n);
  const walls = polygon.flatMap((edge) => edge.label);
  return { chart, rows, edges, walls, isBounded, scale: scaleOf(edges) };
}

function scaleOf(edges) {
  let most = 1;
  for (let i = 0; i < edges.length; i += EDGE)
    most = Math.max(most, Math.abs(edges[i + 6]), Math.abs(edges[i + 7]));
  let exponent = 1;
  while (exponent < 1000 && 2 ** exponent <= most) exponent++;
  return 2 ** exponent;
}

// The exact stream before the first layer.
export function firstForms(network, chart) {
  return compose(chartForms(chart), network.embedding);
}

// The exact output on the cell of a signature.
export function outputForms(network, chart, signature) {
  let stream = firstForms(network, chart),
    first = 0;
  for (const layer of network.layers) {
    const winners = signature.subarray(first, (first += layer.nGroups));
    stream = layerOutput(layer, stream, layerScores(layer, stream), winners);
  }
  return compose(stream, network.readout);
}

export const signatureOf = (found, cell) =>
  found.signatures.subarray(cell * found.nGroups, (cell + 1) * found.nGroups);

// The successor of the float32 nearest to a nonnegative number.
function above(number) {
  const float = Float32Array.of(number),
    bits = new Int32Array(float.buffer);
  if (float[0] < Infinity) bits[0]++;
  return float[0];
}

// --- A search ------------------------------------------------------------------------------------

// A running search. An engine runs one search at a time; a new search takes over the memory of the last one.
export class Search {
  constructor(engine, network, where, { stores = true } = {}) {
    engine.forget();
    Object.assign(this, { engine, network, where, stores });
    this.nExact = 0;
    this.hasMeans = false;
    this.kept = { versions: [], streams: [], scores: [], isFresh: [] };
    this.nGroups = network.layers.reduce((n, layer) => n + layer.nGroups, 0);
    this.largest = Math.max(
      1,
      ...network.layers.flatMap((layer) =>
        layer.isRelu
          ? [2]
          : Array.from(layer.slots, (_, g) => layer.starts[g + 1] - layer.starts[g]),
      ),
    );
    this.packed = packNetwork(engine, network);
    this.start();
    if (stores) this.makeColumns(1024, 1024 * 5);
    else this.room = engine.take(128);
    this.never = engine.take(4);
  }

  start() {
    const { engine, where, network } = this,
      { core } = engine;
    const forms = firstForms(network, where.chart);
    const n = network.embedding.nOut;
    const block = roundedForms(forms, forms.rows, where.scale);
    const doubled = doubledForms(forms, forms.rows, where.scale);
    const isExact = block.subarray(3 * n).every((radius) => radius === 0);
    const start = engine.take(40);
    const ints = [
      0,
      0,
      0,
      0,
      engine.put(block),
      engine.put(doubled),
      isExact,
      finestGrid(block.subarray(0, 3 * n)),
      where.isBounded,
      this.stores,
    ];
    engine.ints(start, 10).set(ints);
    engine.ints(start, 1)[0] = 2;
    engine.floats(start + 8, 1)[0] = where.scale;
    const widest = this.largest >= 24 ? this.largest : 0;
    this.stack = [256 + 16 * widest, 48 + widest];
    const given = [this.packed, start, ...this.stack];
    const nBytes = checkSize(core.hm_search_begin(0, 0, ...given));
    this.at = engine.take(nBytes);
    core.hm_search_begin(this.at, nBytes, ...given);
    const cell = this.writeCell(where.edges, where.walls);
    const nobody = engine.take(8);
    while (checkStatus(core.hm_search_push(this.at, 0, 0, nobody, nobody, cell))) this.grow();
    this.counts = engine.take(32);
  }

  grow() {
    const { engine } = this,
      { core } = engine;
    this.stack = this.stack.map((n) => 2 * n);
    const memory = engine.take(core.hm_search_stack_size(this.at, ...this.stack));
    core.hm_search_set_stack(this.at, memory, ...this.stack);
  }

  // A polygon in the format of the core: the numbers of its edges (n, 12) and their walls (n, 4).
  cellOf(n, edges, walls, at = this.engine.take(56)) {
    this.engine.ints(at, 14).set([n, n, 0, 0, EDGE, EDGE, edges + 48, edges, walls, 0, 0, 0, 0, 0]);
    return at;
  }

  writeCell(edges, walls, at) {
    const { engine } = this;
    return this.cellOf(edges.length / EDGE, engine.put(edges), engine.putInts(walls), at);
  }

  makeColumns(nCells, nVertices) {
    const { engine, network, where } = this;
    const before = this.columns,
      isShort = this.largest <= 256;
    const dimOut = network.readout.nOut;
    const sizes = {
      signatures: [nCells, this.nGroups * (isShort ? 1 : 4)],
      maps: [nCells, 24 * dimOut],
      radii: [nCells, 4],
      ends: [nCells, 8],
      points: [nVertices, 16],
      directions: [where.isBounded ? 0 : nVertices, 16],
      walls: [nVertices, 4],
    };
    const columns = { nCells, nVertices, isShort, at: {} };
    for (const [name, [n, size]] of Object.entries(sizes)) {
      columns.at[name] = engine.take(n * size);
      if (before) {
        const used =
          size *
          (name === "points" || name === "directions" || name === "walls"
            ? before.nVertices
            : before.nCells);
        if (n) engine.bytes(columns.at[name], used).set(engine.bytes(before.at[name], used));
      }
    }
    this.columns = columns;
    this.room ??= engine.take(128);
    engine.longs(this.room, 4).set([BigInt(nCells), BigInt(nVertices), 0n, 0n]);
    const { at } = columns;
    engine
      .ints(this.room + 72, 13)
      .set([
        isShort ? at.signatures : 0,
        isShort ? 0 : at.signatures,
        at.maps,
        at.radii,
        at.ends,
        at.points,
        where.isBounded ? 0 : at.directions,
        at.walls,
        0,
        0,
        0,
        0,
        0,
      ]);
  }

  readCounts() {
    this.engine.core.hm_search_counts(this.at, this.counts);
    const [cells, filtered, expanded, items] = Array.from(
      this.engine.longs(this.counts, 4),
      Number,
    );
    return { cells, filtered, expanded, items };
  }

  // Continue the search for about `milliseconds`; stop after `limit` cells. Returns true if it is complete.
  run(milliseconds = Infinity, limit = -1) {
    const { core } = this.engine,
      began = performance.now();
    let budget = 2000;
    for (;;) {
      const since = performance.now();
      const status = core.hm_search_run(
        this.at,
        this.room,
        BigInt(limit),
        BigInt(budget),
        this.never,
        this.counts,
        0,
      );
      if (status === DONE) return true;
      if (status === CELL_LIMIT) return false;
      if (status === BUDGET) {
        const spent = Math.max(performance.now() - since, 0.05);
        budget = Math.max(1, Math.min(1e9, Math.floor(budget * Math.min(20 / spent, 8))));
      } else if (status === STACK_FULL) this.grow();
      else if (status === CELLS_FULL)
        this.makeColumns(2 * this.columns.nCells, 2 * this.columns.nVertices + this.top().n);
      else if (status === UNCLEAR) this.splitTop();
      else if (status === IMPRECISE) this.improveTop();
      if (performance.now() - began > milliseconds) return false;
    }
  }

  // The cells found so far, copied into new arrays.
  found() {
    const { engine, columns, network } = this;
    const n = Number(engine.longs(this.room + 32, 1)[0]),
      nVertices = Number(engine.longs(this.room + 40, 1)[0]);
    const { at, isShort } = columns;
    const starts = new Int32Array(n + 1);
    engine.longs(at.ends, n).forEach((end, i) => (starts[i + 1] = Number(end)));
    const signatures = isShort
      ? engine.bytes(at.signatures, n * this.nGroups)
      : engine.ints(at.signatures, n * this.nGroups);
    const found = {
      n,
      nGroups: this.nGroups,
      starts,
      signatures: signatures.slice(),
      maps: engine.floats(at.maps, n * 3 * network.readout.nOut).slice(),
      radii: new Float32Array(engine.core.memory.buffer, at.radii, n).slice(),
      points: engine.floats(at.points, 2 * nVertices).slice(),
      directions: this.where.isBounded ? null : engine.floats(at.directions, 2 * nVertices).slice(),
      walls: engine.ints(at.walls, nVertices).slice(),
      hasMeans: this.hasMeans,
    };
    if (engine.longs(this.room + 64, 1)[0] > 0n) this.repair(found);
    return found;
  }

  // Recompute maps that overflowed in floats, in exact arithmetic.
  repair(found) {
    const { network, where } = this,
      size = 3 * network.readout.nOut;
    for (let cell = 0; cell < found.n; cell++) {
      if (Number.isFinite(found.radii[cell])) continue;
      const forms = outputForms(network, where.chart, signatureOf(found, cell));
      const block = roundedForms(forms, forms.rows, where.scale);
      found.maps.set(block.subarray(0, size), cell * size);
      found.radii[cell] = above(Math.max(...block.subarray(size)));
    }
  }

  // --- Splitting in integers ----------------------------------------------------------------------

  // The cell on top of the stack: its layer, next group, number of edges, and their numbers and walls.
  top() {
    const { engine } = this,
      { core } = engine;
    const item = this.readCounts().items - 1;
    this.scratch ??= { place: engine.take(12), cell: engine.take(56), room: 0 };
    const { place, cell } = this.scratch;
    engine.ints(cell, 14).fill(0);
    core.hm_search_item(this.at, item, place, cell);
    const n = engine.ints(cell, 1)[0];
    if (n > this.scratch.room) {
      this.scratch.room = 2 * n;
      this.scratch.edges = engine.take(2 * n * EDGE * 8);
      this.scratch.walls = engine.take(2 * n * 16);
    }
    this.cellOf(n, this.scratch.edges, this.scratch.walls, cell);
    core.hm_search_item(this.at, item, place, cell);
    const [layer, , group] = engine.ints(place, 3);
    const walls = engine.ints(this.scratch.walls, 4 * n).slice();
    return {
      layer,
      group,
      n,
      edges: engine.floats(this.scratch.edges, n * EDGE).slice(),
      walls: Array.from({ length: n }, (_, i) => Array.from(walls.subarray(4 * i, 4 * i + 4))),
    };
  }

  // The exact scores of a layer on the path. With `refresh`, the core's floats up to that layer are replaced
  // by the nearest ones, and coinciding forms are merged.
  scores(layer, refresh = true) {
    const { engine, network, kept } = this,
      { core } = engine;
    const nLayers = network.layers.length;
    this.asked ??= {
      versions: engine.take(8 * nLayers + 8),
      merged: engine.take(4 * nLayers + 4),
      winners: engine.take(4 * this.nGroups + 4),
    };
    core.hm_search_versions(this.at, this.asked.versions, this.asked.merged);
    const versions = Array.from(engine.longs(this.asked.versions, nLayers), Number);
    let known = 0;
    while (
      known < kept.versions.length &&
      known <= layer &&
      kept.versions[known] === versions[known]
    )
      known++;
    if (known <= layer)
      for (const list of Object.values(kept)) list.length = Math.min(list.length, known);
    core.hm_search_signature(this.at, this.asked.winners);
    const signature = engine.ints(this.asked.winners, this.nGroups).slice();
    let first = 0;
    for (let i = 0; i <= layer; i++) {
      if (i >= known) {
        const before = network.layers[i - 1];
        const stream =
          i === 0
            ? firstForms(network, this.where.chart)
            : layerOutput(
                before,
                kept.streams[i - 1],
                kept.scores[i - 1],
                signature.subarray(first - before.nGroups, first),
              );
        kept.streams.push(stream);
        kept.scores.push(layerScores(network.layers[i], stream));
        kept.versions.push(versions[i]);
        kept.isFresh.push(false);
      }
      first += network.layers[i].nGroups;
    }
    for (let i = 0; refresh && i <= layer; i++) {
      if (!kept.isFresh[i]) this.refresh(i);
      kept.isFresh[i] = true;
    }
    return kept.scores[layer];
  }

  refresh(index) {
    const { engine, network, where, kept } = this;
    const layer = network.layers[index],
      stream = kept.streams[index],
      scores = kept.scores[index];
    const picked = layer.isRelu ? scores.rows.filter((_, j) => j % 2 === 1) : scores.rows;
    const mark = engine.top;
    const given = [
      [stream, stream.rows],
      [scores, picked],
    ].flatMap(([forms, rows]) => {
      const block = roundedForms(forms, rows, where.scale),
        n = rows.length;
      const isExact = block.subarray(3 * n).every((radius) => radius === 0);
      return [engine.put(block), isExact ? 1 : 0, finestGrid(block.subarray(0, 3 * n))];
    });
    let merged = [0, 0, 0, 0, 0];
    if (!layer.isRelu) {
      const classes = classesOf(
        scores.rows.map((row) => row.join(" ")),
        layer,
      );
      this.hasMeans ||= String(classes) !== String(coincidentClasses(layer));
      const { first, gains, gainRadii, values, valueRadii } = coincidingMeans(layer, classes);
      merged = [
        engine.putInts(first),
        ...[gains, gainRadii, values, valueRadii].map((array) => engine.put(array)),
      ];
    }
    engine.core.hm_search_refresh(this.at, index, ...given, ...merged);
    engine.top = mark;
  }

  lineOf([layer, group, winner, rival], refresh = true) {
    if (layer < 0) {
      if (group < 0) return plane()[-1 - group].line;
      const [a, b, c] = this.where.rows[group];
      return [-a, -b, c, 0n];
    }
    const { rows } = this.scores(layer, refresh);
    const first = startOf(this.network.layers[layer], group);
    return difference(rows[first + winner], rows[first + rival]);
  }

  // Replace the vertices of the cell on top by the floats nearest to the exact vertices.
  improveTop() {
    this.nExact++;
    const { walls } = this.top();
    const whole = polygonOf(
      walls.map((wall, i) => ({ line: this.lineOf(wall, false), label: wall, source: i })),
    );
    const vertices = whole.flatMap((edge) => {
      const vertex = roundedVertex(edge.start);
      // A vertex beyond the range of floats is stored as the largest float.
      if (vertex[2] === Infinity) vertex[0] = vertex[1] = Number.MAX_VALUE;
      return vertex;
    });
    const mark = this.engine.top;
    this.engine.core.hm_search_set_vertices(this.at, this.engine.put(vertices));
    this.engine.top = mark;
  }

  // Split the polygon on top of the stack by its next group.
  splitTop() {
    this.nExact++;
    const { engine } = this;
    const { layer, group, edges, walls } = this.top();
    const scores = this.scores(layer);
    const whole = polygonOf(
      walls.map((wall, i) => ({ line: this.lineOf(wall), label: wall, source: i })),
    );
    const [up, down] = unitOf(scores);
    const parts = this.parts(scores, layer, group, whole).sort((a, b) => b.winner - a.winner);
    const mark = engine.top;
    const winners = engine.putInts(parts.map((part) => part.winner)),
      cells = engine.take(56 * parts.length);
    parts.forEach(({ part }, i) => {
      const rows = new Float64Array(part.length * EDGE);
      part.forEach((edge, k) => {
        rows.set(
          edge.source >= 0
            ? edges.subarray(edge.source * EDGE, edge.source * EDGE + 6)
            : floatsOf(edge.line, up, down),
          k * EDGE,
        );
        rows.set(roundedVertex(edge.start), k * EDGE + 6);
      });
      this.writeCell(
        rows,
        part.flatMap((edge) => edge.label),
        cells + 56 * i,
      );
    });
    let isGrown = false;
    while (checkStatus(engine.core.hm_search_replace(this.at, parts.length, winners, cells)))
      (this.grow(), (isGrown = true));
    // If the stack has grown, its new memory lies after the mark and must not be released.
    if (!isGrown) engine.top = mark;
  }

  parts(scores, layer, group, whole) {
    const model = this.network.layers[layer],
      first = startOf(model, group),
      { rows } = scores;
    const members = this.competitors(model, layer, group, rows);
    const found = [];
    for (const winner of members) {
      let part = whole;
      for (const rival of members) {
        if (rival === winner) continue;
        part = clipPolygon(
          part,
          difference(rows[winner], rows[rival]),
          [layer, group, winner - first, rival - first],
          -1,
        );
        if (part.length === 0) break;
      }
      if (part.length > 0) found.push({ winner: winner - first, part });
    }
    return found;
  }

  competitors(model, layer, group, rows) {
    if (model.isRelu) {
      const first = 2 * group;
      return rows[first + 1].every((x) => x === 0n) ? [first] : [first, first + 1];
    }
    const { engine } = this,
      mark = engine.top,
      forms = engine.take(4 * this.largest);
    const n = engine.core.hm_search_candidates(this.at, layer, group, forms);
    const members = Array.from(engine.ints(forms, n));
    engine.top = mark;
    return members;
  }
}

function difference(one, other) {
  return [one[0] - other[0], one[1] - other[1], one[2] - other[2], 0n];
}

// The numbers of a new line: its exact coefficients, rounded, and their radii.
function floatsOf(line, up, down) {
  const [a, b, c] = line.slice(0, 3).map((x) => divide(x * up, down));
  return [a[0], b[0], c[0], 0, Math.max(a[1], b[1]), c[1]];
}

// Find all cells of a network on a domain.
export function findCells(engine, network, domain) {
  const search = new Search(engine, network, readDomain(domain));
  search.run();
  return search.found();
}
