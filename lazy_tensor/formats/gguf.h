// GGUF: the header of one file, hostile until checked: metadata by key, and where each tensor lies.
//
//   NPUBANK_ASSIGN_OR_RETURN(uint32_t file, index.AddFile(SourceOpener::Path(path)));
//   NPUBANK_ASSIGN_OR_RETURN(Gguf gguf, AppendGguf(file, index));   // its tensors are in the index now
//   gguf.tensors[0].name;                          // "token_embd.weight"
//   gguf.Find("llama.block_count");                // a GgufValue, or null
//
// Format (ggml, docs/gguf.md), versions 2 and 3, little-endian: "GGUF", u32 version, u64 tensor
// count, u64 metadata count; each metadata value as key, type, value; each tensor as name,
// dimensions (fastest first), type, offset from the data section; then, aligned to
// general.alignment (32), the data.
//
// Checked: counts, string lengths and array lengths against the file and the limits below before
// anything is reserved; nesting; a power of two as alignment; dimensions that are not 0 and whose
// product fits; rows of whole blocks; aligned ranges inside the file without overlap; no key or
// name twice.
//
// Ownership: values; the source is only read. Threads: a pure function.
// Cost: the header is read once, in pieces; memory stays within a small factor of the limits.
// Errors: InvalidArgument naming the file and the key or tensor; whatever source.Read returns.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_GGUF_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

// How the numbers of a tensor are stored: plainly, or in blocks with scales of their own.
using GgufFormat = std::variant<ElementType, kernels::BlockFormat>;

struct GgufTensor {
  std::string name;
  GgufFormat format;
  Shape shape;          // slowest dimension first, as everywhere else in this project
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;   // rows of whole blocks, or whole numbers
};

// A metadata value. Integers of every width are uint64_t or int64_t, floats are double.
struct GgufValue {
  using Array = std::vector<GgufValue>;
  std::variant<uint64_t, int64_t, double, bool, std::string, Array> value;
};

struct Gguf {
  static constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
  static constexpr uint64_t kMaxKeys = uint64_t{1} << 16;
  static constexpr uint64_t kMaxStringBytes = uint64_t{1} << 24;  // chat templates are the longest
  static constexpr uint64_t kMaxTextBytes = uint64_t{1} << 28;    // all strings together
  static constexpr uint64_t kMaxValues = uint64_t{1} << 22;       // array elements, all together
  static constexpr int kMaxDepth = 4;                             // of arrays in arrays
  static constexpr int kMaxRank = 4;

  std::map<std::string, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // sorted by offset

  // The value of a key, or null.
  const GgufValue* Find(const std::string& key) const {
    const auto at = metadata.find(key);
    return at == metadata.end() ? nullptr : &at->second;
  }
};

absl::StatusOr<Gguf> ReadGguf(const Source& source);

// All of that file's tensors, in the order of their offsets; blocks as rows of bytes. What else it says
// comes back.
absl::StatusOr<Gguf> AppendGguf(uint32_t file, SourceIndex& index);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_GGUF_H_
