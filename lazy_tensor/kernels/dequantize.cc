// Dequantize, compiled once per instruction set, and its plain loop.

#include "npubank/lazy_tensor/kernels/dequantize.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "npubank/lazy_tensor/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/lazy_tensor/kernels/dequantize.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#if HWY_TARGET != HWY_SCALAR
#include "npubank/lazy_tensor/kernels/simd-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void DequantizeRun(const QuantizedRun& run, ElementType to, void* out, size_t count) {
  ReferenceDequantize(run, to, out, count);
}

#else

// What a chunk needs: room to spell out weights and scales, and for results that change once more.
struct Room {
  alignas(64) uint8_t nibbles[kChunk];
  alignas(64) float weights[kChunk];
  alignas(64) float scales[kChunk + kMaxLanes];
  alignas(64) float zeros[kChunk + kMaxLanes];
  alignas(64) float results[kChunk];
};

// One scale (or zero point) per element and enough of them for a vector: the caller's own where
// they are spelled out already.
const float* SpellOut(const float* values, size_t group, size_t position, size_t count,
                      float* room) {
  if (values == nullptr) {
    std::fill_n(room, std::max(count, kMaxLanes), 0.0f);
    return room;
  }
  if (group == 1 && count >= kMaxLanes) return values + position;
  for (size_t i = 0; i < count; ++i) room[i] = values[(position + i) / group];
  return room;
}

// A chunk of a run whose weights are ready to be loaded as From.
template <class From, class To>
void DequantizeChunk(const QuantizedRun& run, size_t start, const typename From::T* weights,
                     typename To::T* out, size_t count, Room& room) {
  const F32 d;
  const size_t position = run.first + start;
  if (run.group >= kMaxLanes) {  // a scale serves whole vectors
    size_t number = position / run.group;  // a division for each group would cost as much as a small one
    size_t left = run.group - position % run.group;
    for (size_t i = 0; i < count; ++number, left = run.group) {
      const size_t length = std::min(count - i, left);
      const VF scale = hn::Set(d, run.scales[number]);
      const VF zero = hn::Set(d, run.zeros != nullptr ? run.zeros[number] : 0.0f);
      Run<From, To>(weights + i, out + i, length,
                    [=](VF w, size_t) HWY_ATTR { return hn::Mul(hn::Sub(w, zero), scale); });
      i += length;
    }
    return;
  }
  const float* scales = SpellOut(run.scales, run.group, position, count, room.scales);
  const float* zeros = SpellOut(run.zeros, run.group, position, count, room.zeros);
  Run<From, To>(weights, out, count, [=](VF w, size_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(w, hn::LoadU(d, zeros + i)), hn::LoadU(d, scales + i));
  });
}

// Nibbles as signed bytes, a word of eight at a time: (n ^ 8) - 8, where no borrow passes between bytes. Up to
// seven beyond `count` are changed too.
void Sign(uint8_t* nibbles, size_t count) {
  constexpr uint64_t kEights = 0x0808080808080808;
  constexpr uint64_t kSigns = 0x8080808080808080;
  for (size_t i = 0; i < count; i += 8) {
    uint64_t word;
    std::memcpy(&word, nibbles + i, 8);
    word = (((word ^ kEights) | kSigns) - kEights) ^ kSigns;
    std::memcpy(nibbles + i, &word, 8);
  }
}

// The chunk that starts at `start`, whatever its weights are.
template <class To>
void DequantizeTo(const QuantizedRun& run, size_t start, typename To::T* out, size_t count,
                  Room& room) {
  const uint8_t* bytes = static_cast<const uint8_t*>(run.weights);
  switch (run.type) {
    case ElementType::kU4:
      SpreadNibbles(bytes + start / 2, (count + 1) / 2, room.nibbles);
      return DequantizeChunk<AsU8, To>(run, start, room.nibbles, out, count, room);
    case ElementType::kI4: {
      SpreadNibbles(bytes + start / 2, (count + 1) / 2, room.nibbles);
      Sign(room.nibbles, count);
      return DequantizeChunk<AsI8, To>(run, start, reinterpret_cast<int8_t*>(room.nibbles), out,
                                       count, room);
    }
    case ElementType::kU8:
      return DequantizeChunk<AsU8, To>(run, start, bytes + start, out, count, room);
    case ElementType::kI8:
      return DequantizeChunk<AsI8, To>(run, start, reinterpret_cast<const int8_t*>(bytes) + start,
                                       out, count, room);
    default:
      ToF32(run.type, run.weights, start, room.weights, count);
      return DequantizeChunk<AsF32, To>(run, start, room.weights, out, count, room);
  }
}

// Whether every vector of the run starts on a multiple of its size, as streaming stores must.
bool CanStream(const QuantizedRun& run, const void* out, size_t count) {
  const bool whole_groups = run.group < kMaxLanes || (run.group | run.first) % kMaxLanes == 0;
  return run.stream && whole_groups && count % kMaxLanes == 0 &&
         reinterpret_cast<uintptr_t>(out) % 64 == 0;
}

// F32 and F16 are made at once, the rarer results from F32.
void DequantizeRun(const QuantizedRun& run, ElementType to, void* out, size_t count) {
  Room room;
  const bool stream = CanStream(run, out, count);
  for (size_t start = 0; start < count; start += kChunk) {
    const size_t chunk = std::min(kChunk, count - start);
    if (to == ElementType::kF16 && stream) {
      DequantizeTo<AsStreamedF16>(run, start, static_cast<uint16_t*>(out) + start, chunk, room);
    } else if (to == ElementType::kF16) {
      DequantizeTo<AsF16>(run, start, static_cast<uint16_t*>(out) + start, chunk, room);
    } else if (to == ElementType::kF32) {
      DequantizeTo<AsF32>(run, start, static_cast<float*>(out) + start, chunk, room);
    } else {
      DequantizeTo<AsF32>(run, start, room.results, chunk, room);
      FromF32(room.results, to, out, start, chunk);
    }
  }
  if (stream) hwy::FlushStream();
}

#endif

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(DequantizeRun);

}  // namespace

bool CanDequantize(ElementType weights, ElementType to) {
  return F32Holds(weights) &&
         (IsPlainFloat(to) || to == ElementType::kI8 || to == ElementType::kU8);
}

void ReferenceDequantize(const QuantizedRun& run, ElementType to, void* out, size_t count) {
  std::vector<float> values(count);
  ReferenceConvert(run.type, run.weights, ElementType::kF32, values.data(), count);
  for (size_t i = 0; i < count; ++i) {
    const size_t number = (run.first + i) / run.group;
    const float zero = run.zeros != nullptr ? run.zeros[number] : 0.0f;
    values[i] = (values[i] - zero) * run.scales[number];
  }
  ReferenceConvert(ElementType::kF32, values.data(), to, out, count);
}

void Dequantize(const QuantizedRun& run, ElementType to, void* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(DequantizeRun)(run, to, out, count);
}

}  // namespace npubank::kernels
#endif
