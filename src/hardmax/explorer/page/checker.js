// Check a certificate of cells of the plane in integers, from two files: the network and the certificate. The
// checker uses no other code of the page, no float arithmetic, and trusts nothing in the certificate. For the
// file formats, the claim, and the proof that these checks suffice, see docs/certificates.md.
//
// A form is a row of three integers (a, b, c) for x a + y b + c, times a positive factor that all rows of a
// list share. The last row of a list is the constant 1.

class Refused extends Error {}

function demand(holds, why) {
  if (!holds) throw new Refused(why);
}

// The result of checking a certificate: { n }, the number of cells, or { reason } if it is refused.
export function checkCertificate(modelBytes, text) {
  try {
    const network = readNetwork(modelBytes),
      claim = readClaim(text);
    demand(claim.model === fingerprintOf(network), "the certificate is about another model");
    checkShapes(network, claim);
    checkTiling(integerNetwork(network), claim);
    return { n: claim.signatures.length };
  } catch (error) {
    if (error instanceof Refused) return { reason: error.message };
    throw error;
  }
}

// --- JSON without fractions ------------------------------------------------------------------------

const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

// Objects become maps. A repeated name, a fraction, or a number beyond 2^53 is refused.
function readJson(text, what) {
  const space = /[ \t\n\r]*/y,
    quoted = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y,
    integer = /-?(?:0|[1-9][0-9]*)(?![0-9.eE])/y;
  let at = 0;
  const wrong = () =>
    demand(false, `${what} must be JSON with integers and without repeated names`);
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found?.[0];
  };
  const takes = (sign) => (match(space), text[at] === sign && (at++, true));
  function listOf(end, item) {
    const items = [];
    if (takes(end)) return items;
    do items.push(item());
    while (takes(","));
    return takes(end) ? items : wrong();
  }
  function value(depth) {
    if (depth > 30) wrong();
    match(space);
    if (takes("[")) return listOf("]", () => value(depth + 1));
    if (takes("{")) {
      const pairs = listOf("}", () => {
        match(space);
        const name = match(quoted);
        return name !== undefined && takes(":") ? [JSON.parse(name), value(depth + 1)] : wrong();
      });
      const fields = new Map(pairs);
      return fields.size === pairs.length ? fields : wrong();
    }
    const word = WORDS.find(([name]) => text.startsWith(name, at));
    if (word) return ((at += word[0].length), word[1]);
    const string = match(quoted);
    if (string !== undefined) return JSON.parse(string);
    const digits = match(integer);
    return digits !== undefined && Number.isSafeInteger(Number(digits)) ? Number(digits) : wrong();
  }
  const read = value(0);
  match(space);
  return at === text.length ? read : wrong();
}

const isText = (value) => typeof value === "string";
const isWhole = (value) => typeof value === "number" && value >= 0;

function field(content, name, is) {
  const value = content instanceof Map ? content.get(name) : undefined;
  demand(value !== undefined && is(value), `\`${name}\` is missing or has the wrong type`);
  return value;
}

function requireFields(content, names) {
  const isSame = content.size === names.length && names.every((name) => content.has(name));
  demand(isSame, `the fields must be ${names.join(", ")}`);
}

function integerOf(entry) {
  if (typeof entry === "number") return BigInt(entry);
  demand(
    isText(entry) && /^-?0x[0-9a-fA-F]+$/.test(entry),
    "an integer must be a number, or hexadecimal text such as '-0x1f'",
  );
  return entry[0] === "-" ? -BigInt(entry.slice(1)) : BigInt(entry);
}

function tableOf(content, name, nColumns) {
  return field(content, name, Array.isArray).map((row) => {
    demand(
      Array.isArray(row) && row.length === nColumns,
      `\`${name}\` must have rows of ${nColumns} integers`,
    );
    return row.map(integerOf);
  });
}

// --- The certificate -------------------------------------------------------------------------------

function readClaim(text) {
  const content = readJson(text, "the certificate");
  const isMap = (value) => value instanceof Map;
  demand(
    field(content, "format", isText) === "hardmax.certificate/1",
    "the format must be hardmax.certificate/1",
  );
  const domain = field(content, "domain", isMap),
    completeness = field(content, "completeness", isMap);
  const fields = "format model domain domain_fingerprint signatures witnesses completeness";
  requireFields(content, fields.split(" "));
  requireFields(domain, ["dim", "chart", "chart_denominator", "rows"]);
  const isTiling = field(completeness, "kind", isText) === "tiling";
  demand(
    isTiling && field(domain, "dim", isWhole) === 2,
    "the explorer checks only tilings of planes; use `hardmax verify`",
  );
  requireFields(completeness, ["kind"]);
  const chart = tableOf(domain, "chart", 3),
    rows = tableOf(domain, "rows", 3),
    denominator = integerOf(domain.get("chart_denominator"));
  const table = (given) => ({ shape: [given.length, 3], entries: given.flat() });
  demand(
    field(content, "domain_fingerprint", isText) ===
      hashOf([table(chart), denominator, table(rows)]),
    "the domain does not match its fingerprint",
  );
  const signatures = field(content, "signatures", Array.isArray);
  for (const row of signatures)
    demand(Array.isArray(row) && row.every(isWhole), "`signatures` must contain indices");
  const witnesses = tableOf(content, "witnesses", 3);
  demand(witnesses.length === signatures.length, "there must be one witness per cell");
  const order = signatures.map((_, i) => i);
  order.sort((i, j) => compare(signatures[i], signatures[j]));
  return {
    model: field(content, "model", isText),
    chart,
    denominator,
    rows: rows.map(([a, b, c]) => [-a, -b, c]),
    signatures: order.map((i) => signatures[i]),
    witnesses: order.map((i) => witnesses[i]),
  };
}

function compare(one, other) {
  for (let k = 0; k < Math.min(one.length, other.length); k++)
    if (one[k] !== other[k]) return one[k] - other[k];
  return one.length - other.length;
}

// --- The network: a file of kind ArgmaxNetwork -------------------------------------------------------

// Tensors of a safetensors file: { shape, bytes, isIndex }, and the text of its metadata.
function readTensors(bytes) {
  const unreadable = "the model is not a valid safetensors file of hardmax";
  demand(bytes.length >= 8, unreadable);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    length = Number(view.getBigUint64(0, true));
  demand(length <= bytes.length - 8, unreadable);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length));
  } catch {
    demand(false, unreadable);
  }
  const header = readJson(text, "the header of the model"),
    data = bytes.subarray(8 + length);
  demand(header instanceof Map, unreadable);
  const metadata = field(header, "__metadata__", (value) => value instanceof Map);
  header.delete("__metadata__");
  const places = [];
  for (const [name, entry] of header) {
    const isIndex = ["starts", "slots", "reads"].includes(name.split(".").pop());
    const offsets = field(entry, "data_offsets", Array.isArray),
      shape = field(entry, "shape", Array.isArray);
    const isPlain = offsets.length === 2 && [...offsets, ...shape].every(isWhole);
    const isRight = field(entry, "dtype", isText) === (isIndex ? "I64" : "F64");
    const n = shape.reduce((a, b) => a * b, 1);
    demand(isPlain && isRight && offsets[1] - offsets[0] === 8 * n, unreadable);
    places.push({ name, begin: offsets[0], end: offsets[1], shape, isIndex });
  }
  // Tensors must be contiguous, so that they have no more entries than the file has bytes for.
  places.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let end = 0;
  for (const place of places) (demand(place.begin === end, unreadable), (end = place.end));
  demand(end === data.length, unreadable);
  const tensors = new Map(
    places.map(({ name, begin, end, ...rest }) => [
      name,
      { ...rest, bytes: data.slice(begin, end) },
    ]),
  );
  return { text: field(metadata, "hardmax", isText), tensors };
}

// The network as it is stored, as tensors.
function readNetwork(file) {
  const { text, tensors } = readTensors(file),
    fields = readJson(text, "the metadata of the model");
  const isOurs = /^hardmax\.model\/[12]$/.test(field(fields, "format", isText));
  demand(
    isOurs && field(fields, "kind", isText) === "ArgmaxNetwork",
    "the model must be of kind ArgmaxNetwork; `hm.save_model(model.network, path)` writes such a file",
  );
  const identities = fields.get("identities") ?? [];
  demand(Array.isArray(identities), "`identities` must be a list");
  // A tensor of the given shape, in which null stands for any positive number.
  const take = (name, ...shape) => {
    const tensor = tensors.get(name);
    demand(tensor, `the tensor ${name} is missing`);
    tensors.delete(name);
    const fits = (n, i) => n === (shape[i] ?? Math.max(1, n));
    demand(
      tensor.shape.length === shape.length && tensor.shape.every(fits),
      `the tensor ${name} has the wrong shape`,
    );
    const { buffer } = tensor.bytes;
    tensor.numbers = tensor.isIndex
      ? Array.from(new BigInt64Array(buffer), Number)
      : new Float64Array(buffer);
    demand(tensor.numbers.every(Number.isFinite), `the tensor ${name} has an entry that is not finite`);
    return tensor;
  };
  const affine = (prefix) => {
    if (identities.includes(prefix)) {
      const bias = take(`${prefix}bias`, null);
      demand(
        bias.numbers.every((x) => x === 0),
        "the bias of an identity map must be zero",
      );
      return { identity: bias.shape[0] };
    }
    const weight = take(`${prefix}weight`, null, null),
      [n, m] = weight.shape;
    const bias = take(`${prefix}bias`, m);
    const isIdentity =
      n === m &&
      weight.numbers.every((x, i) => x === (i % (n + 1) === 0 ? 1 : 0)) &&
      bias.numbers.every((x) => x === 0);
    return isIdentity ? { identity: n } : { weight, bias };
  };
  const layers = field(fields, "residuals", Array.isArray).map((residual, i) => {
    demand(typeof residual === "boolean", "`residuals` must contain true or false");
    const prefix = `layers.${i}.`,
      slopes = take(`${prefix}slopes`, null, null),
      slots = take(`${prefix}slots`, null);
    const [nForms, nRead] = slopes.shape,
      [nGroups] = slots.shape;
    return {
      query: affine(`${prefix}query.`),
      slopes,
      offsets: take(`${prefix}offsets`, nForms),
      starts: take(`${prefix}starts`, nGroups + 1),
      slots,
      gains: take(`${prefix}gains`, nForms),
      values: take(`${prefix}values`, nForms, null),
      output: affine(`${prefix}output.`),
      residual,
      reads: tensors.has(`${prefix}reads`) ? take(`${prefix}reads`, nGroups, nRead) : null,
    };
  });
  const network = { layers, embedding: affine("embedding."), readout: affine("readout.") };
  demand(tensors.size === 0, "the model file has unknown tensors");
  return network;
}

// --- Hashes: SHA-256 of the encoding in docs/certificates.md ------------------------------------------

// The hash by which a certificate identifies its network.
function fingerprintOf({ layers, embedding, readout }) {
  const affine = ({ identity, weight, bias }) =>
    new Map(
      Object.entries(
        identity === undefined
          ? { "": "AffineMap", weight, bias }
          : { "": "AffineMap", identity: BigInt(identity) },
      ),
    );
  const layer = ({ query, output, ...rest }) =>
    new Map(
      Object.entries({ "": "ArgmaxLayer", query: affine(query), output: affine(output), ...rest }),
    );
  const parts = { "": "ArgmaxNetwork", layers: layers.map(layer) };
  return hashOf(
    new Map(Object.entries({ ...parts, embedding: affine(embedding), readout: affine(readout) })),
  );
}

// The hash of a network stored in a file.
export const networkHash = (modelBytes) => fingerprintOf(readNetwork(modelBytes));

// Hash text, integers, tensors { shape, bytes, isIndex } and tables { shape, entries }, in lists and maps.
export function hashOf(value) {
  const parts = [],
    encoder = new TextEncoder();
  const write = (text) => parts.push(encoder.encode(text));
  const scalar = (kind, text) => write(`${kind} ${text.length} ${text};`);
  const shapeText = ({ shape }) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  (function feed(one) {
    if (isText(one)) scalar("str", one);
    else if (typeof one === "bigint") scalar("int", String(one));
    else if (typeof one === "boolean") scalar("bool", one ? "True" : "False");
    else if (one === null) scalar("NoneType", "None");
    else if (one instanceof Map) {
      write(`map ${one.size};`);
      for (const name of [...one.keys()].sort()) (feed(name), feed(one.get(name)));
    } else if (Array.isArray(one)) {
      write(`list ${one.length};`);
      one.forEach(feed);
    } else if (one.entries) {
      write(`array O ${shapeText(one)};`);
      feed(one.entries);
    } else {
      write(`array ${one.isIndex ? "<i8" : "<f8"} ${shapeText(one)};`);
      parts.push(one.bytes);
    }
  })(value);
  return sha256(parts);
}

// The first 32 fractional bits of the square roots or cube roots of the first primes.
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((p) => n % p !== 0)) PRIMES.push(n);
const rootBits = (prime, power) => {
  // The last 32 bits of the largest r with r^power <= prime 2^(32 power).
  const goal = BigInt(prime) << BigInt(32 * power);
  let root = 0n;
  for (let bit = 1n << 36n; bit > 0n; bit >>= 1n)
    if ((root + bit) ** BigInt(power) <= goal) root += bit;
  return Number(root & 0xffffffffn) | 0;
};
const FIRST = PRIMES.slice(0, 8).map((prime) => rootBits(prime, 2));
const ROUND = PRIMES.map((prime) => rootBits(prime, 3));

function sha256(parts) {
  let n = 0;
  for (const part of parts) n += part.length;
  const padded = new Uint8Array(64 * Math.ceil((n + 9) / 64)),
    view = new DataView(padded.buffer);
  n = 0;
  for (const part of parts) (padded.set(part, n), (n += part.length));
  padded[n] = 0x80;
  view.setBigUint64(padded.length - 8, 8n * BigInt(n));
  const state = Int32Array.from(FIRST),
    w = new Int32Array(64);
  const turned = (x, k) => (x >>> k) | (x << (32 - k));
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15],
        b = w[i - 2];
      const s = turned(a, 7) ^ turned(a, 18) ^ (a >>> 3),
        t = turned(b, 17) ^ turned(b, 19) ^ (b >>> 10);
      w[i] = w[i - 16] + s + w[i - 7] + t;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const s = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25),
        t = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const one = (h + s + ((e & f) ^ (~e & g)) + ROUND[i] + w[i]) | 0,
        two = (t + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] += x));
  }
  return Array.from(state, (x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
}

// --- Layers as integers -----------------------------------------------------------------------------

const floatBits = new DataView(new ArrayBuffer(8));

// A float as an integer over 2^1074.
function toInteger(x) {
  if (x === 0) return 0n;
  floatBits.setFloat64(0, x);
  const word = floatBits.getBigUint64(0),
    exponent = (word >> 52n) & 0x7ffn,
    digits = word & 0xfffffffffffffn;
  const size = exponent === 0n ? digits : (digits | 0x10000000000000n) << (exponent - 1n);
  return x < 0 ? -size : size;
}

// Rows of floats as integers times a scale. Rows are lists of [column, integer] without zeros.
function toScaledIntegers(rows) {
  const whole = rows.map((row) => Array.from(row, toInteger));
  // The lowest bit that is set in any of them; scales are at least 1.
  const all = whole.flat().reduce((all, x) => all | (x < 0n ? -x : x), 1n << 1074n),
    shift = BigInt((all & -all).toString(2).length - 1);
  return {
    rows: whole.map((row) => row.flatMap((x, k) => (x === 0n ? [] : [[k, x >> shift]]))),
    scale: 1n << (1074n - shift),
  };
}

const rowsOf = ({ shape, numbers }) =>
  Array.from({ length: shape[0] }, (_, i) => numbers.slice(i * shape[1], (i + 1) * shape[1]));

function integerMap({ identity, weight, bias }) {
  if (identity !== undefined)
    return {
      nIn: identity,
      rows: Array.from({ length: identity }, (_, i) => [[i, 1n]]),
      scale: 1n,
    };
  const [nIn, nOut] = weight.shape;
  const columns = Array.from({ length: nOut }, (_, i) => [
    ...Array.from({ length: nIn }, (_, k) => weight.numbers[k * nOut + i]),
    bias.numbers[i],
  ]);
  return { nIn, ...toScaledIntegers(columns) };
}

function integerLayer(stored) {
  const query = integerMap(stored.query),
    output = integerMap(stored.output),
    { slopes, residual } = stored,
    starts = stored.starts.numbers,
    slots = stored.slots.numbers,
    nQueries = query.rows.length,
    nForms = slopes.shape[0],
    nRead = slopes.shape[1];
  const groups = slots.map((_, g) => [starts[g], starts[g + 1]]);
  demand(
    starts[0] === 0 && starts[slots.length] === nForms && groups.every(([a, b]) => a < b),
    "`starts` must increase strictly from 0 to the number of forms",
  );
  demand(
    slots.every((slot) => slot >= 0 && slot <= output.nIn - stored.values.shape[1]),
    "`slots` must leave space for the values in the output",
  );
  const all = Array.from({ length: nQueries }, (_, k) => k);
  const reads = stored.reads ? rowsOf(stored.reads) : groups.map(() => all);
  const scores = toScaledIntegers(
    rowsOf(slopes).map((row, j) => [...row, stored.offsets.numbers[j]]),
  );
  groups.forEach(([begin, end], g) => {
    const used = reads[g].filter((k) => k !== -1),
      places = [...reads[g], nQueries];
    let isRight =
      reads[g].length === nRead &&
      new Set(used).size === used.length &&
      used.every((k) => k >= 0 && k < nQueries);
    for (let j = begin; j < end; j++) {
      scores.rows[j] = scores.rows[j].map(([k, x]) => [places[k], x]);
      isRight = isRight && scores.rows[j].every(([k]) => k >= 0);
    }
    demand(isRight, "`reads` must list distinct entries of the query");
  });
  const gains = toScaledIntegers(Array.from(stored.gains.numbers, (gain) => [gain]));
  return {
    query,
    output,
    residual,
    slots,
    groups,
    scores,
    gains: { scale: gains.scale, factors: gains.rows.map((row) => (row[0] ? row[0][1] : 0n)) },
    values: toScaledIntegers(rowsOf(stored.values)),
  };
}

function integerNetwork({ embedding, layers, readout }) {
  const network = { embedding: integerMap(embedding), layers: layers.map(integerLayer) };
  let width = network.embedding.rows.length;
  const fits = (holds) => demand(holds, "the layers of the model have inconsistent sizes");
  for (const { query, output, residual } of network.layers) {
    fits(query.nIn === width && (!residual || output.rows.length === width));
    width = output.rows.length;
  }
  fits((readout.identity ?? readout.weight.shape[0]) === width);
  return network;
}

// --- Composing --------------------------------------------------------------------------------------

const times = (row, factor) => [row[0] * factor, row[1] * factor, row[2] * factor];
const plus = (one, other) => [one[0] + other[0], one[1] + other[1], one[2] + other[2]];
const minus = (one, other) => [one[0] - other[0], one[1] - other[1], one[2] - other[2]];
const isEqual = (one, other) => one[0] === other[0] && one[1] === other[1] && one[2] === other[2];
const dot = (row, point) => row[0] * point[0] + row[1] * point[1] + row[2] * point[2];
const ZERO = [0n, 0n, 0n];

// Apply a matrix, given as rows without zeros times a scale, to forms.
function applyMatrix({ rows, scale }, forms) {
  const out = rows.map((row) => row.reduce((sum, [k, x]) => plus(sum, times(forms[k], x)), ZERO));
  return [...out, times(forms[forms.length - 1], scale)];
}

const scoresOf = ({ query, scores }, forms) => applyMatrix(scores, applyMatrix(query, forms));

function greatestDivisor(a, b) {
  if (a < 0n) a = -a;
  if (b < 0n) b = -b;
  while (b) [a, b] = [b, a % b];
  return a;
}

// Divide forms by their common factor.
function reduceForms(forms) {
  let divisor = 0n;
  for (const row of forms) for (const x of row) divisor = greatestDivisor(divisor, x);
  return divisor > 1n ? forms.map((row) => row.map((x) => x / divisor)) : forms;
}

// The output of a layer where these forms win. Forms that coincide with a winner contribute equal shares.
function layerOutput(layer, forms, scores, winners) {
  const one = scores[scores.length - 1][2],
    { gains, values, output, residual } = layer;
  const tied = layer.groups.map(([begin, end], g) => {
    const list = [];
    for (let j = begin; j < end; j++)
      if (isEqual(scores[j], scores[begin + winners[g]])) list.push(j);
    return list;
  });
  const shares = tied.reduce((product, { length }) => {
    const n = BigInt(length);
    return (product / greatestDivisor(product, n)) * n;
  }, 1n);
  const blocks = Array.from({ length: output.nIn }, () => ZERO);
  tied.forEach((list, g) => {
    const slot = layer.slots[g],
      share = shares / BigInt(list.length);
    for (const j of list) {
      const factor = share * gains.factors[j] * values.scale;
      if (factor !== 0n) blocks[slot] = plus(blocks[slot], times(scores[j], factor));
      for (const [k, x] of values.rows[j])
        blocks[slot + k] = plus(blocks[slot + k], [0n, 0n, share * x * gains.scale * one]);
    }
  });
  blocks.push([0n, 0n, shares * gains.scale * values.scale * one]);
  const result = applyMatrix(output, blocks);
  if (!residual) return reduceForms(result);
  const mine = result[result.length - 1][2],
    theirs = forms[forms.length - 1][2];
  const sum = result.map((row, i) => plus(times(row, theirs), times(forms[i], mine)));
  sum[sum.length - 1] = [0n, 0n, mine * theirs];
  return reduceForms(sum);
}

// --- The checks -------------------------------------------------------------------------------------

function checkShapes({ layers, embedding }, { chart, denominator, rows, signatures, witnesses }) {
  const nIn = embedding.identity ?? embedding.weight.shape[0];
  demand(
    denominator > 0n && chart.length === nIn,
    "the domain does not lie in the input space of the model",
  );
  const isOneToOne = chart.some((one) =>
    chart.some((other) => one[0] * other[1] !== one[1] * other[0]),
  );
  demand(isOneToOne, "the chart is not injective");
  const sizes = layers.flatMap(({ starts }) =>
    starts.numbers.slice(1).map((end, g) => end - starts.numbers[g]),
  );
  demand(signatures.length > 0, "the certificate lists no cells");
  signatures.forEach((signature, i) => {
    demand(i === 0 || compare(signatures[i - 1], signature) < 0, "a cell is listed twice");
    demand(
      signature.length === sizes.length && signature.every((winner, g) => winner < sizes[g]),
      "a signature does not fit the model: wrong length, or a winner out of range",
    );
    demand(witnesses[i][2] > 0n, "the denominator of a witness is not positive");
    demand(
      rows.every((row) => isEqual(row, ZERO) || dot(row, witnesses[i]) > 0n),
      "a witness is not inside the domain",
    );
  });
}

// Check that each winner is the first of the forms that coincide with it, and strictly larger than all others
// at the witness.
function checkWinners({ groups }, column, scores, { signatures, witnesses }, cells) {
  for (let cell = cells[0]; cell < cells[1]; cell++)
    groups.forEach(([begin, end], g) => {
      const best = begin + signatures[cell][column + g],
        value = dot(scores[best], witnesses[cell]);
      for (let j = begin; j < end; j++) {
        if (j === best) continue;
        if (isEqual(scores[j], scores[best]))
          demand(
            j > best,
            "a signature must record the first of the forms that coincide, and records a later one",
          );
        else
          demand(
            dot(scores[j], witnesses[cell]) < value,
            "a witness is not in the interior of its cell",
          );
      }
    });
}

// The part of a polygon where all rows are at least 0, or null if it has no interior. A polygon is the list
// of its corners in order, (x, y, w) with w >= 0 and without common factors.
function clipPolygon(polygon, rows) {
  for (const row of rows) {
    const values = polygon.map((corner) => dot(row, corner));
    if (!values.some((value) => value > 0n)) return null;
    if (!values.some((value) => value < 0n)) continue;
    const part = [];
    values.forEach((value, i) => {
      const k = (i + values.length - 1) % values.length,
        before = values[k];
      if ((before < 0n && value > 0n) || (before > 0n && value < 0n)) {
        const [p, q] = before < 0n ? [value, -before] : [-value, before];
        part.push(reduceForms([plus(times(polygon[k], p), times(polygon[i], q))])[0]);
      }
      if (value >= 0n) part.push(polygon[i]);
    });
    polygon = part;
  }
  return polygon;
}

// Split a sorted range of cells into ranges that agree in a column.
function ranges(signatures, [begin, end], column) {
  const found = [];
  for (let from = begin, i = begin + 1; i <= end; i++)
    if (i === end || signatures[i][column] !== signatures[from][column])
      (found.push([from, i]), (from = i));
  return found;
}

// Check that the listed cells are cells and cover the domain. Group by group, polygons are split among the
// listed signatures whose winners are the largest there. No other form may exceed the winner at a corner.
function checkTiling({ embedding, layers }, claim) {
  const { signatures, chart, denominator } = claim;
  const sides = claim.rows.filter((row) => !isEqual(row, ZERO));
  const quadrants = [
    [1n, 1n],
    [-1n, 1n],
    [-1n, -1n],
    [1n, -1n],
  ].map(([x, y]) => [
    [0n, 0n, 1n],
    [x, 0n, 0n],
    [0n, y, 0n],
  ]);
  const start = applyMatrix(embedding, [...chart, [0n, 0n, denominator]]);
  const whole = quadrants.map((polygon) => clipPolygon(polygon, sides)).filter(Boolean);
  const todo = [
    { index: 0, column: 0, forms: start, cells: [0, signatures.length], polygons: whole },
  ];
  while (todo.length > 0) {
    const { index, column, forms, cells, polygons } = todo.pop();
    if (index === layers.length) continue;
    const layer = layers[index],
      scores = scoresOf(layer, forms);
    checkWinners(layer, column, scores, claim, cells);
    let nodes = [{ cells, polygons }];
    layer.groups.forEach((group, g) => {
      nodes = nodes.flatMap((node) => split(signatures, scores, column + g, group, node));
    });
    const next = column + layer.groups.length;
    for (const { cells, polygons } of nodes) {
      const winners = signatures[cells[0]].slice(column, next);
      const later = index + 1 < layers.length ? layerOutput(layer, forms, scores, winners) : null;
      todo.push({ index: index + 1, column: next, forms: later, cells, polygons });
    }
  }
}

function split(signatures, scores, column, [begin, end], { cells, polygons }) {
  const parts = ranges(signatures, cells, column);
  const winners = parts.map(([first]) => begin + signatures[first][column]);
  return parts.map((part, i) => {
    const above = (form) => minus(scores[winners[i]], scores[form]);
    const rivals = winners.filter((form) => form !== winners[i]).map(above);
    const pieces = polygons.map((polygon) => clipPolygon(polygon, rivals)).filter(Boolean);
    for (let form = begin; form < end; form++) {
      if (winners.includes(form)) continue;
      const row = above(form);
      demand(
        pieces.every((piece) => piece.every((corner) => dot(row, corner) >= 0n)),
        "the cells do not cover the domain: an unlisted cell lies in it",
      );
    }
    return { cells: part, polygons: pieces };
  });
}
