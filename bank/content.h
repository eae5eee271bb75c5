// Content: whether two device allocations hold the same bytes.
//
//   absl::StatusOr<Digest> hash = HashContent(device, *memory);    // finds candidates
//   absl::StatusOr<bool> same = SameContent(device, *a, *b);       // decides
//
// A hash alone never decides. Reads in place where the host can, else through small buffers.
// Threads: any. Cost: one pass over the bytes (both, for SameContent).
#ifndef NPUBANK_BANK_CONTENT_H_
#define NPUBANK_BANK_CONTENT_H_

#include "absl/status/statusor.h"
#include "bank/device_memory.h"
#include "lazy_tensor/digest.h"

namespace npubank {

absl::StatusOr<Digest> HashContent(DeviceMemory& device, DeviceAllocation& memory);
absl::StatusOr<bool> SameContent(DeviceMemory& device, DeviceAllocation& a, DeviceAllocation& b);

}  // namespace npubank

#endif  // NPUBANK_BANK_CONTENT_H_
