#include "bank/content.h"

// The state of a hash as a member.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 256 << 10;  // two of them stay in a core's cache

// Walks over an allocation's bytes a piece at a time.
class Pieces {
 public:
  Pieces(DeviceMemory& device, DeviceAllocation& memory)
      : device_(device), memory_(memory), in_place_(memory.host_bytes()) {}

  absl::StatusOr<absl::Span<const std::byte>> At(uint64_t offset) {
    const uint64_t size = std::min(kPiece, memory_.bytes() - offset);
    if (!in_place_.empty()) return in_place_.subspan(offset, size);
    buffer_.resize(size);
    NPUBANK_RETURN_IF_ERROR(device_.Read(memory_, offset, absl::MakeSpan(buffer_)));
    return buffer_;
  }

 private:
  DeviceMemory& device_;
  DeviceAllocation& memory_;
  absl::Span<const std::byte> in_place_;
  std::vector<std::byte> buffer_;
};

}  // namespace

struct alignas(64) ContentHash::State {  // as XXH3 wants it
  XXH3_state_t xxh3;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh3);
}
ContentHash::~ContentHash() = default;

void ContentHash::Add(absl::Span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

Digest ContentHash::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return Digest{hash.high64, hash.low64};
}

absl::StatusOr<Digest> HashContent(DeviceMemory& device, DeviceAllocation& memory) {
  ContentHash hash;
  Pieces pieces(device, memory);
  for (uint64_t offset = 0; offset < memory.bytes(); offset += kPiece) {
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> piece, pieces.At(offset));
    hash.Add(piece);
  }
  return hash.Finish();
}

absl::StatusOr<bool> SameContent(DeviceMemory& device, DeviceAllocation& a, DeviceAllocation& b) {
  if (a.bytes() != b.bytes()) return false;
  Pieces pieces_a(device, a);
  Pieces pieces_b(device, b);
  for (uint64_t offset = 0; offset < a.bytes(); offset += kPiece) {
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> x, pieces_a.At(offset));
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> y, pieces_b.At(offset));
    if (std::memcmp(x.data(), y.data(), x.size()) != 0) return false;
  }
  return true;
}

}  // namespace npubank
