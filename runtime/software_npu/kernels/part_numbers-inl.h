// Numbers of weights in parts, from their bytes into sums: a vector of them at a time, for one Highway target. Included
// by each file that is compiled per target.
#if defined(NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_PART_NUMBERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_PART_NUMBERS_INL_H_
#undef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_PART_NUMBERS_INL_H_
#else
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_PART_NUMBERS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PartFloats = hn::ScalableTag<float>;
using PartWords = hn::RebindToUnsigned<PartFloats>;
using PartIntegers = hn::RebindToSigned<PartFloats>;
constexpr int64_t kPartLanes = static_cast<int64_t>(hn::MaxLanes(PartFloats()));

// As many four-bit numbers as a vector has lanes, the word of each in its lane.
HWY_INLINE hn::Vec<PartWords> WordOfEach(const uint8_t* from) {
  const PartWords d;
  if constexpr (kPartLanes <= 8) {
    uint32_t word = 0;
    std::memcpy(&word, from, static_cast<size_t>(kPartLanes) / 2);
    return hn::Set(d, word);
  } else {
    alignas(64) static constexpr int32_t kWord[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t words = 0;
    std::memcpy(&words, from, sizeof(words));
    const auto both = hn::BitCast(d, hn::Set(hn::Repartition<uint64_t, PartFloats>(), words));
    return hn::TableLookupLanes(both, hn::SetTableIndices(d, kWord));
  }
}

// Vectors of numbers as they lie in a plane.
struct AsU4 {
  static constexpr int kBits = 4;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    alignas(64) static constexpr uint32_t kShift[16] = {0, 4, 8, 12, 16, 20, 24, 28,
                                                        0, 4, 8, 12, 16, 20, 24, 28};
    const PartWords d;
    const auto number = hn::And(WordOfEach(from) >> hn::Load(d, kShift), hn::Set(d, 15));
    return hn::ConvertTo(PartFloats(), hn::BitCast(PartIntegers(), number));
  }
};
struct AsI4 {
  static constexpr int kBits = 4;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    alignas(64) static constexpr uint32_t kShift[16] = {28, 24, 20, 16, 12, 8, 4, 0,
                                                        28, 24, 20, 16, 12, 8, 4, 0};
    const auto high = WordOfEach(from) << hn::Load(PartWords(), kShift);
    return hn::ConvertTo(PartFloats(), hn::ShiftRight<28>(hn::BitCast(PartIntegers(), high)));
  }
};
struct AsU8 {
  static constexpr int kBits = 8;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    const auto bytes = hn::LoadU(hn::Rebind<uint8_t, PartFloats>(), from);
    return hn::ConvertTo(PartFloats(), hn::PromoteTo(PartIntegers(), bytes));
  }
};
struct AsI8 {
  static constexpr int kBits = 8;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    const auto bytes =
        hn::LoadU(hn::Rebind<int8_t, PartFloats>(), reinterpret_cast<const int8_t*>(from));
    return hn::ConvertTo(PartFloats(), hn::PromoteTo(PartIntegers(), bytes));
  }
};

// The low four bits of each byte, or the high ones: the halves of blocks.
template <bool High>
struct AsNibbles {
  static constexpr int kBits = 8;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    const PartIntegers d;
    const auto bytes = hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, PartFloats>(), from));
    return hn::ConvertTo(PartFloats(), High ? hn::ShiftRight<4>(bytes) : hn::And(bytes, hn::Set(d, 15)));
  }
};
// Of Rows rows: sums[r] += x * (q * scales[r] + offsets[r]) over `count` numbers, whole vectors of them.
template <class Numbers, int Rows>
HWY_INLINE void AddRun(const float* HWY_RESTRICT x, const uint8_t* const (&from)[Rows], int64_t count,
                       const hn::Vec<PartFloats> (&scales)[Rows], const hn::Vec<PartFloats> (&offsets)[Rows],
                       hn::Vec<PartFloats> (&sums)[Rows]) {
  const PartFloats d;
  for (int64_t k = 0; k < count; k += kPartLanes) {
    const auto xs = hn::LoadU(d, x + k);
    for (int r = 0; r < Rows; ++r) {
      const auto q = Numbers::Load(from[r] + k * Numbers::kBits / 8);
      sums[r] = hn::MulAdd(xs, hn::MulAdd(q, scales[r], offsets[r]), sums[r]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_PART_NUMBERS_INL_H_
