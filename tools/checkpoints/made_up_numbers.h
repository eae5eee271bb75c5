// Made-up numbers: bytes that depend on a stream's number and their position only.
//
//   MadeUpNumbers numbers(seed, tensor);
//   numbers.Fill(MadeUpNumbers::Kind::kBlocks, ..., first, out);
//
// Each number is a hash of seed, tensor and position, so the same seed gives the same bytes on every
// machine, from wherever they are begun. Threads: pure.
#ifndef NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NUMBERS_H_
#define NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NUMBERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/kernels/blocks.h"

namespace npubank {

class MadeUpNumbers {
 public:
  MadeUpNumbers(uint64_t seed, uint64_t tensor);

  // Numbers [first, first + out.size()): near normal around `mean`, with deviation 0.02.
  void Floats(uint64_t first, float mean, absl::Span<float> out) const;
  // Any words.
  void Words(uint64_t first, absl::Span<uint32_t> out) const;
  // Scales that give numbers of so many levels, 16 or 256, about their middle a deviation of 0.02.
  void Scales(uint64_t first, int levels, absl::Span<float> out) const;
  // Any numbers under such scales.
  void Blocks(kernels::BlockFormat format, uint64_t first, uint64_t blocks, std::byte* out) const;

 private:
  uint64_t stream_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NUMBERS_H_
