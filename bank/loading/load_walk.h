// LoadWalk: one load of one or several owners: they wake, what it needs is planned, it is admitted as
// a whole, and then each tensor is made resident and leased.
//
//   LoadWalk walk(registry, sleepers, loader, owners);
//   NPUBANK_RETURN_IF_ERROR(walk.Run(options));
//   return walk.TakeLeases();
//
// The load lasts until the walk goes, and its leases go before it ends, unless they were taken: a
// load that waits for this one to end finds idle what its caller did not want to keep.
// Errors and contract: Bank::Load. Threads: one at a time.
#ifndef NPUBANK_BANK_LOADING_LOAD_WALK_H_
#define NPUBANK_BANK_LOADING_LOAD_WALK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/bank_options.h"
#include "npubank/bank/books/registry.h"
#include "npubank/bank/books/sleepers.h"
#include "npubank/bank/lease.h"
#include "npubank/bank/loading/loader.h"
#include "npubank/bank/owner.h"

namespace npubank {

class LoadWalk {
 public:
  LoadWalk(const Registry& registry, const Sleepers& sleepers, const Loader& loader,
           absl::Span<const Owner* const> owners);

  absl::Status Run(const LoadOptions& options);
  std::vector<Lease> TakeLeases() { return std::move(load_.leases); }

 private:
  // Owner after owner, each in the order it registered; each tensor once.
  absl::Status FindTensors();
  absl::Status Admit(const LoadOptions& options);
  absl::Status Walk(const LoadOptions& options);
  // `status`, unless it came about because an owner was released.
  absl::Status UnlessReleased(const absl::Status& status, absl::string_view when) const;

  const Registry& registry_;
  const Sleepers& sleepers_;
  const Loader& loader_;
  std::vector<uint64_t> owners_;
  std::string what_;  // a description of the load
  std::vector<OwnedTensor> tensors_;
  AdmittedLoad load_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADING_LOAD_WALK_H_
