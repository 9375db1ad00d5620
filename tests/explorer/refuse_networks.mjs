// Send networks to the engine with one size or index changed, past the checks of the page, and print
// the messages of the errors as JSON.
//   node refuse_networks.mjs PAGE ENGINE
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, wasm] = process.argv.slice(2);
const { Engine, Search, readDomain } = await import(pathToFileURL(`${page}/engine.js`));
const { networkOf } = await import(pathToFileURL(`${page}/models.js`));

const engine = await Engine.load(readFileSync(wasm));
const where = readDomain({ box: [-1, -1, 1, 1] });
const model = {
  kind: "MaxoutNetwork",
  weights: [
    [
      [
        [1, 0],
        [0, 1],
      ],
      [
        [1, 1],
        [-1, 0],
      ],
    ],
    [[1], [1]],
  ],
  biases: [
    [
      [0, 0],
      [0, 0],
    ],
    [0],
  ],
};
const changes = [
  (layer) => {},
  (layer) => (layer.starts = [0, 1e9, 4]),
  (layer) => (layer.starts = [0, -3, 4]),
  (layer) => (layer.slots = [0, 2]),
  (layer) => (layer.slots = [0, -1]),
  (layer) => (layer.width = 3),
  (layer) => (layer.nForms = 5),
  (layer) => (layer.query.nOut = 1 << 20),
  (layer) => (layer.output.nIn = 1),
  (layer) => (layer.offsets[1] = NaN),
];
const messages = changes.map((change) => {
  const network = networkOf(model);
  change(network.layers[0]);
  try {
    new Search(engine, network, where).run();
    return "searched";
  } catch (error) {
    return error.message;
  }
});
console.log(JSON.stringify(messages));
