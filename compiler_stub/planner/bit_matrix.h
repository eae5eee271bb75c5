// BitMatrix: a yes or no for each pair of `size` things, a bit each. For this room.
//
//   BitMatrix before(100);
//   before.Set(7, 3);
//   before.OrRow(7, 3);                                  // what holds for 3 holds for 7
//   before.ForEach(7, [](int column) { ... });           // ascending
//
// Numbers are 0 <= row, column < size(). Memory: size * size / 8 bytes.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_BIT_MATRIX_H_
#define NPUBANK_COMPILER_STUB_PLANNER_BIT_MATRIX_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace npubank {

class BitMatrix {
 public:
  BitMatrix() = default;
  explicit BitMatrix(int size)
      : size_(size),
        words_((static_cast<size_t>(size) + 63) / 64),
        bits_(words_ * static_cast<size_t>(size), 0) {}

  int size() const { return size_; }
  int words() const { return static_cast<int>(words_); }  // of a row

  bool Get(int row, int column) const {
    return (Row(row)[static_cast<size_t>(column) / 64] >> (column % 64) & 1) != 0;
  }
  void Set(int row, int column) { Word(row, column) |= uint64_t{1} << (column % 64); }

  // Columns [begin, end).
  void SetRange(int row, int begin, int end) {
    for (int column = begin; column < end; ++column) {
      if (column % 64 == 0 && column + 64 <= end) {
        Word(row, column) = ~uint64_t{0};
        column += 63;
      } else {
        Set(row, column);
      }
    }
  }

  // Bit i of word w is column 64 * w + i.
  absl::Span<const uint64_t> Row(int row) const {
    return {bits_.data() + static_cast<size_t>(row) * words_, words_};
  }

  void OrRow(int to, int from) {
    uint64_t* const row = bits_.data() + static_cast<size_t>(to) * words_;
    const absl::Span<const uint64_t> other = Row(from);
    for (size_t w = 0; w < words_; ++w) row[w] |= other[w];
  }

  template <typename Visit>
  void ForEach(int row, Visit visit) const {
    for (size_t w = 0; w < words_; ++w) {
      for (uint64_t bits = Row(row)[w]; bits != 0; bits &= bits - 1) {
        visit(static_cast<int>(w * 64) + std::countr_zero(bits));
      }
    }
  }

 private:
  uint64_t& Word(int row, int column) {
    return bits_[static_cast<size_t>(row) * words_ + static_cast<size_t>(column) / 64];
  }

  int size_ = 0;
  size_t words_ = 0;
  std::vector<uint64_t> bits_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_BIT_MATRIX_H_
