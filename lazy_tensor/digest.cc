#include "npubank/lazy_tensor/digest.h"

#include <xxhash.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

// What a field is, written in front of it. Part of every stored digest: never change one.
enum class Field : char { kKind = 'k', kInteger = 'i', kText = 't', kList = 'l', kDigest = 'd' };

void AppendNumber(uint64_t value, std::string& bytes) {
  std::array<char, 8> low_first;
  for (size_t i = 0; i < low_first.size(); ++i) low_first[i] = static_cast<char>(value >> (8 * i));
  bytes.append(low_first.data(), low_first.size());
}

void AppendText(Field field, absl::string_view text, std::string& bytes) {
  bytes.push_back(static_cast<char>(field));
  AppendNumber(text.size(), bytes);
  bytes.append(text.data(), text.size());
}

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

}  // namespace

std::string Digest::ToHex() const { return Hex(high) + Hex(low); }

Uid Uid::Of(const Digest& digest) { return Uid{digest.high}; }

std::string Uid::ToHex() const { return Hex(value); }

DigestBuilder::DigestBuilder(absl::string_view kind) { AppendText(Field::kKind, kind, bytes_); }

DigestBuilder& DigestBuilder::Add(int64_t value) {
  bytes_.push_back(static_cast<char>(Field::kInteger));
  AppendNumber(static_cast<uint64_t>(value), bytes_);
  return *this;
}

DigestBuilder& DigestBuilder::Add(absl::string_view text) {
  AppendText(Field::kText, text, bytes_);
  return *this;
}

DigestBuilder& DigestBuilder::Add(absl::Span<const int64_t> values) {
  bytes_.push_back(static_cast<char>(Field::kList));
  AppendNumber(values.size(), bytes_);
  for (int64_t value : values) AppendNumber(static_cast<uint64_t>(value), bytes_);
  return *this;
}

DigestBuilder& DigestBuilder::Add(const Digest& digest) {
  bytes_.push_back(static_cast<char>(Field::kDigest));
  AppendNumber(digest.high, bytes_);
  AppendNumber(digest.low, bytes_);
  return *this;
}

Digest DigestBuilder::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits(bytes_.data(), bytes_.size());
  return Digest{hash.high64, hash.low64};
}

}  // namespace npubank
