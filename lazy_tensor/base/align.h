// AlignUp: the next multiple of an alignment, without overflow.
//
//   AlignUp<uint64_t>(5000, 4096)        -> 8192
//   AlignUp<uint64_t>(8192, 4096)        -> 8192
//   AlignUp<uint64_t>(UINT64_MAX, 4096)  -> UINT64_MAX: there is no such multiple, and the largest
//                                           number passes no bound that is checked afterwards
//
// The value is not negative and the alignment is positive; a power of two costs no division.
#ifndef NPUBANK_LAZY_TENSOR_BASE_ALIGN_H_
#define NPUBANK_LAZY_TENSOR_BASE_ALIGN_H_

#include <limits>
#include <type_traits>

namespace npubank {

template <typename Integer>
constexpr Integer AlignUp(Integer value, std::type_identity_t<Integer> alignment) {
  static_assert(std::is_integral_v<Integer>);
  const bool power_of_two = (alignment & (alignment - 1)) == 0;
  const Integer over = power_of_two ? value & (alignment - 1) : value % alignment;
  if (over == 0) return value;
  const Integer missing = alignment - over;
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  return value > kMost - missing ? kMost : value + missing;
}

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_ALIGN_H_
