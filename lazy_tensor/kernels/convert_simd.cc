// Convert, compiled once per instruction set.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "npubank/lazy_tensor/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/lazy_tensor/kernels/convert_simd.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#if HWY_TARGET != HWY_SCALAR
#include "npubank/lazy_tensor/kernels/simd-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether one of the numbers, their bits without the sign, is in [first, infinity).
template <typename Bits>
bool AnyIn(const void* in, size_t count, Bits first, Bits infinity) {
  const hn::ScalableTag<Bits> d;
  const auto* const bits = static_cast<const Bits*>(in);
  constexpr auto kWithoutSign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  const auto width = hn::Set(d, static_cast<Bits>(infinity - first));
  const auto distance = [&](auto numbers) HWY_ATTR {
    return hn::Sub(hn::And(numbers, hn::Set(d, kWithoutSign)), hn::Set(d, first));
  };
  auto least = hn::Set(d, static_cast<Bits>(~Bits{0}));
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) least = hn::Min(least, distance(hn::LoadU(d, bits + i)));
  for (; i < count; ++i) {
    Bits one = 0;
    std::memcpy(&one, bits + i, sizeof(one));
    least = hn::Min(least, distance(hn::Set(d, one)));
  }
  return !hn::AllFalse(d, hn::Lt(least, width));
}

// From 65520 on F16 rounds to an infinity; the first BF16 from there is 65536.
bool AnyBeyondF16(ElementType from, const void* in, size_t count) {
  if (from == ElementType::kBF16) return AnyIn<uint16_t>(in, count, 0x4780, 0x7F80);
  return AnyIn<uint32_t>(in, count, 0x477FF000, 0x7F800000);
}

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

constexpr size_t kLine = 64;
// So many pages of the result are written side by side. A processor follows a page of memory to its
// end and waits at the next one; with several at a time it waits for less.
constexpr size_t kPage = 4096;
constexpr size_t kPages = 4;
constexpr size_t kBlock = kPage * kPages;
constexpr size_t kStep = 4 * kLine;

// A block that starts on a cache line, past the cache.
void StreamBlock(ElementType from, const uint8_t* in, ElementType to, uint8_t* out) {
  const size_t in_bits = static_cast<size_t>(BitWidth(from));
  const size_t out_bits = static_cast<size_t>(BitWidth(to));
  const hn::ScalableTag<uint8_t> d8;
  const size_t lanes = hn::Lanes(d8);
  const size_t in_step = kStep * in_bits / out_bits;
  const size_t in_block = kBlock * in_bits / out_bits;
  alignas(kLine) uint8_t step[kStep];
  for (size_t at = 0; at < kPage; at += kStep) {
    for (size_t first = at; first < kBlock; first += kPage) {
      const uint8_t* source = in + first / kStep * in_step;
      for (size_t b = 0; b < in_step; b += kLine) __builtin_prefetch(source + in_block + b, 0, 3);
      ConvertRun(from, source, to, step, kStep * 8 / out_bits);
      for (size_t b = 0; b < kStep; b += lanes) {
        hn::Stream(hn::Load(d8, step + b), d8, out + first + b);
      }
    }
  }
}

void StreamRun(ElementType from, const void* in, ElementType to, void* out, size_t count) {
  const size_t in_bits = static_cast<size_t>(BitWidth(from));
  const size_t out_bits = static_cast<size_t>(BitWidth(to));
  const uint8_t* source = static_cast<const uint8_t*>(in);
  uint8_t* target = static_cast<uint8_t*>(out);
  const auto plain = [&](size_t elements) HWY_ATTR {
    ConvertRun(from, source, to, target, elements);
    source += elements * in_bits / 8;
    target += elements * out_bits / 8;
    count -= elements;
  };
  // Up to a cache line of the output. Where its elements lie across lines, nothing is on one.
  const size_t odd = reinterpret_cast<uintptr_t>(out) % kLine;
  const size_t head = odd == 0 ? 0 : (kLine - odd) * 8 / out_bits;
  const size_t block = kBlock * 8 / out_bits;
  if (odd * 8 % out_bits != 0 || head * in_bits % 8 != 0 || count < head + block) {
    return plain(count);
  }
  plain(head);
  for (; count >= block; count -= block) {
    StreamBlock(from, source, to, target);
    source += block * in_bits / 8;
    target += kBlock;
  }
  plain(count);
  hwy::FlushStream();
}

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(ConvertRun);
HWY_EXPORT(StreamRun);
HWY_EXPORT(AnyBeyondF16);

bool IsFourBits(ElementType type) {
  return type == ElementType::kI4 || type == ElementType::kU4 || type == ElementType::kNF4;
}

}  // namespace

void Convert(ElementType from, const void* in, ElementType to, void* out, size_t count,
             bool stream) {
  // Wide numbers and packing into nibbles are too rare to be worth a kernel.
  if (from == to || !F32Holds(from) || !F32Holds(to) || IsFourBits(to)) {
    ReferenceConvert(from, in, to, out, count);
  } else if (stream) {
    HWY_DYNAMIC_DISPATCH(StreamRun)(from, in, to, out, count);
  } else {
    HWY_DYNAMIC_DISPATCH(ConvertRun)(from, in, to, out, count);
  }
}

// The common case is one look at all of them.
size_t FirstBeyondF16(ElementType from, const void* in, size_t count) {
  const auto any = HWY_DYNAMIC_DISPATCH(AnyBeyondF16);
  if (!any(from, in, count)) return count;
  const auto* const bytes = static_cast<const uint8_t*>(in);
  const auto size = static_cast<size_t>(BitWidth(from)) / 8;
  size_t at = 0;
  while (!any(from, bytes + at * size, 1)) ++at;
  return at;
}

}  // namespace npubank::kernels
#endif
