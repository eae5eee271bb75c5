#include "npubank/tests/conformance/memory/fixture.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/service/shared_memory.h"
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

// As NPUBANK_NPU_CAPACITY is given to the software NPU: megabytes here.
uint64_t CapacityOfTheSuite() {
  const char* const text = std::getenv("NPUBANK_NPU_CAPACITY");
  return text == nullptr ? uint64_t{1} << 40 : std::strtoull(text, nullptr, 10) << 20;
}

MemoryStrategy StrategyOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kCommitted:
      return MemoryStrategy::kCommitted;
    case MemoryKind::kPlaced:
      return MemoryStrategy::kPlaced;
    case MemoryKind::kTiled:
      return MemoryStrategy::kTiled;
    default:
      return MemoryStrategy::kImported;
  }
}

// Of this process, open and mapped.
std::vector<std::string> SharedSegments() {
  std::vector<std::string> segments;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    std::string target = std::filesystem::read_symlink(file.path(), closed_meanwhile).string();
    if (absl::StartsWith(target, "/memfd:npubank:")) segments.push_back(std::move(target));
  }
  return segments;
}

}  // namespace

std::string MemoryTestName(const ::testing::TestParamInfo<MemoryKind>& info) {
  if (info.param == MemoryKind::kShared) return "shared";
  return std::string(MemoryStrategyName(StrategyOf(info.param)));
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
  if (shared()) return;
  const bool supported =
      imported() ? npu_memory().imports() : npu_memory().strategy() == StrategyOf(GetParam());
  if (!supported) {
    ASSERT_FALSE(notices_.empty()) << "a fallback must be said";
    std::cout << "[UNSUPPORTED] " << MemoryStrategyName(StrategyOf(GetParam()))
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

absl::StatusOr<std::shared_ptr<DeviceMemory>> MemoryFixture::CreateMemory() {
  if (shared()) return service::SharedMemory::Create({.capacity = CapacityOfTheSuite()});
  NpuMemoryOptions options;
  options.strategy = StrategyOf(GetParam());
  options.notice = [this](absl::string_view text) { notices_.emplace_back(std::string(text)); };
  return NpuMemory::Create(device_, std::move(options));
}

absl::StatusOr<MemoryFixture::Tensor> MemoryFixture::Make(DeviceMemory& memory, uint64_t bytes,
                                                          uint64_t seed,
                                                          const MemoryHints& hints) {
  Tensor tensor;
  if (imported()) {
    tensor.base = bytes < kFileBytes ? seed * 4096 % (kFileBytes - bytes) / 64 * 64 : 0;
    tensor.seed = seed % sources_.size();
    NPUBANK_ASSIGN_OR_RETURN(tensor.memory,
                             memory.Import(sources_[tensor.seed], tensor.base, bytes, "tensor"));
    return tensor;
  }
  NPUBANK_ASSIGN_OR_RETURN(tensor.memory, memory.AllocateAs(bytes, "tensor", hints));
  NPUBANK_RETURN_IF_ERROR(Write(memory, tensor, seed));
  return tensor;
}

absl::Status MemoryFixture::Write(DeviceMemory& memory, Tensor& tensor, uint64_t seed) {
  tensor.seed = seed;
  return memory.Write(*tensor.memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    Fill(seed, tensor.base + offset, out);
    return absl::OkStatus();
  });
}

void MemoryFixture::ExpectContents(DeviceMemory& memory, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.memory->bytes());
  const absl::Status status = memory.Read(*tensor.memory, 0, absl::MakeSpan(bytes));
  ASSERT_TRUE(status.ok()) << status;
  ExpectPattern(tensor.seed, tensor.base, bytes);
}

void MemoryFixture::ExpectDeviceSees(const Tensor& tensor) {
  if (shared()) return ExpectAnotherProcessSees(tensor);
  std::vector<std::byte> bytes(tensor.memory->bytes());
  Staging staging(device_, std::make_shared<Accounting>(), [] {});
  const absl::Status status = staging.Download(tensor.memory->address(), absl::MakeSpan(bytes));
  ASSERT_TRUE(status.ok()) << status;
  ExpectPattern(tensor.seed, tensor.base, bytes);
}

void MemoryFixture::ExpectAnotherProcessSees(const Tensor& tensor) {
  const FileRange* const range = tensor.memory->file();
  ASSERT_NE(range, nullptr);
  auto segment = static_cast<service::SharedMemory&>(*memory_).SealedSegment(*range);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const auto theirs = (*segment)->OpenForReading();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  void* const mapped = mmap(nullptr, range->bytes, PROT_READ, MAP_SHARED, theirs->get(),
                            static_cast<off_t>(range->offset));
  ASSERT_NE(mapped, MAP_FAILED);
  ExpectPattern(tensor.seed, tensor.base,
                absl::MakeConstSpan(static_cast<const std::byte*>(mapped), range->bytes));
  munmap(mapped, range->bytes);
}

void MemoryFixture::ExpectExactBooks() {
  const DeviceUsage usage = memory_->Usage();
  EXPECT_GE(usage.held_bytes, usage.live_bytes);
  if (shared()) {
    EXPECT_EQ(usage.held_bytes, *memory_->DriverBytes()) << "what the system counts";
    return;
  }
  EXPECT_EQ(usage.held_bytes, Driver().live_bytes);
  EXPECT_EQ(*memory_->DriverBytes(), Driver().counted_bytes);
}

void MemoryFixture::ExpectNothingLeft(const std::string& when) const {
  npubank::ExpectNothingLeft(*software_, when);
  EXPECT_THAT(SharedSegments(), ::testing::IsEmpty()) << when;
}

}  // namespace npubank
