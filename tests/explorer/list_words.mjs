// Print the words for the layers of models as JSON, of files or of plain data (.json).
//   node list_words.mjs PAGE ENGINE FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, , folder] = process.argv.slice(2);
const { nameOf, networkOf, readModelFile, titleOf } = await import(
  pathToFileURL(`${page}/models.js`)
);

const answers = {};
for (const name of readdirSync(folder)) {
  const { buffer, byteOffset, length } = readFileSync(`${folder}/${name}`);
  const model = name.endsWith(".json")
    ? JSON.parse(readFileSync(`${folder}/${name}`, "utf8"))
    : readModelFile(buffer.slice(byteOffset, byteOffset + length));
  const { words } = networkOf(model);
  answers[name] = words.map((one) => [titleOf(one), nameOf(one, 1)]);
}
console.log(JSON.stringify(answers));
