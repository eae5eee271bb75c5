// ElementType: what one number of a tensor is.
//
//   ElementTypeName(ElementType::kBF16)      -> "BF16" (the safetensors spelling)
//   ElementTypeFromName("F8_E4M3")           -> ElementType::kF8E4M3, or nullopt
//   BitWidth(ElementType::kU4)               -> 4
//
// The numbers are written to files (blobs, caches, snapshots): never reuse one.
// Four-bit elements are packed two to a byte over the whole tensor, the first in the low nibble.
#ifndef NPUBANK_LAZY_TENSOR_ELEMENT_TYPE_H_
#define NPUBANK_LAZY_TENSOR_ELEMENT_TYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace npubank {

enum class ElementType : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF8E4M3 = 4,  // 1-4-3, no infinities (the "FN" variant)
  kF8E5M2 = 5,
  kF64 = 6,
  kI64 = 7,
  kI32 = 8,
  kI16 = 9,
  kI8 = 10,
  kU64 = 11,
  kU32 = 12,
  kU16 = 13,
  kU8 = 14,
  kBool = 15,  // one byte
  kI4 = 16,
  kU4 = 17,
  kNF4 = 18,  // index into the 16 NormalFloat levels
};

constexpr int BitWidth(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
    case ElementType::kU64:
      return 64;
    case ElementType::kF32:
    case ElementType::kI32:
    case ElementType::kU32:
      return 32;
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kI16:
    case ElementType::kU16:
      return 16;
    case ElementType::kI4:
    case ElementType::kU4:
    case ElementType::kNF4:
      return 4;
    default:
      return 8;
  }
}
absl::string_view ElementTypeName(ElementType type);
std::optional<ElementType> ElementTypeFromName(absl::string_view name);
// The type with this number, for readers of files.
std::optional<ElementType> ElementTypeFromNumber(uint32_t number);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_ELEMENT_TYPE_H_
