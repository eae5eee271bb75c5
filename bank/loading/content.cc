#include "npubank/bank/loading/content.h"

// The state of a hash as a member.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 256 << 10;  // two of them stay in a core's cache

// What a sample looks at. Few and long enough that a device which has to be asked for each is asked
// a few times, and that it costs a load nothing.
constexpr uint64_t kWindows = 16;
constexpr uint64_t kWindow = 512;

// Parts of an allocation's bytes, where they are or in a buffer.
class Parts {
 public:
  Parts(DeviceMemory& device, DeviceAllocation& memory)
      : device_(device), memory_(memory), in_place_(memory.host_bytes()) {}

  absl::StatusOr<absl::Span<const std::byte>> At(uint64_t offset, uint64_t size) {
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

absl::StatusOr<Digest> SampleContent(DeviceMemory& device, DeviceAllocation& memory) {
  const uint64_t bytes = memory.bytes();
  ContentHash hash;
  hash.Add(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&bytes), sizeof(bytes)));
  Parts parts(device, memory);
  const bool all = bytes <= kWindows * kWindow;
  const uint64_t size = all ? bytes : kWindow;
  // The first window lies at the beginning, the last one at the end.
  for (uint64_t window = 0; window < (all ? 1 : kWindows); ++window) {
    const uint64_t offset = (bytes - size) * window / (kWindows - 1);
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> part, parts.At(offset, size));
    hash.Add(part);
  }
  return hash.Finish();
}

absl::StatusOr<bool> SameContent(DeviceMemory& device, DeviceAllocation& a, DeviceAllocation& b) {
  if (a.bytes() != b.bytes()) return false;
  Parts parts_a(device, a);
  Parts parts_b(device, b);
  for (uint64_t offset = 0; offset < a.bytes(); offset += kPiece) {
    const uint64_t size = std::min(kPiece, a.bytes() - offset);
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> x, parts_a.At(offset, size));
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> y, parts_b.At(offset, size));
    if (std::memcmp(x.data(), y.data(), size) != 0) return false;
  }
  return true;
}

}  // namespace npubank
