// WeightOperand: a weight in parts as an operation has it, and its numbers decoded piece by piece.
//
//   WeightOperand w = {.form = WeightForm::Blocks(...), .parts = {bytes}, .rows = n, .columns = k};
//   DecodeRows(w, first, 2, numbers);              // F32, two rows of k
//
// The numbers are those that weight_form.h says, bit for bit: what an operation computes over them is
// what it would compute over the same numbers stored as F32.
// Parts need no more than the alignment of bytes. Threads: pure; a WordDecoder belongs to one thread.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WEIGHT_OPERAND_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WEIGHT_OPERAND_H_

#include <array>
#include <cstdint>
#include <vector>

#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/weight_form.h"

namespace npubank::software_npu {

struct WeightOperand {
  WeightForm form = {};
  std::array<const uint8_t*, 4> parts = {};     // in the order of form.Parts()
  ElementType element = ElementType::kU8;       // of the first part
  ElementType scale = ElementType::kF16;        // of the second
  int64_t rows = 0;                             // of the matrix of numbers: [N, K], or [K, N] of words
  int64_t columns = 0;
  int64_t groups = 1;                           // scales along K
};

// Rows [first, first + count) of a form that lies by rows, one after the other.
void DecodeRows(const WeightOperand& w, int64_t first, int64_t count, float* out);

// What the numbers of planes, and of words that are rows, are in memory.
ElementType NumbersOf(const WeightOperand& w);
// Of rows [first, first + count) of those, for who decodes by itself: scales and offsets, w.groups for each row, so
// that every number is q * scale + offset. False where that rounds otherwise than weight_form.h says: scales in F32,
// and such as are infinite or near it.
bool ScalesAndOffsets(const WeightOperand& w, int64_t first, int64_t count, float* scales, float* offsets);

// Whether every group that a form lists is there. A form that lists none has no other.
bool ListedGroupsExist(const WeightOperand& w);

// Columns [column, column + width) of words, both multiples of 8: any rows of them. Where groups are listed all of
// them are decoded at once, as the rows that follow each other are of any: 8 bytes a group and column.
class WordDecoder {
 public:
  WordDecoder(const WeightOperand& w, int64_t column, int64_t width);
  // Rows [first, first + count), one after the other.
  void Decode(int64_t first, int64_t count, float* out);

  // For who decodes by itself: makes scales() and zeros() those of the group that `row` belongs to; whether
  // they were another's.
  bool UseGroupOf(int64_t row);
  const float* scales() const { return scales_.data() + slot_; }
  const float* zeros() const { return zeros_.data() + slot_; }
  int64_t group_rows() const { return group_rows_; }

 private:
  // The numbers of group `group` into slot `slot`.
  void Load(int64_t group, int64_t slot);

  const WeightOperand& w_;
  const int64_t column_;
  const int64_t width_;
  const int64_t group_rows_;
  const bool listed_;
  int64_t group_ = -1;
  int64_t slot_ = 0;  // where that group's scales begin
  std::vector<float> scales_;
  std::vector<float> zeros_;
  std::vector<uint8_t> nibbles_;  // eight rows
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WEIGHT_OPERAND_H_
