// Leak-test kit for programs that embed a bank: a scope that must leave nothing behind.
//
//   TEST(MyServer, UnloadsAModel) {
//     LeakGuard guard({bank});
//     Owner owner = bank->AddOwner("model");
//     ... load, run ...
//     owner.Release();
//   }  // fails, with the list, if source bytes, device bytes, owners or leases are left
//
// Needs GoogleTest. Ownership: keeps the banks alive. Threads: make and end the scope while nothing
// else loads or runs on these banks. Cost: an audit and a snapshot of each bank, twice.
#ifndef NPUBANK_BANK_TESTING_H_
#define NPUBANK_BANK_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bank/bank.h"
#include "lazy_tensor/retention.h"

namespace npubank {

// What a bank holds, and what has been left since an earlier count of the same bank.
struct BankHoldings {
  uint64_t device_bytes = 0;
  uint64_t owners = 0;
  uint64_t leases = 0;

  static BankHoldings Of(const BankSnapshot& snapshot) {
    BankHoldings holdings;
    holdings.device_bytes = snapshot.device_bytes;
    holdings.owners = snapshot.owners.size();
    for (const TensorSnapshot& tensor : snapshot.tensors) holdings.leases += tensor.leases;
    return holdings;
  }
  friend bool operator==(const BankHoldings& a, const BankHoldings& b) {
    return a.device_bytes == b.device_bytes && a.owners == b.owners && a.leases == b.leases;
  }
};

class LeakGuard {
 public:
  explicit LeakGuard(std::vector<std::shared_ptr<Bank>> banks)
      : banks_(std::move(banks)), source_bytes_(LiveSourceBytes()) {
    for (const std::shared_ptr<Bank>& bank : banks_) {
      before_.push_back(BankHoldings::Of(bank->Snapshot()));
    }
  }
  ~LeakGuard() {
    const std::string leaks = Describe();
    if (!leaks.empty()) ADD_FAILURE() << leaks;
  }
  LeakGuard(const LeakGuard&) = delete;
  LeakGuard& operator=(const LeakGuard&) = delete;

  // What has been left so far, a line each; empty when nothing was.
  std::string Describe() const {
    std::string text;
    if (const uint64_t now = LiveSourceBytes(); now != source_bytes_) {
      absl::StrAppend(&text, "live source bytes: ", now, ", ", source_bytes_, " at the start\n",
                      DescribeHeldSources());
    }
    for (size_t i = 0; i < banks_.size(); ++i) {
      const BankSnapshot snapshot = banks_[i]->Snapshot();
      const BankHoldings now = BankHoldings::Of(snapshot);
      if (now == before_[i]) continue;
      absl::StrAppend(&text, "device bytes: ", now.device_bytes, ", ", before_[i].device_bytes,
                      " at the start\nowners: ", now.owners, ", ", before_[i].owners,
                      " at the start: ", absl::StrJoin(snapshot.owners, ", "),
                      "\nleases: ", now.leases, ", ", before_[i].leases, " at the start\n");
      for (const TensorSnapshot& tensor : snapshot.tensors) {
        absl::StrAppend(&text, "  '", tensor.name, "' ", tensor.state, ", ", tensor.device_bytes,
                        " device bytes, ", tensor.leases,
                        " leases, owners: ", absl::StrJoin(tensor.owners, ", "), "\n");
      }
    }
    return text;
  }

 private:
  std::vector<std::shared_ptr<Bank>> banks_;
  std::vector<BankHoldings> before_;
  uint64_t source_bytes_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_TESTING_H_
