// Digest: the 128-bit structural hash that identifies a recipe. Uid: its 64-bit key in the bank.
//
//   DigestBuilder builder("permute");
//   builder.Add(input.digest()).Add(order);
//   Digest digest = builder.Finish();
//
// Every field goes in with its kind and length, so no two different sequences of Add calls feed the
// hash the same bytes; what is left is the collision chance of a 128-bit hash (XXH3). Stable across
// processes, runs and machines of either byte order.
#ifndef NPUBANK_LAZY_TENSOR_DIGEST_H_
#define NPUBANK_LAZY_TENSOR_DIGEST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace npubank {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  std::string ToHex() const;  // 32 digits
  friend bool operator==(const Digest& a, const Digest& b) {
    return a.high == b.high && a.low == b.low;
  }
  friend bool operator!=(const Digest& a, const Digest& b) { return !(a == b); }
  friend bool operator<(const Digest& a, const Digest& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }
};

// The key of a tensor in the bank: 64 bits of its digest. Two digests may, very rarely, share a
// uid; the bank compares digests and reports that as an error, never as a hit.
struct Uid {
  uint64_t value = 0;
  static Uid Of(const Digest& digest);
  std::string ToHex() const;  // 16 digits
  friend bool operator==(Uid a, Uid b) { return a.value == b.value; }
  friend bool operator!=(Uid a, Uid b) { return a.value != b.value; }
  friend bool operator<(Uid a, Uid b) { return a.value < b.value; }
};

class DigestBuilder {
 public:
  explicit DigestBuilder(absl::string_view kind);  // what is hashed, for example "permute"
  DigestBuilder& Add(int64_t value);
  DigestBuilder& Add(absl::string_view text);
  DigestBuilder& Add(absl::Span<const int64_t> values);
  DigestBuilder& Add(const Digest& digest);
  Digest Finish() const;

 private:
  std::string bytes_;
};

}  // namespace npubank

template <>
struct std::hash<npubank::Uid> {
  size_t operator()(npubank::Uid uid) const noexcept { return static_cast<size_t>(uid.value); }
};

#endif  // NPUBANK_LAZY_TENSOR_DIGEST_H_
