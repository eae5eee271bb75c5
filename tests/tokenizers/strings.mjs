// The strings that tokenizers are compared over: hard ones, and random ones by a seed. Of characters those that Unicode
// 14 has: the tables of implementations differ in younger ones.
import unassigned from "@unicode/unicode-14.0.0/General_Category/Unassigned/regex.mjs";

// A small generator of numbers that is the same everywhere.
function numbers(seed) {
  let state = BigInt(seed) * 0x9E3779B97F4A7C15n + 1n;
  return (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xFFFFFFFFFFFFFFFFn;
    return Number((state >> 33n) % BigInt(below));
  };
}

function assigned(code) {
  const character = String.fromCodePoint(code);
  return !unassigned.test(character) && !/[\p{Cs}\p{Co}]/u.test(character);
}

// Of each 128 codes that have characters: all of them with letters in between, and in a row those that are no marks,
// whose order among themselves younger tables have changed.
function blocks() {
  const strings = [];
  for (let begin = 0; begin < 0x30000; begin += 128) {
    let row = "", mixed = "";
    for (let code = begin; code < begin + 128; ++code) {
      if (!assigned(code)) continue;
      if (!/\p{M}/u.test(String.fromCodePoint(code))) row += String.fromCodePoint(code);
      mixed += `a${String.fromCodePoint(code)} `;
    }
    // Of the many blocks of ideographs and syllables every eighth.
    const many = begin >= 0x3400 && begin < 0xD800 || begin >= 0x17000;
    if (row !== "" && (!many || begin % 1024 === 0)) strings.push(row, mixed);
  }
  return strings;
}

const hard = [
  "", " ", "  ", "   a", "a ", "a  ", "Hello, world!", "Once upon a time", "I'm you're HE'LL it'S we'Ve 'tis '\u017F",
  "\n", "\n\n", "\r\n", " \n ", "\t", "\t\t a", "a\n\n\n b", "a \u00A0b", "\u2028a\u2029b", "\u0085", "\u180E a", "\u200B a", "\u3000\u3000x",
  "\u000B\u000C\u001C\u001F", "\u0000", "a\u0000b", "\uFEFFbom", "\uFFFD", "\uFFFE\uFFFF",
  "1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", "\u0661\u0662\u0663", "\u00BD \u2167 \u2462",
  "e\u0301 \u00E9 \u1E69 s\u0323\u0307 s\u0307\u0323", "\u0130stanbul \u0131", "\uFB01 \uFF21\uFF22 \u2460", "\uAC00 \u1100\u1161 \u1112\u1161\u11AB",
  "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}\u200D\u{1F466}", "\u{1F3F3}\uFE0F\u200D\u{1F308}", "\u{1F1E9}\u{1F1EA}\u{1F1EB}", "\u{1F44D}\u{1F3FD}", "\u2764\uFE0F",
  "\u05E9\u05DC\u05D5\u05DD \u05E2\u05D5\u05DC\u05DD", "\u0645\u0631\u062D\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u202Eabc\u202C", "\u4F60\u597D\uFF0C\u4E16\u754C\u3002", "\u3053\u3093\u306B\u3061\u306F", "\u0928\u092E\u0938\u094D\u0924\u0947",
  "\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35", "Z\u0351\u036B\u0343A\u030D\u0311\u0330L\u0348\u0359\u0322G\u0354\u0356O\u0316\u0317", "def f(x):\n    return x ** 2\n\n\n# end\n", "{\"a\": [1, 2.5e-3, null]}", "<div class=\"x\">&amp;</div>",
  "http://example.com/a?b=c&d=%20", "snake_case camelCase SCREAMING_CASE", "a_b__c", "...!?!", "\u2026\u2014\u201Cquotes\u201D", "$100 \u20AC50 \u00A330", "C:\\\\x\\n", "--- +++ ===",
  "<s>", "</s>", "<s>a</s>", " <s> a </s> b", "<unk>", "<0x0A>", "<|begin_of_text|>hi<|eot_id|>", "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "<|endoftext", "<bos><eos><start_of_turn>user\n",
  "\u2581", "\u2581a \u2581", "\u0120\u010A", "a\u2581b", " \u2581 ", "<think>x</think>", "<tool_call>", "<tool_call><tool_call",
  "a".repeat(3000), " ".repeat(3000), "\n".repeat(777), "ab ".repeat(1000), "!?".repeat(500), "\u{1F600}".repeat(300), "\u0301".repeat(200), "1".repeat(1000), "\u4E00".repeat(500),
];

export function randomStrings(seed, count) {
  const next = numbers(seed);
  const pieces = ["a", "b", "the", " the", "ing", "'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "1", "23", ".", ",", "!", "(", "\u00E9", "e\u0301", "\u00DF", "\u4F60", "\u0301",
    "\u{1F600}", "\u200D", "\uFE0F", "<s>", "</s>", "<|im_end|>", "<|eot_id|>", "<think>", "\u2581", "\u05D0", "\u0628", "_", "-", "\u00A0", "\u3000", "\u2028", "Z", "QU"];
  const strings = [];
  for (let i = 0; i < count; ++i) {
    let text = "";
    for (let n = next(40); n > 0; --n) {
      const kind = next(8);
      const code = kind < 6 ? 0 : next(kind === 6 ? 0x800 : 0x20000);
      text += kind < 6 ? pieces[next(pieces.length)] : assigned(code) ? String.fromCodePoint(code) : "?";
    }
    strings.push(text);
  }
  return strings;
}

export function hardStrings() {
  return [...hard, ...blocks()];
}
