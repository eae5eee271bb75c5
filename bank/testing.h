// Leak-test kit for programs that embed a bank: a scope that must leave nothing behind.
//
//   TEST(MyServer, UnloadsAModel) {
//     LeakGuard guard({bank});
//     Owner owner = bank->AddOwner("model");
//     ... load, run ...
//     owner.Release();
//   }  // fails, and names each thing, if anything is left that was not there when the scope began,
//      // or if the books do not agree any more (bank/books/audit.h)
//
// What is compared is what there is, not how much (inventory.h): tensors by uid, owners and leases of the
// banks; sources, indexes, host copies, cache drafts and a driver's objects that are alive; the files that this
// process has mapped or open. So one thing in another's place is seen as well.
// What is made in the scope and lives on counts as left: make what stays before the guard.
// A bank with keep_unowned keeps what was dropped: Trim it before the scope ends.
//
// Needs GoogleTest. Ownership: keeps the banks alive. Threads: make and end the scope while nothing
// else loads or runs on these banks. Cost: an audit and an inventory, twice.
#ifndef NPUBANK_BANK_TESTING_H_
#define NPUBANK_BANK_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/inventory.h"

namespace npubank {

class LeakGuard {
 public:
  explicit LeakGuard(std::vector<std::shared_ptr<Bank>> banks) : banks_(std::move(banks)) {
    for (const std::shared_ptr<Bank>& bank : banks_) {
      const AuditReport audit = bank->Audit();
      const uint64_t others = audit.device_bytes_counted - audit.device_bytes_booked;
      audits_.push_back({others, bank->Audit(others).discrepancies});
    }
    inventory_ = TakeInventory(banks_);
  }
  ~LeakGuard() {
    const std::string leaks = Describe();
    if (!leaks.empty()) ADD_FAILURE() << leaks;
  }
  LeakGuard(const LeakGuard&) = delete;
  LeakGuard& operator=(const LeakGuard&) = delete;

  // What has been left so far, a line each; empty when nothing was.
  std::string Describe() const {
    std::string text = DescribeChanges(inventory_, TakeInventory(banks_));
    for (size_t i = 0; i < banks_.size(); ++i) {
      for (const std::string& line : banks_[i]->Audit(audits_[i].other_bytes).discrepancies) {
        if (absl::c_linear_search(audits_[i].discrepancies, line)) continue;
        absl::StrAppend(&text, "the audit says: ", line, "\n");
      }
    }
    return text;
  }

 private:
  // At the start.
  struct Audited {
    uint64_t other_bytes = 0;  // that the device memory counts and the bank does not hold
    std::vector<std::string> discrepancies;
  };

  const std::vector<std::shared_ptr<Bank>> banks_;
  std::vector<Audited> audits_;
  Inventory inventory_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_TESTING_H_
