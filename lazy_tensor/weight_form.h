// WeightForm: how the numbers of a matrix [N, K] lie in the parts of a stored weight.
//
//   WeightForm form = WeightForm::Blocks(kernels::BlockFormat::kQ4_0);
//   form.Parts();                                     // {kWeight}
//   NPUBANK_ASSIGN_OR_RETURN(TensorType numbers, form.Numbers({bytes}));  // F32[N,K]
//
// A weight that is stored whole is plain: one part, its numbers. A quantized one that is used as it is
// stored has parts, each a tensor of its own:
//   plain    numbers F32, F16 or BF16
//   blocks   U8[N, bytes of a row]: GGUF blocks, decoded as kernels/blocks.h says
//   planes   I4, U4, I8 or U8 [N, K]; a scale [N, G] in F32, F16 or BF16, each for K / G numbers; and
//            perhaps a zero point [N, G] in the numbers' own type, w = (q - zero) * scale, or a minimum
//            [N, G] in the scale's, w = q * scale + min
//   GPTQ     I32[K b / 32, N] of numbers of b bits, 4 or 8, a scale [G, N], zero points I32[G, N b / 32]; as
//            quantization.h says. K / G rows share a scale: those that follow each other, or where the
//            groups are listed, I32[K], those of which the list says the same group, 0 to G - 1
//   AWQ      I32[K, N/8], a scale [G, N], zero points I32[G, N/8]; as quantization.h says
//   rows     I32[N, K b / 32] of numbers of b bits, 4 or 8, the lowest first and each 2^(b-1) too large; a
//            scale [N, G]; as compressed_tensors.h says
// Each w is computed in F32, every operation rounded apart, so that a form's numbers are the same bits
// wherever they are decoded: by a recipe into memory or by a device on its way.
//
// A value. Threads: pure. Errors: InvalidArgument naming the form and the types that do not fit.
#ifndef NPUBANK_LAZY_TENSOR_WEIGHT_FORM_H_
#define NPUBANK_LAZY_TENSOR_WEIGHT_FORM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

// Written to files: never reuse a number.
enum class WeightPart : uint8_t { kWeight = 0, kScale = 1, kZero = 2, kMin = 3, kGroup = 4 };
absl::string_view WeightPartName(WeightPart part);  // "weight", "scale", "zero", "min", "group"

class WeightForm {
 public:
  enum class Kind : uint8_t { kPlain = 0, kBlocks = 1, kPlanes = 2, kGptq = 3, kAwq = 4, kRows = 5 };
  // What planes have beside numbers and scales.
  enum class Offset : uint8_t { kNone = 0, kZero = 1, kMin = 2 };

  WeightForm() = default;  // plain
  static WeightForm Blocks(kernels::BlockFormat format);
  static WeightForm Planes(Offset offset);
  // Zero points of the first version of the format are stored one too small. `bits`: 4 or 8.
  static WeightForm Gptq(bool zeros_one_too_small, int bits = 4, bool groups_listed = false);
  static WeightForm Awq();
  // Words that hold rows: of 4 or 8 bits a number.
  static WeightForm Rows(int bits);

  Kind kind() const { return kind_; }
  bool plain() const { return kind_ == Kind::kPlain; }
  kernels::BlockFormat blocks() const;         // of kBlocks
  Offset offset() const;                       // of kPlanes
  bool zeros_one_too_small() const;            // of kGptq
  bool groups_listed() const;                  // of any; only kGptq's may be
  int bits() const;                            // of a number in a word: of kGptq, kAwq and kRows
  // The rows of every part are rows of the matrix; not so of GPTQ's and AWQ's words.
  bool by_rows() const { return kind_ <= Kind::kPlanes || kind_ == Kind::kRows; }

  // The parts, in the order of an operation's operands.
  std::vector<WeightPart> Parts() const;
  // The type of the numbers that parts of these types hold, as F32: [N, K], or [K, N] where they do
  // not lie by rows. Of a plain form whatever its one part is.
  absl::StatusOr<TensorType> Numbers(absl::Span<const TensorType> parts) const;

  // In files. Zero is plain.
  uint32_t Number() const { return static_cast<uint32_t>(kind_) << 16 | detail_; }
  static std::optional<WeightForm> FromNumber(uint32_t number);
  std::string ToString() const;  // "plain", "Q4_0 blocks", "planes with zero points", "rows of 8-bit words"

  friend bool operator==(const WeightForm& a, const WeightForm& b) {
    return a.Number() == b.Number();
  }

 private:
  WeightForm(Kind kind, uint32_t detail) : kind_(kind), detail_(detail) {}
  bool Fits(absl::Span<const TensorType> parts) const;

  Kind kind_ = Kind::kPlain;
  uint32_t detail_ = 0;  // what the kind leaves open; below 2^16
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_WEIGHT_FORM_H_
