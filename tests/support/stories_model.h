// The small trained model in tests/data, and layouts of it that tests write themselves.
//
//   options.model = StoriesFolder();         // F32, tokens.json, expected/
//   WriteGptqStories(folder.path());         // the same model in 4 bits
//
// The quantised layouts round to the nearest of 16 or 256 levels per group of 32 numbers, in plain loops
// that share nothing with the library's readers; the feed-forward's 172 is padded to 192 with zeros,
// as whole groups need. A file that cannot be read or written fails the test.
#ifndef NPUBANK_TESTS_SUPPORT_STORIES_MODEL_H_
#define NPUBANK_TESTS_SUPPORT_STORIES_MODEL_H_

#include <string>

namespace npubank {

std::string StoriesFolder();
std::string StoriesGguf();  // Q4_0

// Into `folder`, which exists. Two shards and their index; the vocabulary is not among them.
void WriteShardedStories(const std::string& folder);
// GPTQ: words of eight or four rows, zeros of version 1 stored one too small; in activation order each layer's
// inputs are dealt out to its groups as by a shuffle.
struct GptqLayout {
  int bits = 4;  // or 8
  bool act_order = false;
  bool symmetric = true;
  int version = 1;
};
void WriteGptqStories(const std::string& folder, const GptqLayout& layout = {});
// AWQ "gemm", asymmetric: words of eight interleaved columns.
void WriteAwqStories(const std::string& folder);

// compressed-tensors, symmetric: "int-quantized", a scale for each output; or "pack-quantized" in words of
// numbers of so many bits, 4 or 8, with scales for groups of 32.
void WriteInt8Stories(const std::string& folder);
void WritePackedStories(const std::string& folder, int bits);

// A layout made by other programs, where they are kept beside the checkout: "hf-gptq-g32", ... Empty
// when it is not there; the test says so and skips it.
std::string SharedStories(const std::string& layout);

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_STORIES_MODEL_H_
