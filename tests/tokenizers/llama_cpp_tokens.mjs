// llama.cpp's ids of strings, a JSON list in a line for each: node llama_cpp_tokens.mjs FOLDER MODEL STRINGS
// FOLDER is where `npm install --ignore-scripts node-llama-cpp` was run; STRINGS a file with a JSON list of texts.
import {readFileSync} from "node:fs";
import {pathToFileURL} from "node:url";

const [folder, model, strings] = process.argv.slice(2);
const {getLlama} = await import(pathToFileURL(`${folder}/node_modules/node-llama-cpp/dist/index.js`).href);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const loaded = await llama.loadModel({modelPath: model, vocabOnly: true});
for (const text of JSON.parse(readFileSync(strings))) console.log(JSON.stringify(loaded.tokenize(text, false)));
process.exit(0);
