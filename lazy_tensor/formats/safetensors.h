// Safetensors: the header of one file, hostile until checked.
//
//   NPUBANK_ASSIGN_OR_RETURN(uint32_t file, index.AddFile(SourceOpener::Path(path)));
//   NPUBANK_RETURN_IF_ERROR(AppendSafetensors(file, index));   // its tensors are in the index now
//
// Format (huggingface/safetensors): u64 little-endian header length, a JSON object
// {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {...}}, then the data.
// Checked: length within the file and 100 MB, dtype known, byte count = shape x dtype, ranges
// inside the data, no overlap, no duplicate name. Gaps between tensors are allowed, and so are
// unaligned offsets: the kernels need no alignment. Ownership: the entries are values, sorted by
// offset; the source is only read. Cost: the header is read once; memory stays within a small
// factor of it. Threads: a pure function. Errors: InvalidArgument naming the file and the tensor;
// whatever source.Read returns.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_SAFETENSORS_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

struct TensorEntry {
  std::string name;
  TensorType type;
  uint64_t offset = 0;  // from the start of the file
};

absl::StatusOr<std::vector<TensorEntry>> ReadSafetensors(const Source& source);

// All of that file's tensors, in the order of their offsets.
absl::Status AppendSafetensors(uint32_t file, SourceIndex& index);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_SAFETENSORS_H_
