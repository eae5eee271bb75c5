#include "npubank/bank/loading/content.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {
namespace {

using Bytes = std::vector<std::byte>;
constexpr size_t kLarge = (1 << 20) + 12345;

Bytes Mixed(size_t size) {
  Bytes bytes(size);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

Bytes Flipped(Bytes bytes, size_t at) {
  bytes[at] ^= std::byte{1};
  return bytes;
}

// Memory that the host cannot touch, and how much of it was read back.
class CountedMemory : public HostMemory {
 public:
  CountedMemory() : HostMemory({.host_writable = false}) {}
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    bytes_read_ += out.size();
    return HostMemory::Read(memory, offset, out);
  }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::atomic<uint64_t> bytes_read_{0};
};

std::unique_ptr<DeviceAllocation> OnDevice(DeviceMemory& device, const Bytes& bytes) {
  std::unique_ptr<DeviceAllocation> memory = device.Allocate(bytes.size(), "t").value();
  const absl::Status written =
      device.Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
        std::memcpy(out.data(), bytes.data() + offset, out.size());
        return absl::OkStatus();
      });
  EXPECT_TRUE(written.ok()) << written;
  return memory;
}

Digest Sample(DeviceMemory& device, const Bytes& bytes) {
  return SampleContent(device, *OnDevice(device, bytes)).value();
}

TEST(Content, ASampleIsTheSameWhereverTheBytesAre) {
  HostMemory in_place;
  CountedMemory far;
  for (size_t size : {size_t{1}, size_t{511}, size_t{8192}, size_t{8193}, kLarge})
    EXPECT_EQ(Sample(in_place, Mixed(size)), Sample(far, Mixed(size))) << size;
}

TEST(Content, ASampleSeesTheSizeTheFirstByteAndTheLast) {
  HostMemory device;
  for (size_t size : {size_t{2}, size_t{8192}, size_t{8193}, kLarge}) {
    const Digest sample = Sample(device, Mixed(size));
    EXPECT_NE(sample, Sample(device, Flipped(Mixed(size), 0))) << size;
    EXPECT_NE(sample, Sample(device, Flipped(Mixed(size), size - 1))) << size;
  }
  EXPECT_NE(Sample(device, Bytes(kLarge)), Sample(device, Bytes(kLarge - 1)));
}

TEST(Content, ASampleOfASmallTensorSeesEveryByte) {
  HostMemory device;
  const Bytes bytes = Mixed(8192);
  const Digest sample = Sample(device, bytes);
  for (size_t at = 0; at < bytes.size(); at += 61)
    EXPECT_NE(sample, Sample(device, Flipped(bytes, at))) << at;
}

TEST(Content, TheComparisonSeesEveryByteOfALargeTensor) {
  HostMemory in_place;
  CountedMemory far;
  const Bytes bytes = Mixed(kLarge);
  for (DeviceMemory* device :
       {static_cast<DeviceMemory*>(&in_place), static_cast<DeviceMemory*>(&far)}) {
    const auto memory = OnDevice(*device, bytes);
    EXPECT_TRUE(SameContent(*device, *memory, *OnDevice(*device, bytes)).value());
    EXPECT_FALSE(SameContent(*device, *memory, *OnDevice(*device, Mixed(kLarge - 1))).value());
    for (size_t at = 0; at < bytes.size(); at += 99991)
      EXPECT_FALSE(SameContent(*device, *memory, *OnDevice(*device, Flipped(bytes, at))).value())
          << at;
  }
}

LazyTensor Stored(const Bytes& bytes) {
  const TensorType type =
      TensorType::Create(ElementType::kU8,
                         Shape::Create({static_cast<int64_t>(bytes.size())}).value())
          .value();
  return LazyTensor::Constant(Source::FromBuffer(bytes, "weights"), 0, type, "w").value();
}

struct LoadedBank {
  std::shared_ptr<CountedMemory> memory = std::make_shared<CountedMemory>();
  std::shared_ptr<Bank> bank = Bank::Create(memory, {});
  Owner owner = bank->AddOwner("model");

  explicit LoadedBank(const std::vector<Bytes>& tensors) {
    for (const Bytes& bytes : tensors) EXPECT_TRUE(bank->Register(owner, Stored(bytes), "w").ok());
    EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  }
};

TEST(Content, ATensorLikeNoOtherIsHardlyReadBack) {
  const LoadedBank loaded({Mixed(kLarge), Flipped(Mixed(kLarge), 0), Mixed(kLarge - 1)});
  EXPECT_EQ(loaded.memory->Usage().live_allocations, 3u);
  EXPECT_LE(loaded.memory->bytes_read(), 3 * 8192u);
}

TEST(Content, TensorsThatDifferBetweenTheSamplesAreNotShared) {
  const Bytes bytes = Mixed(kLarge);
  HostMemory device;
  ASSERT_EQ(Sample(device, bytes), Sample(device, Flipped(bytes, 5000))) << "a window is there";
  const LoadedBank loaded({bytes, Flipped(bytes, 5000), bytes});
  EXPECT_EQ(loaded.memory->Usage().live_allocations, 2u) << "the first and the last are one";
  EXPECT_TRUE(loaded.bank->Audit().clean());
}

}  // namespace
}  // namespace npubank
