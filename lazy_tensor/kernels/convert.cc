#include "npubank/lazy_tensor/kernels/convert.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "npubank/lazy_tensor/kernels/float_bits.h"

namespace npubank::kernels {
namespace {

// Any number of any element type, exactly: an integer as sign and magnitude, else a double.
struct Number {
  bool is_integer = false;
  bool negative = false;
  uint64_t magnitude = 0;
  double real = 0;
};

Number Real(double value) { return {.real = value}; }

Number Integer(int64_t value) {
  const uint64_t bits = static_cast<uint64_t>(value);
  return {.is_integer = true, .negative = value < 0, .magnitude = value < 0 ? 0 - bits : bits};
}

Number Natural(uint64_t value) { return {.is_integer = true, .magnitude = value}; }

template <typename T>
T Load(const void* in, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(in) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(T value, void* out, size_t index) {
  std::memcpy(static_cast<char*>(out) + index * sizeof(T), &value, sizeof(T));
}

uint8_t LoadNibble(const void* in, size_t index) {
  const uint8_t byte = Load<uint8_t>(in, index / 2);
  return index % 2 == 0 ? byte & 15 : byte >> 4;
}

Number LoadNumber(ElementType type, const void* in, size_t index) {
  switch (type) {
    case ElementType::kF32:
      return Real(Load<float>(in, index));
    case ElementType::kF64:
      return Real(Load<double>(in, index));
    case ElementType::kF16:
      return Real(F16ToF32(Load<uint16_t>(in, index)));
    case ElementType::kBF16:
      return Real(BF16ToF32(Load<uint16_t>(in, index)));
    case ElementType::kF8E4M3:
      return Real(F8E4M3ToF32(Load<uint8_t>(in, index)));
    case ElementType::kF8E5M2:
      return Real(F8E5M2ToF32(Load<uint8_t>(in, index)));
    case ElementType::kNF4:
      return Real(kNf4Levels[LoadNibble(in, index)]);
    case ElementType::kI64:
      return Integer(Load<int64_t>(in, index));
    case ElementType::kI32:
      return Integer(Load<int32_t>(in, index));
    case ElementType::kI16:
      return Integer(Load<int16_t>(in, index));
    case ElementType::kI8:
      return Integer(Load<int8_t>(in, index));
    case ElementType::kI4:
      return Integer(static_cast<int>(LoadNibble(in, index) ^ 8) - 8);
    case ElementType::kU64:
      return Natural(Load<uint64_t>(in, index));
    case ElementType::kU32:
      return Natural(Load<uint32_t>(in, index));
    case ElementType::kU16:
      return Natural(Load<uint16_t>(in, index));
    case ElementType::kU8:
      return Natural(Load<uint8_t>(in, index));
    case ElementType::kU4:
      return Natural(LoadNibble(in, index));
    case ElementType::kBool:
      return Natural(Load<uint8_t>(in, index) != 0 ? 1 : 0);
  }
  return {};
}

// The number as a double whose last bit is odd when it is not exact (an integer above 2^53), so
// that it can be rounded once more.
double ToDoubleOdd(const Number& number) {
  if (!number.is_integer) return number.real;
  uint64_t magnitude = number.magnitude;
  if (magnitude >= uint64_t{1} << 53) {
    const uint64_t sticky = (magnitude & 0x7FF) != 0 ? 0x800 : 0;
    magnitude = (magnitude & ~uint64_t{0x7FF}) | sticky;
  }
  const double real = static_cast<double>(magnitude);
  return number.negative ? -real : real;
}

double ToF64(const Number& number) {
  if (!number.is_integer) return number.real;
  const double real = static_cast<double>(number.magnitude);
  return number.negative ? -real : real;
}

// Rounded to nearest even and clamped into [-lowest, highest]; NaN is 0.
Number ToInteger(const Number& number, uint64_t lowest, uint64_t highest) {
  Number result = number;
  if (!number.is_integer) {
    if (std::isnan(number.real)) return Natural(0);
    const double whole = std::fabs(std::nearbyint(number.real));
    result = {.is_integer = true, .negative = std::signbit(number.real)};
    result.magnitude = whole < 0x1p64 ? static_cast<uint64_t>(whole) : ~uint64_t{0};
  }
  const uint64_t limit = result.negative ? lowest : highest;
  if (result.magnitude > limit) result.magnitude = limit;
  return result;
}

// Two's complement of the clamped number; the caller keeps the low bits.
uint64_t ToBits(const Number& number, bool is_signed, int width) {
  const uint64_t half = uint64_t{1} << (width - 1);
  const Number clamped =
      is_signed ? ToInteger(number, half, half - 1) : ToInteger(number, 0, (half - 1) * 2 + 1);
  return clamped.negative ? 0 - clamped.magnitude : clamped.magnitude;
}

template <typename T>
void StoreInteger(const Number& number, bool is_signed, void* out, size_t index) {
  Store(static_cast<T>(ToBits(number, is_signed, 8 * sizeof(T))), out, index);
}

void StoreNumber(const Number& number, ElementType type, void* out, size_t index) {
  const double real = ToDoubleOdd(number);
  switch (type) {
    case ElementType::kF32:
      return Store(static_cast<float>(real), out, index);
    case ElementType::kF64:
      return Store(ToF64(number), out, index);
    case ElementType::kF16:
      return Store(F32ToF16(RoundToOdd(real)), out, index);
    case ElementType::kBF16:
      return Store(F32ToBF16(RoundToOdd(real)), out, index);
    case ElementType::kF8E4M3:
      return Store(F32ToF8E4M3(RoundToOdd(real)), out, index);
    case ElementType::kF8E5M2:
      return Store(F32ToF8E5M2(RoundToOdd(real)), out, index);
    case ElementType::kI64:
      return StoreInteger<uint64_t>(number, true, out, index);
    case ElementType::kI32:
      return StoreInteger<uint32_t>(number, true, out, index);
    case ElementType::kI16:
      return StoreInteger<uint16_t>(number, true, out, index);
    case ElementType::kI8:
      return StoreInteger<uint8_t>(number, true, out, index);
    case ElementType::kU64:
      return StoreInteger<uint64_t>(number, false, out, index);
    case ElementType::kU32:
      return StoreInteger<uint32_t>(number, false, out, index);
    case ElementType::kU16:
      return StoreInteger<uint16_t>(number, false, out, index);
    case ElementType::kU8:
      return StoreInteger<uint8_t>(number, false, out, index);
    case ElementType::kI4:
    case ElementType::kU4:  // StorePair
    case ElementType::kBool:
    case ElementType::kNF4:  // refused by CanConvert
      return;
  }
}

// Two four-bit numbers at once: a byte is written whole and never read.
void StorePair(const Number& low, const Number& high, ElementType type, void* out, size_t index) {
  const bool is_signed = type == ElementType::kI4;
  const uint64_t bits = (ToBits(low, is_signed, 4) & 15) | ToBits(high, is_signed, 4) << 4;
  Store(static_cast<uint8_t>(bits), out, index);
}

}  // namespace

bool CanConvert(ElementType from, ElementType to) {
  return from == to || (to != ElementType::kBool && to != ElementType::kNF4);
}

void ReferenceConvert(ElementType from, const void* in, ElementType to, void* out, size_t count) {
  if (from == to) {
    if (count > 0) std::memcpy(out, in, (count * BitWidth(to) + 7) / 8);
    return;
  }
  if (from == ElementType::kBF16 && to == ElementType::kF32) {  // bits appended, also to a NaN
    for (size_t i = 0; i < count; ++i) Store(BF16ToF32(Load<uint16_t>(in, i)), out, i);
    return;
  }
  if (to == ElementType::kI4 || to == ElementType::kU4) {
    for (size_t i = 0; i < count; i += 2) {
      const Number high = i + 1 < count ? LoadNumber(from, in, i + 1) : Natural(0);
      StorePair(LoadNumber(from, in, i), high, to, out, i / 2);
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) StoreNumber(LoadNumber(from, in, i), to, out, i);
}

}  // namespace npubank::kernels
