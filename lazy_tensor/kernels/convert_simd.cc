// Convert, compiled once per instruction set.

#include <algorithm>

#include "lazy_tensor/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lazy_tensor/kernels/convert_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#if HWY_TARGET != HWY_SCALAR
#include "lazy_tensor/kernels/simd-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void ConvertRun(ElementType from, const void* in, ElementType to, void* out, size_t count) {
  ReferenceConvert(from, in, to, out, count);
}

#else

void ConvertRun(ElementType from, const void* in, ElementType to, void* out, size_t count) {
  // The pair most checkpoints need goes without the stop in between.
  if (from == ElementType::kBF16 && to == ElementType::kF16) {
    return RunAs<AsBF16, AsF16>(in, 0, out, 0, count);
  }
  float between[kChunk];
  for (size_t first = 0; first < count; first += kChunk) {
    const size_t chunk = std::min(kChunk, count - first);
    if (from == ElementType::kF32) {
      FromF32(static_cast<const float*>(in) + first, to, out, first, chunk);
    } else if (to == ElementType::kF32) {
      ToF32(from, in, first, static_cast<float*>(out) + first, chunk);
    } else {
      ToF32(from, in, first, between, chunk);
      FromF32(between, to, out, first, chunk);
    }
  }
}

#endif

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(ConvertRun);

// F32 holds every number of these types.
bool IsNarrow(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
    case ElementType::kU64:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kBool:
      return false;
    default:
      return true;
  }
}

bool IsFourBits(ElementType type) {
  return type == ElementType::kI4 || type == ElementType::kU4 || type == ElementType::kNF4;
}

}  // namespace

void Convert(ElementType from, const void* in, ElementType to, void* out, size_t count) {
  // Wide numbers and packing into nibbles are too rare to be worth a kernel.
  if (from != to && IsNarrow(from) && IsNarrow(to) && !IsFourBits(to)) {
    HWY_DYNAMIC_DISPATCH(ConvertRun)(from, in, to, out, count);
  } else {
    ReferenceConvert(from, in, to, out, count);
  }
}

}  // namespace npubank::kernels
#endif
