// Upstream: another bank that may have a weight already, whose pages this process's device can use: a
// daemon that serves the whole machine (bank/service/client/bank_client.h).
//
//   NPUBANK_ASSIGN_OR_RETURN(auto client, service::BankClient::Connect(path));
//   auto bank = Bank::Create(memory, {.upstream = client});
//   ... load ...
//   for (const std::string& notice : client->notices()) ...   // why something did not come from there
//
// A bank asks once for all that a load is missing, before it evaluates anything, and imports what it is
// given; what does not come from there it makes itself, as it would without, and says why in notices():
// a fallback is never silent. It is not asked where the device memory cannot import, for what can
// be imported from its own file, for what has a host copy, nor for what was registered without an
// index (nobody else could find its source).
//
// Ownership: what is leased lives as long as the Source that it is leased as, which the import keeps; it
// is let go when the tensor leaves the device. Threads: every method, from any thread.
#ifndef NPUBANK_BANK_UPSTREAM_H_
#define NPUBANK_BANK_UPSTREAM_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/bank_options.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class Upstream {
 public:
  struct Wanted {
    Description description;
    std::string name;
    Digest digest;
    Digest stamp;
    uint64_t bytes = 0;  // not 0
  };
  // Where the bytes are: complete, and never to change. Null: not to be had.
  struct Leased {
    std::shared_ptr<Source> source;
    uint64_t offset = 0;
  };

  virtual ~Upstream() = default;

  // In words, for messages: "npubankd at /run/user/1000/npubank/socket".
  virtual std::string name() const = 0;
  // One for each that is wanted, in their order; waits until they are made. `load`, in words, is who
  // wants them. Errors concern all of them; Cancelled when the options' `cancelled` says so.
  virtual absl::StatusOr<std::vector<Leased>> Lease(absl::string_view load,
                                                    absl::Span<const Wanted> wanted,
                                                    const LoadOptions& options) = 0;

  // Why something was not leased, or could not be used; each thing once.
  std::vector<std::string> notices() const {
    MutexLock lock(mutex_);
    return notices_;
  }
  void Note(std::string notice) {
    MutexLock lock(mutex_);
    const bool said = std::find(notices_.begin(), notices_.end(), notice) != notices_.end();
    if (!said && notices_.size() < kMostNotices) notices_.push_back(std::move(notice));
  }

 private:
  static constexpr size_t kMostNotices = 100;

  mutable Mutex mutex_;
  std::vector<std::string> notices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank

#endif  // NPUBANK_BANK_UPSTREAM_H_
