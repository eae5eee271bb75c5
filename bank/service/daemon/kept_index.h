// KeptIndex: what the segments hold that a daemon's service manager keeps for the next one, as a value and
// as bytes, which lie in a sealed segment of their own.
//
//   const std::string bytes = index.Encode();
//   NPUBANK_ASSIGN_OR_RETURN(KeptIndex again, KeptIndex::Decode(bytes));
//
// Decode is for hostile bytes; zeros may follow. What it returns is bounded, and fits together: each
// tensor's type has its bytes, its uid is its digest's, and it lies in a segment of the list, on a page.
// Whether the segments are there, and hold what the index says, is for who has them (kept_segments.h).
// Errors: InvalidArgument; FailedPrecondition for what a daemon of another protocol, recipe codec or result
// revision wrote. Threads: pure functions. Cost: a pass over the bytes.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_KEPT_INDEX_H_
#define NPUBANK_BANK_SERVICE_DAEMON_KEPT_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank::service {

struct KeptIndex {
  static constexpr size_t kMostSegments = 1 << 14;  // names of all have to fit into an environment
  static constexpr size_t kMostTensors = 1 << 20;
  static constexpr uint64_t kMostBytes = 512 << 20;

  struct Tensor {
    AdoptedTensor tensor;
    uint32_t segment = 0;  // less than segments.size()
    uint64_t offset = 0;
    Digest hash;  // of its bytes
  };
  struct Segment {
    uint64_t number = 0;  // each another one
    uint64_t bytes = 0;
  };

  uint64_t number = 0;  // of indexes that one store was given, the one with the highest counts
  std::vector<Segment> segments;
  std::vector<Tensor> tensors;

  std::string Encode(uint32_t result_revision = kResultRevision) const;
  static absl::StatusOr<KeptIndex> Decode(absl::string_view bytes);
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_KEPT_INDEX_H_
