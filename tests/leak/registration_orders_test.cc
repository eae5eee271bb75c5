// Registrations at every moment of another owner's life, the failing wake included, by owners with and
// without a way back: whoever brought a tensor can load it, whatever became of the others.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/testing.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/lazy_tensor/sources/source_opener.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr int64_t kElements = 16;

// When the second owner registers what the first one has.
enum class When {
  kBeforeTheLoad,
  kWhileItIsResident,
  kWhileItSleeps,
  kDuringTheFailingWake,
  kAfterIt
};

struct Order {
  When when = When::kBeforeTheLoad;
  bool first_can_return = false;  // the first owner has a way back
  bool second_can_return = false;
  bool keep_host_copy = false;
  bool first_goes = false;  // before the second loads

  std::string Words() const {
    return absl::StrCat(
        "when ", static_cast<int>(when), first_can_return ? ", first can return" : "",
        second_can_return ? ", second can return" : "", keep_host_copy ? ", with a host copy" : "",
        first_goes ? ", first goes" : "");
  }
};

std::vector<Order> AllOrders() {
  std::vector<Order> orders;
  for (const When when : {When::kBeforeTheLoad, When::kWhileItIsResident, When::kWhileItSleeps,
                          When::kDuringTheFailingWake, When::kAfterIt}) {
    for (int bits = 0; bits < 16; ++bits) {
      orders.push_back({when, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
    }
  }
  return orders;
}

// A file of one tensor, opened by one owner: all of one name are one file to the bank.
struct Opened {
  std::shared_ptr<ScriptedSource> source = ScriptedSource::Make("model", CountingFloats(kElements));
  std::shared_ptr<SourceIndex> index = std::make_shared<SourceIndex>("model");

  Opened() {
    const TensorType type =
        TensorType::Create(ElementType::kF32, Shape::Create({kElements}).value()).value();
    EXPECT_TRUE(index->AddFile(SourceOpener::Held(source)).ok());
    EXPECT_TRUE(index->Add({"w", type, 0, 0}).ok());
  }
  LazyTensor Tensor() const { return LazyTensor::Stored(*index, "w").value(); }
};

class RegistrationOrdersTest : public ::testing::Test {
 protected:
  // Whether the wake read, and failed.
  bool Run(const Order& order) {
    const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
    Opened first, second;
    const LeakGuard guard({bank});
    Owner one = bank->AddOwner("first", {.index = order.first_can_return ? first.index : nullptr});
    Owner two =
        bank->AddOwner("second", {.index = order.second_can_return ? second.index : nullptr});
    const auto reached = [&](When when) {
      if (when != order.when) return;
      EXPECT_EQ(bank->Register(two, second.Tensor(), "w").status(), absl::OkStatus());
    };
    EXPECT_TRUE(bank->Register(one, first.Tensor(), "w").ok());
    reached(When::kBeforeTheLoad);
    EXPECT_EQ(bank->EvaluateAndAllocate(one), absl::OkStatus());
    reached(When::kWhileItIsResident);
    EXPECT_TRUE(bank->Sleep(one, {.keep_host_copy = order.keep_host_copy}).ok());
    reached(When::kWhileItSleeps);
    bool registered = false;
    const auto during = [&] {
      if (!std::exchange(registered, true)) reached(When::kDuringTheFailingWake);
    };
    for (const Opened* opened : {&first, &second}) {
      opened->source->on_read = during;
      opened->source->FailRead(1);
    }
    const bool failed = !bank->EvaluateAndAllocate(one).ok();
    EXPECT_EQ(failed, registered);
    during();  // where nothing had to be read
    reached(When::kAfterIt);
    for (const Opened* opened : {&first, &second}) {
      opened->source->on_read = nullptr;
      opened->source->FailRead(0);
    }
    if (order.first_goes) one.Release();
    const auto leases = bank->Load(two);
    EXPECT_EQ(leases.status(), absl::OkStatus()) << "it brought the tensor itself";
    if (leases.ok()) {
      std::vector<std::byte> bytes(kElements * sizeof(float));
      EXPECT_TRUE(bank->Read((*leases)[0].uid(), 0, absl::MakeSpan(bytes)).ok());
      EXPECT_EQ(bytes, CountingFloats(kElements));
    }
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    return failed;
  }
};

TEST_F(RegistrationOrdersTest, WhoBroughtATensorCanLoadIt) {
  int failed = 0;
  for (const Order& order : AllOrders()) {
    SCOPED_TRACE(order.Words());
    failed += Run(order) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GE(failed, 10) << "else no wake failed, and this proves little";
}

}  // namespace
}  // namespace npubank
