// llama.cpp's logits after each of the ids but the first SKIP, a line of numbers for each:
//   node llama_cpp.mjs FOLDER MODEL SKIP ID...
// FOLDER is where `npm install --ignore-scripts node-llama-cpp` was run: its prebuilt library is used.
import {pathToFileURL} from "node:url";

const [folder, model, skip, ...ids] = process.argv.slice(2);
const library = `${folder}/node_modules/node-llama-cpp/dist/index.js`;
const {getLlama} = await import(pathToFileURL(library).href);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const loaded = await llama.loadModel({modelPath: model});
const context = await loaded.createContext({contextSize: 64, flashAttention: false, threads: 2});
const asked = {generateNext: {logits: true, options: {temperature: 0}}};
const fed = ids.map((id, at) => at < Number(skip) ? Number(id) : [Number(id), asked]);
for (const result of (await context.getSequence().controlledEvaluate(fed)).slice(Number(skip))) {
  const byId = [...result.next.logits.entries()].sort(([a], [b]) => a - b);
  console.log(byId.map(([, logit]) => logit).join(" "));
}
process.exit(0);
