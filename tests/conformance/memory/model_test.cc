// Ten thousand random steps of every memory against a model that only remembers what must be
// where.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "npubank/tests/conformance/memory/fixture.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

constexpr int kSteps = 100'000;
constexpr size_t kMostTensors = 500;  // more than the device has room for
constexpr int kFullCheckEvery = 500;

class MemoryModel : public MemoryFixture {
 protected:
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  // Mostly small, now and then up to the size of a few tiles.
  uint64_t RandomBytes() {
    const uint64_t kind = Below(100);
    if (kind < 50) return 1 + Below(5000);
    if (kind < 85) return 1 + Below(200) * 1024;
    if (kind < 95) return 65536 * (1 + Below(8));
    return imported() ? kFileBytes - Below(4096) : 1 + Below(6 << 20);
  }

  void Step(int step) {
    const uint64_t kind = Below(100);
    if (tensors_.empty() || (kind < 45 && tensors_.size() < kMostTensors)) {
      // Half of them want more than the device does.
      const MemoryHints hints = {.alignment = Below(2) == 0 ? 0 : uint64_t{1} << Below(13)};
      auto tensor = Make(*memory_, RandomBytes(), static_cast<uint64_t>(step), hints);
      if (!tensor.ok()) {
        ASSERT_EQ(tensor.status().code(), absl::StatusCode::kResourceExhausted) << tensor.status();
        ++exhausted_;
        tensors_.resize(tensors_.size() / 2);
        return;
      }
      const auto address = reinterpret_cast<uintptr_t>(tensor->memory->address());
      if (!imported() && hints.alignment > 0) {
        ASSERT_EQ(address % hints.alignment, 0u) << hints.ToString();
      }
      tensors_.push_back(*std::move(tensor));
      return ExpectContents(tensors_.back());
    }
    const size_t at = Below(tensors_.size());
    if (kind < 80) {
      std::swap(tensors_[at], tensors_.back());
      tensors_.pop_back();
    } else if (shared()) {
      ExpectDeviceSees(tensors_[at]);  // its segment is sealed from now on
    } else if (!imported()) {
      const absl::Status status = Write(*memory_, tensors_[at], static_cast<uint64_t>(step));
      ASSERT_TRUE(status.ok()) << status;
      ExpectContents(tensors_[at]);
    }
    if (kind == 79) memory_->Trim();
  }

  void ExpectDisjoint() const {
    if (imported()) return;  // they share pages, and may share bytes
    std::map<const std::byte*, uint64_t> ranges;
    for (const Tensor& tensor : tensors_)
      ranges[static_cast<const std::byte*>(tensor.memory->address())] = tensor.memory->bytes();
    const std::byte* end = nullptr;
    for (const auto& [begin, bytes] : ranges) {
      EXPECT_GE(begin, end);
      end = begin + bytes;
    }
  }

  std::mt19937 random_;
  std::vector<Tensor> tensors_;
  int exhausted_ = 0;
};

TEST_P(MemoryModel, RandomStepsKeepEveryTensorsBytes) {
  random_.seed(PrintedSeed());
  for (int step = 0; step < Repetitions(kSteps); ++step) {
    Step(step);
    if (!tensors_.empty()) ExpectContents(tensors_[Below(tensors_.size())]);
    if (step % kFullCheckEvery == 0) {
      for (const Tensor& tensor : tensors_) ExpectContents(tensor);
      ExpectDisjoint();
      ExpectExactBooks();
    }
    if (HasFailure()) FAIL() << "step " << step;
  }
  std::cout << exhausted_ << " times without room" << std::endl;
  tensors_.clear();
  EXPECT_EQ(memory_->Usage().held_bytes, 0u);
}

NPUBANK_FOR_EVERY_MEMORY(MemoryModel);

}  // namespace
}  // namespace npubank
