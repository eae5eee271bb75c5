#include "npubank/tests/conformance/memory/fixture.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/upload.h"

namespace npubank {
namespace {

// Random bytes that come again after a prime number of them, so that no two pages of a tensor, and
// no two tensors at the same offset, are alike.
constexpr uint64_t kPeriod = 65521;

const std::vector<std::byte>& RandomBytes() {
  static const auto& bytes = *new std::vector<std::byte>([] {
    std::mt19937 random(1);
    std::vector<std::byte> made(kPeriod);
    for (std::byte& byte : made) byte = static_cast<std::byte>(random());
    return made;
  }());
  return bytes;
}

// Calls visit(offset, piece of the pattern) for [0, bytes) in ascending order.
template <typename Visit>
void ForEachPiece(uint64_t seed, uint64_t base, uint64_t bytes, Visit visit) {
  for (uint64_t offset = 0; offset < bytes;) {
    const uint64_t at = (seed * 7919 + base + offset) % kPeriod;
    const uint64_t size = std::min(bytes - offset, kPeriod - at);
    visit(offset, absl::MakeConstSpan(RandomBytes()).subspan(at, size));
    offset += size;
  }
}

void Fill(uint64_t seed, uint64_t base, absl::Span<std::byte> out) {
  ForEachPiece(seed, base, out.size(), [&](uint64_t offset, absl::Span<const std::byte> piece) {
    std::memcpy(out.data() + offset, piece.data(), piece.size());
  });
}

void ExpectPattern(uint64_t seed, uint64_t base, absl::Span<const std::byte> bytes) {
  ForEachPiece(seed, base, bytes.size(), [&](uint64_t offset, absl::Span<const std::byte> piece) {
    EXPECT_EQ(std::memcmp(bytes.data() + offset, piece.data(), piece.size()), 0)
        << "a tensor of " << bytes.size() << " bytes is wrong at " << offset << " or soon after";
  });
}

}  // namespace

std::string StrategyTestName(const ::testing::TestParamInfo<MemoryStrategy>& info) {
  return std::string(MemoryStrategyName(info.param));
}

void MemoryFixture::SetUp() {
  auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
  ASSERT_TRUE(device.ok()) << device.status();
  device_ = *std::move(device);
  software_ = device_->software();
  ASSERT_NE(software_, nullptr) << "not the software NPU";
  software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  software_->pfnResetPeak();
  auto memory = CreateMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  memory_ = *std::move(memory);
  const bool supported = imported() ? memory_->imports() : memory_->strategy() == GetParam();
  if (!supported) {
    ASSERT_FALSE(notices_.empty()) << "a fallback must be said";
    std::cout << "[UNSUPPORTED] " << MemoryStrategyName(GetParam())
              << (device_->integrated() ? ", host-writable: " : ", not host-writable: ")
              << notices_.back() << std::endl;
    GTEST_SKIP() << notices_.back();
  }
  if (!imported()) return;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<std::byte> bytes(kFileBytes);
    Fill(seed, 0, absl::MakeSpan(bytes));
    files_.emplace_back(bytes);
    auto source = Source::OpenFile(files_.back().path());
    ASSERT_TRUE(source.ok()) << source.status();
    sources_.push_back(*std::move(source));
  }
}

void MemoryFixture::TearDown() {
  if (!software_) return;
  software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  memory_.reset();
  ExpectNothingLeft("at the end");
  device_.reset();
  EXPECT_EQ(Driver().live_contexts, 0u);
}

absl::StatusOr<std::shared_ptr<NpuMemory>> MemoryFixture::CreateMemory() {
  NpuMemoryOptions options;
  options.strategy = GetParam();
  options.notice = [this](absl::string_view text) { notices_.emplace_back(std::string(text)); };
  return NpuMemory::Create(device_, std::move(options));
}

absl::StatusOr<MemoryFixture::Tensor> MemoryFixture::Make(NpuMemory& memory, uint64_t bytes,
                                                          uint64_t seed) {
  Tensor tensor;
  if (imported()) {
    tensor.base = bytes < kFileBytes ? seed * 4096 % (kFileBytes - bytes) / 64 * 64 : 0;
    tensor.seed = seed % sources_.size();
    NPUBANK_ASSIGN_OR_RETURN(tensor.memory,
                             memory.Import(sources_[tensor.seed], tensor.base, bytes, "tensor"));
    return tensor;
  }
  NPUBANK_ASSIGN_OR_RETURN(tensor.memory, memory.Allocate(bytes, "tensor"));
  NPUBANK_RETURN_IF_ERROR(Write(memory, tensor, seed));
  return tensor;
}

absl::Status MemoryFixture::Write(NpuMemory& memory, Tensor& tensor, uint64_t seed) {
  tensor.seed = seed;
  return memory.Write(*tensor.memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    Fill(seed, tensor.base + offset, out);
    return absl::OkStatus();
  });
}

void MemoryFixture::ExpectContents(NpuMemory& memory, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.memory->bytes());
  const absl::Status status = memory.Read(*tensor.memory, 0, absl::MakeSpan(bytes));
  ASSERT_TRUE(status.ok()) << status;
  ExpectPattern(tensor.seed, tensor.base, bytes);
}

void MemoryFixture::ExpectDeviceSees(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.memory->bytes());
  Staging staging(device_, std::make_shared<Accounting>(), [] {});
  const absl::Status status = staging.Download(tensor.memory->address(), absl::MakeSpan(bytes));
  ASSERT_TRUE(status.ok()) << status;
  ExpectPattern(tensor.seed, tensor.base, bytes);
}

void MemoryFixture::ExpectExactBooks() {
  const DeviceUsage usage = memory_->Usage();
  EXPECT_GE(usage.held_bytes, usage.live_bytes);
  EXPECT_EQ(usage.held_bytes, Driver().live_bytes);
  EXPECT_EQ(*memory_->DriverBytes(), Driver().counted_bytes);
}

}  // namespace npubank
