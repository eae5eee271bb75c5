// Content: whether two device allocations hold the same bytes.
//
//   absl::StatusOr<Digest> sample = SampleContent(device, *memory);  // finds candidates
//   absl::StatusOr<bool> same = SameContent(device, *a, *b);         // decides
//
//   ContentHash hash;                                                // of all bytes as they pass by
//   hash.Add(piece);
//
// A digest alone never decides that two are shared. A sample is the size and 16 windows of 512
// bytes, the first, the last and what lies evenly between (all of a small tensor): next to nothing
// for a tensor of any size, and enough to tell weights apart that come from different layers or
// models. Two that differ in other places only are told apart by the comparison, which ends at
// their first difference. Reads in place where the host can, else through small buffers.
// Threads: any. Cost: at most 16 small reads; for SameContent one pass over both.
#ifndef NPUBANK_BANK_LOADING_CONTENT_H_
#define NPUBANK_BANK_LOADING_CONTENT_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/digest.h"

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

absl::StatusOr<Digest> SampleContent(DeviceMemory& device, DeviceAllocation& memory);
absl::StatusOr<bool> SameContent(DeviceMemory& device, DeviceAllocation& a, DeviceAllocation& b);

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADING_CONTENT_H_
