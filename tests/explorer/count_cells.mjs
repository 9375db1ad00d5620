// Count the cells of the models in a folder of the tests, and print them as JSON.
//   node count_cells.mjs PAGE ENGINE FOLDER
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, wasm, folder] = process.argv.slice(2);
const { Engine, Search, readDomain } = await import(pathToFileURL(`${page}/engine.js`));
const { countRegions } = await import(pathToFileURL(`${page}/counting.js`));
const { networkOf, readModelFile } = await import(pathToFileURL(`${page}/models.js`));

const engine = await Engine.load(readFileSync(wasm));
const domains = JSON.parse(readFileSync(`${folder}/domains.json`, "utf8"));
const answers = [];
for (const { name, domain } of domains) {
  const { buffer, byteOffset, length } = readFileSync(`${folder}/${name}`);
  const network = networkOf(readModelFile(buffer.slice(byteOffset, byteOffset + length)));
  const where = readDomain(domain);
  const counted = new Search(engine, network, where, { stores: false });
  counted.run();
  const n = counted.readCounts().cells,
    nExact = counted.nExact;
  const stored = new Search(engine, network, where);
  stored.run();
  const found = stored.found();
  const { nRegions, nMaps } = countRegions(engine, network, where, found);
  const hash = createHash("sha256");
  for (const array of [found.points, found.maps, found.radii, found.walls]) hash.update(array);
  answers.push({
    n,
    hash: hash.digest("hex"),
    nExact,
    nRegions,
    nMaps,
    signatures: Array.from({ length: found.n }, (_, i) =>
      Array.from(found.signatures.subarray(i * found.nGroups, (i + 1) * found.nGroups)),
    ),
  });
}
console.log(JSON.stringify(answers));
