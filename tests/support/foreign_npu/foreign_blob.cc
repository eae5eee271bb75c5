#include "npubank/tests/support/foreign_npu/foreign_blob.h"

#include <cstddef>

namespace npubank {
namespace {

constexpr absl::string_view kMagic =
    "\x7f"
    "FRN";
constexpr uint8_t kVeil = 0x5a;  // on every byte behind the magic
constexpr size_t kSumBytes = 4;

void Append(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(number >> (8 * i)));
}

uint32_t SumOf(absl::string_view bytes) {
  uint32_t sum = 1;
  for (char c : bytes) sum = sum * 31 + static_cast<uint8_t>(c);
  return sum;
}

std::string Veiled(absl::string_view bytes) {
  std::string out(bytes);
  for (char& c : out) c = static_cast<char>(static_cast<uint8_t>(c) ^ kVeil);
  return out;
}

// Numbers and names from the front; `good` ends with the first that is not there.
struct Cursor {
  absl::string_view left;
  bool good = true;

  uint64_t Number(size_t bytes) {
    uint64_t number = 0;
    const absl::string_view taken = Take(bytes);
    for (size_t i = 0; i < taken.size(); ++i)
      number |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
    return number;
  }
  absl::string_view Take(size_t bytes) {
    good = good && bytes <= left.size();
    if (!good) return {};
    const absl::string_view taken = left.substr(0, bytes);
    left.remove_prefix(bytes);
    return taken;
  }
};

}  // namespace

std::string WriteForeignBlob(const ForeignBlob& blob) {
  std::string body;
  Append(static_cast<uint64_t>(blob.operation), 1, body);
  Append(blob.arguments.size(), 1, body);
  for (const ForeignArgument& argument : blob.arguments) {
    Append(argument.name.size(), 1, body);
    body += argument.name;
    Append(argument.output ? 1 : 0, 1, body);
    Append(static_cast<uint64_t>(argument.precision), 1, body);
    Append(argument.dims.size(), 1, body);
    for (uint32_t dim : argument.dims) Append(dim, 4, body);
  }
  Append(SumOf(body), kSumBytes, body);
  return std::string(kMagic) + Veiled(body);
}

std::optional<ForeignBlob> ReadForeignBlob(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kMagic.size() + kSumBytes)
    return std::nullopt;
  const std::string body = Veiled(bytes.substr(kMagic.size()));
  Cursor sum{absl::string_view(body).substr(body.size() - kSumBytes)};
  Cursor cursor{absl::string_view(body).substr(0, body.size() - kSumBytes)};
  if (sum.Number(kSumBytes) != SumOf(cursor.left)) return std::nullopt;
  ForeignBlob blob;
  blob.operation = static_cast<ForeignOperation>(cursor.Number(1));
  blob.arguments.resize(cursor.Number(1));
  for (ForeignArgument& argument : blob.arguments) {
    argument.name = std::string(cursor.Take(cursor.Number(1)));
    argument.output = cursor.Number(1) != 0;
    argument.precision = static_cast<level_zero::GraphPrecision>(cursor.Number(1));
    argument.dims.resize(cursor.Number(1));
    for (uint32_t& dim : argument.dims) dim = static_cast<uint32_t>(cursor.Number(4));
  }
  if (!cursor.good || !cursor.left.empty()) return std::nullopt;
  return blob;
}

}  // namespace npubank
