// Loads of weights as F32, for one Highway target. Included by each file that is compiled per
// target.
#if defined(NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_LOAD_WEIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_LOAD_WEIGHT_INL_H_
#undef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_LOAD_WEIGHT_INL_H_
#else
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_LOAD_WEIGHT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "npubank/lazy_tensor/element_type.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Weights in memory: same bits, different meaning.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

template <class D>
HWY_INLINE hn::Vec<D> LoadWeight(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadWeight(D d, const Half* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadWeight(D d, const Brain* from) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

// One number.
template <class Weight>
HWY_INLINE float LoadOne(const Weight* from) {
  if constexpr (sizeof(Weight) == sizeof(float)) {
    return *reinterpret_cast<const float*>(from);
  } else {
    const hn::CappedTag<float, 1> d;
    return hn::GetLane(LoadWeight(d, from));
  }
}

// Calls `body` with the weight as a pointer to its type.
template <class Body>
HWY_INLINE void WithWeight(const void* weight, ElementType element, Body body) {
  switch (element) {
    case ElementType::kF16:
      return body(static_cast<const Half*>(weight));
    case ElementType::kBF16:
      return body(static_cast<const Brain*>(weight));
    default:
      return body(static_cast<const float*>(weight));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_LOAD_WEIGHT_INL_H_
