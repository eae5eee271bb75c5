// Content: whether two device allocations hold the same bytes.
//
//   absl::StatusOr<Digest> hash = HashContent(device, *memory);    // finds candidates
//   absl::StatusOr<bool> same = SameContent(device, *a, *b);       // decides
//
//   ContentHash streamed;                                          // the same, of bytes that pass
//   streamed.Add(piece);
//
// A hash alone never decides that two are shared. Reads in place where the host can, else through
// small buffers.
// Threads: any. Cost: one pass over the bytes (both, for SameContent).
#ifndef NPUBANK_BANK_CONTENT_H_
#define NPUBANK_BANK_CONTENT_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bank/device_memory.h"
#include "lazy_tensor/digest.h"

namespace npubank {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  void Add(absl::Span<const std::byte> bytes);
  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

absl::StatusOr<Digest> HashContent(DeviceMemory& device, DeviceAllocation& memory);
absl::StatusOr<bool> SameContent(DeviceMemory& device, DeviceAllocation& a, DeviceAllocation& b);

}  // namespace npubank

#endif  // NPUBANK_BANK_CONTENT_H_
