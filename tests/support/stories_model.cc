#include "npubank/tests/support/stories_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/tests/support/program.h"

namespace npubank {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kGroup = 32;
constexpr int64_t kFeedForward = 172;
constexpr int64_t kPadded = 192;

struct Matrix {
  int64_t out = 0;
  int64_t in = 0;
  std::vector<float> values;  // [out, in]
};

// A safetensors file in memory: read, or about to be written.
struct Tensors {
  Json header = Json::object();
  std::string data;

  static Tensors Read(const std::string& path) {
    const std::string bytes = ReadWholeFile(path);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    Tensors tensors{Json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
    tensors.header.erase("__metadata__");
    return tensors;
  }
  void Write(const std::string& path) const {
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    WriteWholeFile(path, bytes + text + data);
  }

  std::string Bytes(const std::string& name) const {
    const size_t begin = header.at(name)["data_offsets"][0];
    const size_t end = header.at(name)["data_offsets"][1];
    return data.substr(begin, end - begin);
  }
  std::vector<float> Floats(const std::string& name) const {
    const std::string bytes = Bytes(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void Add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
           const std::string& bytes) {
    const size_t begin = data.size();
    data += bytes;
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
};

std::vector<uint16_t> Halves(const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  kernels::ReferenceConvert(ElementType::kF32, values.data(), ElementType::kF16, halves.data(),
                            values.size());
  return halves;
}

std::vector<float> Rounded(const std::vector<float>& values) {
  const std::vector<uint16_t> halves = Halves(values);
  std::vector<float> rounded(values.size());
  kernels::ReferenceConvert(ElementType::kF16, halves.data(), ElementType::kF32, rounded.data(),
                            rounded.size());
  return rounded;
}

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(Number));
}

// Feed-forward sizes become whole groups.
Matrix ReadPadded(const Tensors& from, const std::string& name) {
  const std::vector<float> values = from.Floats(name);
  const std::vector<int64_t> shape = from.header.at(name)["shape"];
  const auto padded = [](int64_t dim) { return dim == kFeedForward ? kPadded : dim; };
  Matrix matrix{padded(shape[0]), padded(shape[1]), {}};
  matrix.values.resize(matrix.out * matrix.in);
  for (int64_t n = 0; n < shape[0]; ++n)
    std::copy_n(&values[n * shape[1]], shape[1], &matrix.values[n * matrix.in]);
  return matrix;
}

// w = (level - zero) * scale for each group of inputs of each output.
struct Levels {
  std::vector<int> level;    // [in, out]
  std::vector<int> zero;     // [groups, out]
  std::vector<float> scale;  // [groups, out], as F16 holds them
};

// Each input's group is that of `group_of`, kGroup inputs to each.
Levels Quantize(const Matrix& matrix, bool symmetric, int bits, const std::vector<int32_t>& group_of) {
  const int most_level = (1 << bits) - 1;
  const int64_t groups = matrix.in / kGroup;
  Levels levels;
  levels.level.resize(matrix.in * matrix.out);
  levels.zero.resize(groups * matrix.out, 1 << (bits - 1));
  levels.scale.resize(groups * matrix.out);
  std::vector<float> low(levels.scale.size()), high(levels.scale.size());
  for (int64_t k = 0; k < matrix.in; ++k)
    for (int64_t n = 0; n < matrix.out; ++n) {
      const int64_t at = group_of[k] * matrix.out + n;
      low[at] = std::min(low[at], matrix.values[n * matrix.in + k]);
      high[at] = std::max(high[at], matrix.values[n * matrix.in + k]);
    }
  for (size_t at = 0; at < low.size(); ++at) {
    const float range = symmetric ? 2 * std::max(-low[at], high[at]) : high[at] - low[at];
    levels.scale[at] = range == 0 ? 1 : range / static_cast<float>(most_level);
  }
  levels.scale = Rounded(levels.scale);
  for (int64_t at = 0; !symmetric && at < groups * matrix.out; ++at)
    levels.zero[at] = std::clamp<int>(std::lround(-low[at] / levels.scale[at]), 0, most_level);
  for (int64_t k = 0; k < matrix.in; ++k)
    for (int64_t n = 0; n < matrix.out; ++n) {
      const int64_t at = group_of[k] * matrix.out + n;
      const float value = matrix.values[n * matrix.in + k];
      levels.level[k * matrix.out + n] =
          std::clamp<int>(std::lround(value / levels.scale[at]) + levels.zero[at], 0, most_level);
    }
  return levels;
}

std::vector<int32_t> GroupsInOrder(int64_t inputs) {
  std::vector<int32_t> group_of(inputs);
  for (int64_t k = 0; k < inputs; ++k) group_of[k] = static_cast<int32_t>(k / kGroup);
  return group_of;
}

// Rows of numbers below 16, eight columns to a word; `order` says which nibble holds which column.
std::vector<uint32_t> PackColumns(const std::vector<int>& numbers,
                                  const std::array<int, 8>& order) {
  std::vector<uint32_t> words(numbers.size() / 8);
  for (size_t i = 0; i < numbers.size(); ++i)
    words[i / 8] |= static_cast<uint32_t>(numbers[i]) << (4 * order[i % 8]);
  return words;
}

// Columns one after the other, or rows of one column, to words of numbers of so many bits.
std::vector<uint32_t> PackInOrder(const std::vector<int>& numbers, int bits) {
  const size_t in_word = 32 / bits;
  std::vector<uint32_t> words(numbers.size() / in_word);
  for (size_t i = 0; i < numbers.size(); ++i)
    words[i / in_word] |= static_cast<uint32_t>(numbers[i]) << (bits * (i % in_word));
  return words;
}
std::vector<uint32_t> PackRows(const std::vector<int>& numbers, int64_t columns, int bits) {
  const size_t in_word = 32 / bits;
  std::vector<uint32_t> words(numbers.size() / in_word);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t row = i / columns;
    words[row / in_word * columns + i % columns] |= static_cast<uint32_t>(numbers[i])
                                                    << (bits * (row % in_word));
  }
  return words;
}

void AddGptq(const GptqLayout& layout, const std::string& prefix, const Matrix& matrix, Tensors& to) {
  std::vector<int32_t> group_of = GroupsInOrder(matrix.in);
  // Of another seed for each layer.
  if (layout.act_order) std::shuffle(group_of.begin(), group_of.end(), std::mt19937(std::hash<std::string>()(prefix)));
  Levels levels = Quantize(matrix, layout.symmetric, layout.bits, group_of);
  const int most = (1 << layout.bits) - 1;
  for (int& zero : levels.zero) zero = (zero - (layout.version == 1 ? 1 : 0)) & most;
  const int64_t in_word = 32 / layout.bits;
  const int64_t groups = matrix.in / kGroup;
  to.Add(prefix + ".qweight", "I32", {matrix.in / in_word, matrix.out},
         BytesOf(PackRows(levels.level, matrix.out, layout.bits)));
  to.Add(prefix + ".qzeros", "I32", {groups, matrix.out / in_word},
         BytesOf(PackInOrder(levels.zero, layout.bits)));
  to.Add(prefix + ".scales", "F16", {groups, matrix.out}, BytesOf(Halves(levels.scale)));
  to.Add(prefix + ".g_idx", "I32", {matrix.in}, BytesOf(group_of));
}

void AddAwq(const std::string& prefix, const Matrix& matrix, Tensors& to) {
  constexpr std::array<int, 8> kOrder = {0, 4, 1, 5, 2, 6, 3, 7};
  const Levels levels = Quantize(matrix, /*symmetric=*/false, 4, GroupsInOrder(matrix.in));
  const int64_t groups = matrix.in / kGroup;
  to.Add(prefix + ".qweight", "I32", {matrix.in, matrix.out / 8},
         BytesOf(PackColumns(levels.level, kOrder)));
  to.Add(prefix + ".qzeros", "I32", {groups, matrix.out / 8},
         BytesOf(PackColumns(levels.zero, kOrder)));
  to.Add(prefix + ".scales", "F16", {groups, matrix.out}, BytesOf(Halves(levels.scale)));
}

// Symmetric numbers of `bits` bits, [out, in], and a BF16 scale for each `group` of an output's inputs.
struct Integers {
  std::vector<int8_t> numbers;
  std::vector<uint16_t> scales;
};

Integers RoundToIntegers(const Matrix& matrix, int bits, int64_t group) {
  Integers integers;
  const int most = (1 << (bits - 1)) - 1;
  for (size_t begin = 0; begin < matrix.values.size(); begin += group) {
    float largest = 0;
    for (int64_t i = 0; i < group; ++i) {
      largest = std::max(largest, std::fabs(matrix.values[begin + i]));
    }
    uint16_t stored = 0;
    const float wanted = largest == 0 ? 1 : largest / static_cast<float>(most);
    kernels::ReferenceConvert(ElementType::kF32, &wanted, ElementType::kBF16, &stored, 1);
    float scale = 0;
    kernels::ReferenceConvert(ElementType::kBF16, &stored, ElementType::kF32, &scale, 1);
    integers.scales.push_back(stored);
    for (int64_t i = 0; i < group; ++i) {
      const long rounded = std::lround(matrix.values[begin + i] / scale);
      integers.numbers.push_back(static_cast<int8_t>(std::clamp<long>(rounded, -most - 1, most)));
    }
  }
  return integers;
}

void AddInt8(const std::string& prefix, const Matrix& matrix, Tensors& to) {
  const Integers integers = RoundToIntegers(matrix, 8, matrix.in);
  to.Add(prefix + ".weight", "I8", {matrix.out, matrix.in}, BytesOf(integers.numbers));
  to.Add(prefix + ".weight_scale", "BF16", {matrix.out, 1}, BytesOf(integers.scales));
  to.Add(prefix + ".weight_zero_point", "I8", {matrix.out, 1},  // as older files have them
         std::string(static_cast<size_t>(matrix.out), '\0'));
}

template <int kBits>
void AddPacked(const std::string& prefix, const Matrix& matrix, Tensors& to) {
  constexpr int kInWord = 32 / kBits;
  const Integers integers = RoundToIntegers(matrix, kBits, kGroup);
  std::vector<uint32_t> words(integers.numbers.size() / kInWord);
  for (size_t i = 0; i < integers.numbers.size(); ++i) {
    const auto number = static_cast<uint32_t>(integers.numbers[i] + (1 << (kBits - 1)));
    words[i / kInWord] |= number << (i % kInWord * kBits);
  }
  to.Add(prefix + ".weight_packed", "I32", {matrix.out, matrix.in / kInWord}, BytesOf(words));
  to.Add(prefix + ".weight_scale", "BF16", {matrix.out, matrix.in / kGroup}, BytesOf(integers.scales));
  to.Add(prefix + ".weight_shape", "I64", {2}, BytesOf(std::vector<int64_t>{matrix.out, matrix.in}));
}

Json CompressedTensors(const char* format, int bits, const Json& group_size) {
  const Json weights = {{"num_bits", bits},
                        {"type", "int"},
                        {"symmetric", true},
                        {"strategy", group_size.is_null() ? "channel" : "group"},
                        {"group_size", group_size},
                        {"dynamic", false},
                        {"actorder", nullptr},
                        {"observer", "minmax"}};
  const Json group = {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", group}}},
          {"ignore", {"lm_head"}}};
}

void WriteQuantized(const std::string& folder, const Json& quantization,
                    const std::function<void(const std::string&, const Matrix&, Tensors&)>& add) {
  const Tensors from = Tensors::Read(StoriesFolder() + "/model.safetensors");
  Tensors to;
  for (const auto& [name, entry] : from.header.items()) {
    const bool matrix = name.find("_proj.weight") != std::string::npos;
    if (matrix) {
      add(name.substr(0, name.rfind('.')), ReadPadded(from, name), to);
    } else {
      to.Add(name, "F16", entry["shape"], BytesOf(Halves(from.Floats(name))));
    }
  }
  to.Write(folder + "/model.safetensors");
  Json config = Json::parse(ReadWholeFile(StoriesFolder() + "/config.json"));
  config["intermediate_size"] = kPadded;
  config["torch_dtype"] = "float16";
  config["quantization_config"] = quantization;
  WriteWholeFile(folder + "/config.json", config.dump(2));
}

}  // namespace

std::string StoriesFolder() { return NPUBANK_SOURCE_DIR "/tests/data/stories260K"; }

std::string StoriesGguf() { return NPUBANK_SOURCE_DIR "/tests/data/stories260K-pad192-q4_0.gguf"; }

void WriteShardedStories(const std::string& folder) {
  const Tensors from = Tensors::Read(StoriesFolder() + "/model.safetensors");
  const std::array<std::string, 2> names = {"model-00001-of-00002.safetensors",
                                            "model-00002-of-00002.safetensors"};
  std::array<Tensors, 2> shards;
  Json map = Json::object();
  for (const auto& [name, entry] : from.header.items()) {
    const size_t shard = map.size() * 2 < from.header.size() ? 0 : 1;
    shards[shard].Add(name, entry["dtype"], entry["shape"], from.Bytes(name));
    map[name] = names[shard];
  }
  for (size_t i = 0; i < shards.size(); ++i) shards[i].Write(folder + "/" + names[i]);
  WriteWholeFile(folder + "/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  WriteWholeFile(folder + "/config.json", ReadWholeFile(StoriesFolder() + "/config.json"));
}

void WriteGptqStories(const std::string& folder, const GptqLayout& layout) {
  WriteQuantized(folder,
                 {{"quant_method", "gptq"},
                  {"bits", layout.bits},
                  {"group_size", kGroup},
                  {"desc_act", layout.act_order},
                  {"static_groups", false},
                  {"true_sequential", true},
                  {"sym", layout.symmetric},
                  {"checkpoint_format", layout.version == 1 ? "gptq" : "gptq_v2"}},
                 [&](const std::string& prefix, const Matrix& matrix, Tensors& to) {
                   AddGptq(layout, prefix, matrix, to);
                 });
}

void WriteAwqStories(const std::string& folder) {
  WriteQuantized(folder,
                 {{"quant_method", "awq"},
                  {"bits", 4},
                  {"group_size", kGroup},
                  {"zero_point", true},
                  {"version", "gemm"}},
                 AddAwq);
}

void WriteInt8Stories(const std::string& folder) {
  WriteQuantized(folder, CompressedTensors("int-quantized", 8, nullptr), AddInt8);
}

void WritePackedStories(const std::string& folder, int bits) {
  WriteQuantized(folder, CompressedTensors("pack-quantized", bits, kGroup),
                 bits == 4 ? AddPacked<4> : AddPacked<8>);
}

std::string SharedStories(const std::string& layout) {
  const std::string path = NPUBANK_SOURCE_DIR "/../shared/models/stories260K/" + layout;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace npubank
