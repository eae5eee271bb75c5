// What llama.cpp goes on with, always with the likeliest: node llama_cpp.mjs FOLDER MODEL COUNT ID...
// FOLDER is where `npm install --ignore-scripts node-llama-cpp` was run: its prebuilt library is used.
import {pathToFileURL} from "node:url";

const [folder, model, count, ...ids] = process.argv.slice(2);
const library = `${folder}/node_modules/node-llama-cpp/dist/index.js`;
const {getLlama} = await import(pathToFileURL(library).href);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const loaded = await llama.loadModel({modelPath: model});
const context = await loaded.createContext({contextSize: 64, flashAttention: false, threads: 2});
const found = [];
for await (const id of context.getSequence().evaluate(ids.map(Number), {temperature: 0, yieldEogToken: true})) {
  found.push(id);
  if (found.length >= Number(count)) break;
}
console.log(found.join(","));
process.exit(0);
