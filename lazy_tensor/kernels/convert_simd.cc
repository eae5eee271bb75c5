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

// The F32 numbers in between stay in the first-level cache.
constexpr size_t kChunk = 1024;

template <class From, class To>
void RunAs(const void* in, size_t in_first, void* out, size_t out_first, size_t count) {
  Run<From, To>(static_cast<const typename From::T*>(in) + in_first,
                static_cast<typename To::T*>(out) + out_first, count, Unchanged());
}

template <class Spread>
void NibblesToF32(const void* in, size_t first, float* out, size_t count) {
  uint8_t bytes[kChunk];
  SpreadNibbles(static_cast<const uint8_t*>(in) + first / 2, (count + 1) / 2, bytes);
  RunAs<Spread, AsF32>(bytes, 0, out, 0, count);
}

// At most kChunk numbers of `in`, from `first` on, which is even.
void ToF32(ElementType from, const void* in, size_t first, float* out, size_t count) {
  switch (from) {
    case ElementType::kF16:
      return RunAs<AsF16, AsF32>(in, first, out, 0, count);
    case ElementType::kBF16:
      return RunAs<AsBF16, AsF32>(in, first, out, 0, count);
    case ElementType::kF8E4M3:
      return RunAs<AsF8E4M3, AsF32>(in, first, out, 0, count);
    case ElementType::kF8E5M2:
      return RunAs<AsF8E5M2, AsF32>(in, first, out, 0, count);
    case ElementType::kI8:
      return RunAs<AsI8, AsF32>(in, first, out, 0, count);
    case ElementType::kU8:
      return RunAs<AsU8, AsF32>(in, first, out, 0, count);
    case ElementType::kI16:
      return RunAs<AsI16, AsF32>(in, first, out, 0, count);
    case ElementType::kU16:
      return RunAs<AsU16, AsF32>(in, first, out, 0, count);
    case ElementType::kI4:
      return NibblesToF32<AsSpreadI4>(in, first, out, count);
    case ElementType::kU4:
      return NibblesToF32<AsU8>(in, first, out, count);
    case ElementType::kNF4:
      return NibblesToF32<AsSpreadNF4>(in, first, out, count);
    default:
      return;
  }
}

void FromF32(const float* in, ElementType to, void* out, size_t first, size_t count) {
  switch (to) {
    case ElementType::kF16:
      return RunAs<AsF32, AsF16>(in, 0, out, first, count);
    case ElementType::kBF16:
      return RunAs<AsF32, AsBF16>(in, 0, out, first, count);
    case ElementType::kF8E4M3:
      return RunAs<AsF32, AsF8E4M3>(in, 0, out, first, count);
    case ElementType::kF8E5M2:
      return RunAs<AsF32, AsF8E5M2>(in, 0, out, first, count);
    case ElementType::kI8:
      return RunAs<AsF32, AsI8>(in, 0, out, first, count);
    case ElementType::kU8:
      return RunAs<AsF32, AsU8>(in, 0, out, first, count);
    case ElementType::kI16:
      return RunAs<AsF32, AsI16>(in, 0, out, first, count);
    case ElementType::kU16:
      return RunAs<AsF32, AsU16>(in, 0, out, first, count);
    default:
      return;
  }
}

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
