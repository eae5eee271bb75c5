// Leak-test kit for programs that embed a bank: a scope that must leave nothing behind.
//
//   TEST(MyServer, UnloadsAModel) {
//     LeakGuard guard({bank});
//     Owner owner = bank->AddOwner("model");
//     ... load, run ...
//     owner.Release();
//   }  // fails, with the list, if source bytes, device bytes, tensors, owners or leases are left,
//      // or if the books do not agree any more (bank/books/audit.h)
//
// Left is what was not there when the scope began, by three counts that know nothing of each other:
// the bank's books, the device memory's own count, and the bytes that recipes hold in this process.
// A bank with keep_unowned keeps what was dropped: Trim it before the scope ends.
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

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {

// What a bank holds by its own books, and what its device memory counts for all who use it.
struct BankHoldings {
  uint64_t tensors = 0;
  uint64_t owners = 0;
  uint64_t leases = 0;
  uint64_t device_bytes = 0;
  uint64_t device_bytes_counted = 0;

  static BankHoldings Of(const BankSnapshot& snapshot, const AuditReport& audit) {
    BankHoldings holdings;
    holdings.tensors = snapshot.tensors.size();
    holdings.owners = snapshot.owners.size();
    for (const TensorSnapshot& tensor : snapshot.tensors) holdings.leases += tensor.leases;
    holdings.device_bytes = snapshot.device_bytes;
    holdings.device_bytes_counted = audit.device_bytes_counted;
    return holdings;
  }
  friend bool operator==(const BankHoldings&, const BankHoldings&) = default;
};

class LeakGuard {
 public:
  explicit LeakGuard(std::vector<std::shared_ptr<Bank>> banks) : source_bytes_(LiveSourceBytes()) {
    for (std::shared_ptr<Bank>& bank : banks) guarded_.emplace_back(std::move(bank));
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
    for (const Guarded& guarded : guarded_) guarded.Describe(text);
    return text;
  }

 private:
  struct Guarded {
    explicit Guarded(std::shared_ptr<Bank> guarded) : bank(std::move(guarded)) {
      const AuditReport audit = bank->Audit();
      holdings = BankHoldings::Of(bank->Snapshot(), audit);
      other_bytes = holdings.device_bytes_counted - holdings.device_bytes;
      discrepancies = bank->Audit(other_bytes).discrepancies;
    }

    void Describe(std::string& text) const {
      const BankSnapshot snapshot = bank->Snapshot();
      const AuditReport audit = bank->Audit(other_bytes);
      for (const std::string& line : audit.discrepancies) {
        if (absl::c_linear_search(discrepancies, line)) continue;
        absl::StrAppend(&text, "the audit says: ", line, "\n");
      }
      const BankHoldings now = BankHoldings::Of(snapshot, audit);
      if (now == holdings) return;
      const auto compare = [&](const char* what, uint64_t left, uint64_t at_start) {
        absl::StrAppend(&text, what, ": ", left, ", ", at_start, " at the start\n");
      };
      compare("device bytes", now.device_bytes, holdings.device_bytes);
      compare("device bytes that the device memory counts", now.device_bytes_counted,
              holdings.device_bytes_counted);
      compare("tensors", now.tensors, holdings.tensors);
      compare("leases", now.leases, holdings.leases);
      compare("owners", now.owners, holdings.owners);
      absl::StrAppend(&text, "  ", absl::StrJoin(snapshot.owners, ", "), "\n");
      for (const TensorSnapshot& tensor : snapshot.tensors) {
        absl::StrAppend(&text, "  '", tensor.name, "' ", tensor.state, ", ", tensor.device_bytes,
                        " device bytes, ", tensor.leases,
                        " leases, owners: ", absl::StrJoin(tensor.owners, ", "), "\n");
      }
    }

    std::shared_ptr<Bank> bank;
    // At the start.
    BankHoldings holdings;
    uint64_t other_bytes = 0;  // that the device memory counts and the bank does not hold
    std::vector<std::string> discrepancies;
  };

  std::vector<Guarded> guarded_;
  uint64_t source_bytes_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_TESTING_H_
