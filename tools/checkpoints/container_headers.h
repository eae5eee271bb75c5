// Container headers: what stands in a file before its tensors' bytes.
//
//   std::string header = SafetensorsHeader(tensors, /*alignment=*/8);
//   header = GgufHeader(shape, tensors);
//   GgufPadding(bytes);                      // zeros after a tensor of so many bytes
//
// Safetensors: length, then JSON padded with spaces to the alignment; data follows without gaps. GGUF,
// version 3: metadata of a Llama without a vocabulary, each tensor on a multiple of 32 bytes. Threads: pure.
#ifndef NPUBANK_TOOLS_CHECKPOINTS_CONTAINER_HEADERS_H_
#define NPUBANK_TOOLS_CHECKPOINTS_CONTAINER_HEADERS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "npubank/tools/checkpoints/stored_layout.h"

namespace npubank {

std::string SafetensorsHeader(absl::Span<const LaidOutTensor> tensors, size_t alignment);
std::string GgufHeader(const CheckpointShape& shape, absl::Span<const LaidOutTensor> tensors);
size_t GgufPadding(uint64_t bytes);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINTS_CONTAINER_HEADERS_H_
