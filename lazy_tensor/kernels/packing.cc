// GPTQ and AWQ words, compiled once per instruction set, and the plain loops.

#include "npubank/lazy_tensor/kernels/packing.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/lazy_tensor/kernels/packing.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void Rows(const uint8_t* words, size_t columns, size_t first, size_t rows, uint8_t* out,
          size_t out_pitch) {
  ReferenceGptqRows(words, columns, first, rows, out, out_pitch);
}

void Zeros(const uint8_t* in, size_t words, uint8_t* out) { ReferenceGptqZeros(in, words, out); }

void ByteRows(const uint8_t* words, size_t columns, size_t first, size_t rows, uint8_t* out,
              size_t out_pitch) {
  ReferenceGptqByteRows(words, columns, first, rows, out, out_pitch);
}

void ByteZeros(const uint8_t* in, size_t words, uint8_t* out) {
  ReferenceGptqByteZeros(in, words, out);
}

void Awq(const uint8_t* in, size_t words, uint8_t* out) { ReferenceAwqToU4(in, words, out); }

#else

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<uint8_t>;
using Pairs = hn::Repartition<int16_t, Bytes>;
using Words = hn::Repartition<uint32_t, Bytes>;
using Signed = hn::RebindToSigned<Words>;

// out[i] = change(in[i]) for a change of single words; the last few go through a vector of zeros.
template <typename Change>
HWY_INLINE void ForWords(const uint8_t* in, size_t words, uint8_t* out, const Change& change) {
  const Bytes d8;
  const size_t bytes = 4 * words;
  const size_t step = hn::Lanes(d8);
  const auto changed = [&](const uint8_t* from) HWY_ATTR {
    return hn::BitCast(d8, change(hn::BitCast(Words(), hn::LoadU(d8, from))));
  };
  size_t i = 0;
  for (; i + step <= bytes; i += step) hn::StoreU(changed(in + i), d8, out + i);
  if (i == bytes) return;
  uint8_t room[HWY_MAX_BYTES] = {};
  std::memcpy(room, in + i, bytes - i);
  hn::StoreU(changed(room), d8, room);
  std::memcpy(out + i, room, bytes - i);
}

// The two nibbles of a byte are added to apart, so that no carry passes between them.
void Zeros(const uint8_t* in, size_t words, uint8_t* out) {
  const Bytes d8;
  ForWords(in, words, out, [&](auto word) HWY_ATTR {
    const auto pair = hn::BitCast(d8, word);
    const auto low = hn::And(hn::Add(pair, hn::Set(d8, 0x01)), hn::Set(d8, 0x0F));
    const auto high = hn::And(hn::Add(pair, hn::Set(d8, 0x10)), hn::Set(d8, 0xF0));
    return hn::BitCast(Words(), hn::Or(low, high));
  });
}

void ByteZeros(const uint8_t* in, size_t words, uint8_t* out) {
  const Bytes d8;
  ForWords(in, words, out, [&](auto word) HWY_ATTR {
    return hn::BitCast(Words(), hn::Add(hn::BitCast(d8, word), hn::Set(d8, 0x01)));
  });
}

// Nibbles 0 1 2 3 4 5 6 7 become 0 4 1 5 2 6 3 7: the two middle bytes change places, then the two
// middle nibbles of either half.
void Awq(const uint8_t* in, size_t words, uint8_t* out) {
  const Words d;
  const auto outer = hn::Set(d, 0xFF0000FF);
  const auto middle = hn::Set(d, 0x0000FF00);
  const auto edges = hn::Set(d, 0xF00FF00F);
  const auto inner = hn::Set(d, 0x00F000F0);
  ForWords(in, words, out, [&](auto word) HWY_ATTR {
    const auto up = hn::And(hn::ShiftRight<8>(word), middle);
    const auto down = hn::ShiftLeft<8>(hn::And(word, middle));
    const auto bytes = hn::Or(hn::And(word, outer), hn::Or(up, down));
    const auto right = hn::And(hn::ShiftRight<4>(bytes), inner);
    const auto left = hn::ShiftLeft<4>(hn::And(bytes, inner));
    return hn::Or(hn::And(bytes, edges), hn::Or(right, left));
  });
}

// The nibbles of a row, a byte each, then two to a byte.
constexpr size_t kChunk = 1024;

// One number of each word to a byte: what `mask` leaves. `out` has room for a vector more.
HWY_INLINE void Pick(const uint8_t* words, size_t count, int shift, uint32_t mask, uint8_t* out) {
  const Words d;
  const hn::Rebind<uint8_t, Words> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto pick = [&](const uint8_t* from, uint8_t* to) HWY_ATTR {
    const auto word = hn::BitCast(d, hn::LoadU(Bytes(), from));
    const auto number = hn::And(hn::ShiftRightSame(word, shift), hn::Set(d, mask));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(Signed(), number)), narrow, to);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) pick(words + 4 * i, out + i);
  uint8_t room[HWY_MAX_BYTES] = {};
  std::memcpy(room, words + 4 * i, 4 * (count - i));
  pick(room, out + i);
}

HWY_INLINE void PackNibbles(const uint8_t* nibbles, size_t packed, uint8_t* out) {
  const Pairs d;
  const hn::Rebind<uint8_t, Pairs> narrow;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= packed; i += lanes) {
    const auto pair = hn::BitCast(d, hn::LoadU(Bytes(), nibbles + 2 * i));
    const auto both = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d, 0xFF));
    hn::StoreU(hn::DemoteTo(narrow, both), narrow, out + i);
  }
  for (; i < packed; ++i) {
    out[i] = static_cast<uint8_t>(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
  }
}

void Rows(const uint8_t* words, size_t columns, size_t first, size_t rows, uint8_t* out,
          size_t out_pitch) {
  uint8_t nibbles[kChunk + HWY_MAX_BYTES];
  for (size_t start = 0; start < columns; start += kChunk) {
    const size_t count = std::min(kChunk, columns - start);
    for (size_t r = 0; r < rows; ++r) {
      Pick(words + 4 * start, count, static_cast<int>(4 * (first + r)), 15, nibbles);
      PackNibbles(nibbles, (count + 1) / 2, out + r * out_pitch + start / 2);
    }
  }
}

void ByteRows(const uint8_t* words, size_t columns, size_t first, size_t rows, uint8_t* out,
              size_t out_pitch) {
  uint8_t bytes[kChunk + HWY_MAX_BYTES];
  for (size_t start = 0; start < columns; start += kChunk) {
    const size_t count = std::min(kChunk, columns - start);
    for (size_t r = 0; r < rows; ++r) {
      Pick(words + 4 * start, count, static_cast<int>(8 * (first + r)), 255, bytes);
      std::memcpy(out + r * out_pitch + start, bytes, count);
    }
  }
}

#endif

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(Rows);
HWY_EXPORT(Zeros);
HWY_EXPORT(ByteRows);
HWY_EXPORT(ByteZeros);
HWY_EXPORT(Awq);

// Nibble `i` of a run of little-endian words, whose bytes hold two each, the low nibble first.
int Nibble(const uint8_t* bytes, size_t i) { return bytes[i / 2] >> i % 2 * 4 & 15; }

}  // namespace

void ReferenceGptqRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                       size_t out_pitch) {
  const uint8_t* in = static_cast<const uint8_t*>(words);
  for (size_t r = 0; r < rows; ++r) {
    uint8_t* row = static_cast<uint8_t*>(out) + r * out_pitch;
    for (size_t c = 0; c < columns; c += 2) {
      const int low = Nibble(in, 8 * c + first + r);
      const int high = c + 1 < columns ? Nibble(in, 8 * (c + 1) + first + r) : 0;
      row[c / 2] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

void ReferenceGptqZeros(const void* in, size_t words, void* out) {
  const uint8_t* packed = static_cast<const uint8_t*>(in);
  for (size_t i = 0; i < 4 * words; ++i) {
    const int low = (Nibble(packed, 2 * i) + 1) & 15;
    const int high = (Nibble(packed, 2 * i + 1) + 1) & 15;
    static_cast<uint8_t*>(out)[i] = static_cast<uint8_t>(low | high << 4);
  }
}

void ReferenceGptqByteRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                           size_t out_pitch) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      static_cast<uint8_t*>(out)[r * out_pitch + c] =
          static_cast<const uint8_t*>(words)[4 * c + first + r];
    }
  }
}

void ReferenceGptqByteZeros(const void* in, size_t words, void* out) {
  for (size_t i = 0; i < 4 * words; ++i) {
    static_cast<uint8_t*>(out)[i] = static_cast<uint8_t>(static_cast<const uint8_t*>(in)[i] + 1);
  }
}

void ReferenceAwqToU4(const void* in, size_t words, void* out) {
  static constexpr int kColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (size_t w = 0; w < words; ++w) {
    const uint8_t* word = static_cast<const uint8_t*>(in) + 4 * w;
    uint32_t ordered = 0;
    for (size_t i = 0; i < 8; ++i) {
      ordered |= static_cast<uint32_t>(Nibble(word, i)) << 4 * kColumn[i];
    }
    std::memcpy(static_cast<uint8_t*>(out) + 4 * w, &ordered, 4);
  }
}

void GptqRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
              size_t out_pitch) {
  HWY_DYNAMIC_DISPATCH(Rows)
  (static_cast<const uint8_t*>(words), columns, first, rows, static_cast<uint8_t*>(out), out_pitch);
}

void GptqZeros(const void* in, size_t words, void* out) {
  HWY_DYNAMIC_DISPATCH(Zeros)
  (static_cast<const uint8_t*>(in), words, static_cast<uint8_t*>(out));
}

void GptqByteRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                  size_t out_pitch) {
  HWY_DYNAMIC_DISPATCH(ByteRows)
  (static_cast<const uint8_t*>(words), columns, first, rows, static_cast<uint8_t*>(out), out_pitch);
}

void GptqByteZeros(const void* in, size_t words, void* out) {
  HWY_DYNAMIC_DISPATCH(ByteZeros)
  (static_cast<const uint8_t*>(in), words, static_cast<uint8_t*>(out));
}

void AwqToU4(const void* in, size_t words, void* out) {
  HWY_DYNAMIC_DISPATCH(Awq)(static_cast<const uint8_t*>(in), words, static_cast<uint8_t*>(out));
}

}  // namespace npubank::kernels
#endif
