// A device memory that misbehaves is not believed: each way in which it can is refused by name,
// nothing is published, and the bank's next try is a new one.
#include "npubank/bank/checked_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

// Something of an allocation is not what it is.
class Distorted final : public DeviceAllocation {
 public:
  explicit Distorted(std::unique_ptr<DeviceAllocation> inner)
      : inner_(std::move(inner)),
        at(inner_->address()),
        size(inner_->bytes()),
        reserved(inner_->reserved_bytes()) {}
  void* address() const override { return at; }
  uint64_t bytes() const override { return size; }
  uint64_t reserved_bytes() const override { return reserved; }
  absl::string_view strategy() const override { return "distorted"; }
  absl::Span<std::byte> host_bytes() override { return {}; }

 private:
  std::unique_ptr<DeviceAllocation> inner_;

 public:
  void* at;
  uint64_t size;
  uint64_t reserved;
};

// Behaves, but for what is set.
class Misbehaving final : public DeviceMemory {
 public:
  using Allocated = absl::StatusOr<std::unique_ptr<DeviceAllocation>>;
  std::function<Allocated(std::unique_ptr<Distorted>)> on_allocate;
  std::function<absl::Status(absl::Span<std::byte> bytes, ProduceBytes produce)> on_write;

  std::string name() const override { return "crooked"; }
  Allocated Allocate(uint64_t bytes, absl::string_view name) override {
    NPUBANK_ASSIGN_OR_RETURN(auto inner, memory_.Allocate(bytes, name));
    if (!on_allocate) return inner;
    return on_allocate(std::make_unique<Distorted>(std::move(inner)));
  }
  absl::Status CheckHints(const MemoryHints&) const override { return absl::OkStatus(); }
  Allocated Import(std::shared_ptr<Source>, uint64_t, uint64_t bytes,
                   absl::string_view name) override {
    return Allocate(bytes, name);
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    if (on_write) return on_write(memory.host_bytes(), produce);
    return memory_.Write(memory, produce);
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    return memory_.Read(memory, offset, out);
  }
  DeviceUsage Usage() const override { return memory_.Usage(); }
  absl::StatusOr<uint64_t> DriverBytes() const override { return memory_.DriverBytes(); }

 private:
  HostMemory memory_;
};

class CheckedMemoryTest : public ::testing::Test {
 protected:
  // Loads a tensor of 256 bytes, which must be refused so, and again when the memory behaves.
  void ExpectRefused(const std::string& seen, const MemoryHints& hints = {}) {
    auto bank = Bank::Create(crooked_, {});
    Owner owner = bank->AddOwner("demo");
    const auto source = Source::FromBuffer(CountingFloats(64), "numbers");
    const LazyTensor tensor = VectorsOver(source, 64)[0];
    const Uid uid = tensor.uid();
    ASSERT_TRUE(bank->Register(owner, tensor, "layers.0.wq", hints).ok());
    const absl::Status status = bank->EvaluateAndAllocate(owner);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(status.message(), HasSubstr("'crooked'"));
    EXPECT_THAT(status.message(), HasSubstr("layers.0.wq"));
    EXPECT_THAT(status.message(), HasSubstr(seen));
    EXPECT_EQ(bank->Totals().resident_bytes, 0u);
    EXPECT_EQ(crooked_->Usage().live_bytes, 0u) << "nothing stays allocated";
    EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();

    crooked_->on_allocate = nullptr;
    crooked_->on_write = nullptr;
    EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok()) << "it can be tried again";
    std::vector<std::byte> bytes(256);
    ASSERT_TRUE(bank->Read(uid, 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, CountingFloats(64));
  }

  using Allocated = Misbehaving::Allocated;
  const std::shared_ptr<Misbehaving> crooked_ = std::make_shared<Misbehaving>();
};

TEST_F(CheckedMemoryTest, AnAllocationThatIsNull) {
  crooked_->on_allocate = [](auto) -> Allocated { return nullptr; };
  ExpectRefused("came without an allocation");
}

TEST_F(CheckedMemoryTest, AnAllocationWithoutAnAddress) {
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->at = nullptr;
    return memory;
  };
  ExpectRefused("came without an address");
}

TEST_F(CheckedMemoryTest, AnAllocationAtAnAddressThatTheDeviceCannotTake) {
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->at = static_cast<std::byte*>(memory->at) + 32;
    return memory;
  };
  ExpectRefused("no multiple of 64");
}

TEST_F(CheckedMemoryTest, AnAllocationAtAnAddressThatItsHintsDoNotTake) {
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->at = static_cast<std::byte*>(memory->at) + 64;
    return memory;
  };
  ExpectRefused("no multiple of 128", {.alignment = 128});
}

TEST_F(CheckedMemoryTest, AnAllocationOfFewerBytes) {
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->size = 128;
    return memory;
  };
  ExpectRefused("came as 128");
}

TEST_F(CheckedMemoryTest, AnAllocationThatCostsLessThanItHas) {
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->reserved = 128;
    return memory;
  };
  ExpectRefused("came as 128 reserved ones");
}

TEST_F(CheckedMemoryTest, AWriteThatAsksForNothing) {
  crooked_->on_write = [](auto, auto) { return absl::OkStatus(); };
  ExpectRefused("returned when it had asked for 0");
}

TEST_F(CheckedMemoryTest, AWriteThatAsksForHalf) {
  crooked_->on_write = [](auto bytes, auto produce) { return produce(0, bytes.subspan(0, 128)); };
  ExpectRefused("returned when it had asked for 128");
}

TEST_F(CheckedMemoryTest, AWriteThatLeavesAGap) {
  crooked_->on_write = [](auto bytes, auto produce) {
    NPUBANK_RETURN_IF_ERROR(produce(0, bytes.subspan(0, 64)));
    return produce(128, bytes.subspan(128, 128));
  };
  ExpectRefused("asked for 128 at 128 when it had 64");
}

TEST_F(CheckedMemoryTest, AWriteThatAsksForTheSameBytesTwice) {
  crooked_->on_write = [](auto bytes, auto produce) {
    NPUBANK_RETURN_IF_ERROR(produce(0, bytes));
    return produce(0, bytes);
  };
  ExpectRefused("asked for 256 at 0 when it had 256");
}

TEST_F(CheckedMemoryTest, AWriteThatAsksForMoreThanThereIs) {
  crooked_->on_write = [](auto, auto produce) {
    std::vector<std::byte> more(512);
    return produce(0, absl::MakeSpan(more));
  };
  ExpectRefused("asked for 512 at 0 when it had 0");
}

TEST_F(CheckedMemoryTest, AWriteThatAsksTheBankForWhatItWritesIsRefusedAndDoesNotHang) {
  auto bank = Bank::Create(crooked_, {});
  Owner owner = bank->AddOwner("demo");
  const auto source = Source::FromBuffer(CountingFloats(64), "numbers");
  const LazyTensor tensor = VectorsOver(source, 64)[0];
  const Uid uid = tensor.uid();
  ASSERT_TRUE(bank->Register(owner, tensor, "layers.0.wq").ok());
  crooked_->on_write = [&](auto, auto) { return bank->Get(uid).status(); };
  const absl::Status status = bank->EvaluateAndAllocate(owner);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("layers.0.wq"));
  EXPECT_EQ(crooked_->Usage().live_bytes, 0u);
  crooked_->on_write = nullptr;
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
}

TEST_F(CheckedMemoryTest, AnErrorThatAWriteKeepsToItselfComesBackAllTheSame) {
  const auto memory = std::make_shared<Misbehaving>();
  CheckedMemory checked(memory);
  memory->on_write = [](auto bytes, auto produce) {
    produce(0, bytes).IgnoreError();
    return absl::OkStatus();
  };
  auto allocation = checked.Allocate(256, "wq");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const auto produce = [](uint64_t, absl::Span<std::byte>) {
    return absl::DataLossError("the file shrank");
  };
  EXPECT_EQ(checked.Write(**allocation, produce), absl::DataLossError("the file shrank"));
}

TEST_F(CheckedMemoryTest, AnImportIsCheckedAsAnAllocationIs) {
  CheckedMemory checked(crooked_);
  const auto source = Source::FromBuffer(CountingFloats(64), "numbers");
  crooked_->on_allocate = [](auto) -> Allocated { return nullptr; };
  EXPECT_EQ(checked.Import(source, 0, 256, "wq").status().code(), absl::StatusCode::kInternal);
  crooked_->on_allocate = [](auto memory) -> Allocated {
    memory->reserved = 0;  // an import costs nothing
    return memory;
  };
  EXPECT_TRUE(checked.Import(source, 0, 256, "wq").ok());
}

TEST_F(CheckedMemoryTest, BanksOnOneMemoryStillKnowEachOther) {
  auto first = Bank::Create(crooked_, {});
  auto second = Bank::Create(crooked_, {});
  Owner owner = second->AddOwner("other");
  const auto source = Source::FromBuffer(CountingFloats(64), "numbers");
  ASSERT_TRUE(second->Register(owner, VectorsOver(source, 64)[0], "wq").ok());
  ASSERT_TRUE(second->EvaluateAndAllocate(owner).ok());
  const Bank* const neighbours[] = {second.get()};
  EXPECT_TRUE(first->Audit(0, neighbours).clean()) << first->Audit(0, neighbours).ToString();
}

}  // namespace
}  // namespace npubank
