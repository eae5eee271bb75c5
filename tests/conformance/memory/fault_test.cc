// The driver fails the N-th call, for every N, once and forever: a clean Status, nothing left, and
// the next try works.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tests/conformance/memory/fixture.h"

namespace npubank {
namespace {

class MemoryFault : public MemoryFixture {
 protected:
  // From choosing the strategy to freeing the last tensor. `calls` is how many calls that made, if
  // it succeeded.
  absl::Status LoadAndFree(uint64_t* calls) {
    NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<DeviceMemory> memory, CreateMemory());
    std::vector<Tensor> tensors;
    for (const uint64_t bytes : {100u, 70000u, 2u << 20, 5000u, 262144u, 100u}) {
      NPUBANK_ASSIGN_OR_RETURN(Tensor tensor, Make(*memory, bytes, bytes));
      tensors.push_back(std::move(tensor));
      if (tensors.size() == 3) tensors.erase(tensors.begin());
    }
    software_->pfnCountCalls("", calls);
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);  // what follows only looks
    for (const Tensor& tensor : tensors) ExpectContents(*memory, tensor);
    return absl::OkStatus();
  }

  void FailEveryCall(bool forever) {
    memory_.reset();
    uint64_t failures = 0;
    for (uint64_t n = 1, calls = n; calls >= n; ++n) {
      software_->pfnFailCall("", n, forever, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
      calls = n + 1;
      const absl::Status status = LoadAndFree(&calls);
      ExpectNothingLeft(absl::StrCat("after failing call ", n));
      if (!status.ok()) {
        ++failures;
        EXPECT_FALSE(status.message().empty());
      }
      ASSERT_LT(n, 2000u);
    }
    EXPECT_GT(failures, 0u);
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    uint64_t calls = 0;
    const absl::Status again = LoadAndFree(&calls);
    EXPECT_TRUE(again.ok()) << again;
  }
};

TEST_P(MemoryFault, AnyCallFailingOnceGivesAStatusAndLeavesNothing) { FailEveryCall(false); }

TEST_P(MemoryFault, AnyCallFailingForEverGivesAStatusAndLeavesNothing) { FailEveryCall(true); }

NPUBANK_FOR_EVERY_STRATEGY(MemoryFault);

}  // namespace
}  // namespace npubank
