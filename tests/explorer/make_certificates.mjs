// Make certificates of the models in a folder, spoil them in many ways, and write each with the verdict of
// the page's checker.
//   node make_certificates.mjs PAGE ENGINE FOLDER
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, wasm, folder] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${page}/${name}.js`));
const { Engine, Search, readDomain } = await load("engine");
const { certify } = await load("certificates");
const { checkCertificate } = await load("checker");
const { networkOf, readModelFile } = await load("models");

// Ways to spoil a certificate that was read; what is returned takes its place.
const last = (list) => list[list.length - 1];
const SPOILED = {
  dropped: (claim) => (claim.signatures.pop(), claim.witnesses.pop()),
  first: (claim) => (claim.signatures.shift(), claim.witnesses.shift()),
  twice: (claim) => (
    claim.signatures.push(claim.signatures[0]),
    claim.witnesses.push(claim.witnesses[0])
  ),
  swapped: ({ witnesses }) =>
    ([witnesses[0], witnesses[1]] = [witnesses[1] ?? [9, 9, 1], witnesses[0]]),
  winner: ({ signatures }) => (last(signatures)[0] = 1 - Math.min(1, last(signatures)[0])),
  far: ({ signatures }) => (signatures[0][0] = 1000),
  long: ({ signatures }) => signatures[0].push(0),
  outside: ({ witnesses }) => (witnesses[0] = ["0xffffffffffffffffffffff", 1, 1]),
  flat: ({ witnesses }) => (witnesses[0][2] = 0),
  negative: ({ witnesses }) =>
    (witnesses[0] = witnesses[0].map((x) => (typeof x === "number" ? -x : x))),
  domain: ({ domain }) => (domain.chart[0][2] = 5),
  other: (claim) =>
    (claim.model = claim.model.replace(/./, (digit) => (digit === "0" ? "1" : "0"))),
  format: (claim) => (claim.format = "hardmax.certificate/2"),
  more: (claim) => (claim.more = 1),
  refusals: ({ completeness }) => (completeness.kind = "refusals"),
  nothing: (claim) => ((claim.signatures = []), (claim.witnesses = [])),
};
const SPOILED_TEXTS = {
  fraction: (text) => text.replace('"dim":2', '"dim":2.0'),
  repeated: (text) => text.replace('"dim":2', '"dim":2,"dim":2'),
  short: (text) => text.slice(0, -1),
  true: (text) => text,
};

const engine = await Engine.load(readFileSync(wasm));
const verdicts = [];
for (const { name, domain } of JSON.parse(readFileSync(`${folder}/domains.json`, "utf8"))) {
  const { buffer, byteOffset, length } = readFileSync(`${folder}/${name}`);
  const network = networkOf(readModelFile(buffer.slice(byteOffset, byteOffset + length)));
  const where = readDomain(domain),
    search = new Search(engine, network, where);
  search.run();
  const { model, text } = certify(network, where, search.found());
  writeFileSync(`${folder}/${name}.network`, model);
  const texts = Object.entries(SPOILED_TEXTS).map(([how, spoil]) => [how, spoil(text)]);
  for (const [how, spoil] of Object.entries(SPOILED)) {
    const claim = JSON.parse(text);
    spoil(claim);
    texts.push([how, JSON.stringify(claim)]);
  }
  for (const [how, spoiled] of texts)
    verdicts.push({ name, how, text: spoiled, ...checkCertificate(model, spoiled) });
  // The same claim about a network in which one bit of the last number is another.
  const changed = model.slice();
  changed[changed.length - 1] ^= 1;
  verdicts.push({
    name,
    how: "changed",
    text,
    model: Buffer.from(changed).toString("base64"),
    ...checkCertificate(changed, text),
  });
}
console.log(JSON.stringify(verdicts));
