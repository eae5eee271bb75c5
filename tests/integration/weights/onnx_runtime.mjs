// Sessions of ONNX Runtime side by side in one process, and what they cost: node onnx_runtime.mjs FOLDER MODEL...
// FOLDER is where `npm install --ignore-scripts onnxruntime-node` was run: its prebuilt library is used. Each MODEL is run
// once: its input "x" is made up, and other inputs, weights that it has not got, are one block of zeros, which takes no memory.
// Prints {"pss_before": bytes, "pss": bytes, "outputs": [a digest per model]}.
import {createHash} from "node:crypto";
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";

const [folder, ...models] = process.argv.slice(2);
const {InferenceSession, Tensor} = createRequire(`${folder}/`)("onnxruntime-node");

// Its share of what is in memory: a page that is mapped eight times counts once.
function pss() {
  global.gc();
  return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))[1]) * 1024;
}

const options = {
  executionProviders: ["cpu"],
  intraOpNumThreads: 1,
  // Packing copies every weight into a layout of the session's own.
  extra: {session: {disable_prepacking: "1"}},
};

const before = pss();
const sessions = [];
for (const model of models) sessions.push(await InferenceSession.create(model, options));
const zeros = new Float32Array(1 << 23);
const outputs = [];
for (const session of sessions) {
  const inputs = {};
  for (const {name, shape} of session.inputMetadata) {
    const size = shape[0] * shape[1];
    const numbers = name === "x" ? Float32Array.from({length: size}, (_, i) => Math.sin(i)) : zeros.subarray(0, size);
    inputs[name] = new Tensor("float32", numbers, shape);
  }
  const results = await session.run(inputs);
  const digest = createHash("sha256");
  for (const output of session.outputNames) {
    const {data} = results[output];
    if (!data.every(Number.isFinite)) throw new Error(`${output} has numbers that are none`);
    digest.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    results[output].dispose();
  }
  outputs.push(digest.digest("hex"));
}
console.log(JSON.stringify({pss_before: before, pss: pss(), outputs}));
