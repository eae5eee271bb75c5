// MemoryFixture: one strategy of device memory on the software NPU, opened through the real loader.
//
//   TEST_P(MemoryConformance, ...) { auto tensor = Make(4096); ... ExpectContents(*tensor); }
//
// What the driver can do comes from the environment (runtime/software_npu/README.md), so the same
// program is run several times. Where the driver cannot do what the strategy needs, that is said in
// a line of its own and the test is skipped with the reason; that a reason was given is checked.
// TearDown demands that the driver itself counts nothing left.
#ifndef NPUBANK_TESTS_CONFORMANCE_MEMORY_FIXTURE_H_
#define NPUBANK_TESTS_CONFORMANCE_MEMORY_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank {

class MemoryFixture : public ::testing::TestWithParam<MemoryStrategy> {
 protected:
  // A tensor and what it must hold: the pattern of `seed` from `base` on.
  struct Tensor {
    std::unique_ptr<DeviceAllocation> memory;
    uint64_t seed = 0;
    uint64_t base = 0;
  };

  static constexpr uint64_t kFileBytes = (2 << 20) + 1234;

  void SetUp() override;
  void TearDown() override;

  bool imported() const { return GetParam() == MemoryStrategy::kImported; }
  absl::StatusOr<std::shared_ptr<NpuMemory>> CreateMemory();

  // Allocates and writes; or imports from one of the files, if that is the strategy: then `bytes`
  // are at most kFileBytes.
  absl::StatusOr<Tensor> Make(NpuMemory& memory, uint64_t bytes, uint64_t seed);
  absl::StatusOr<Tensor> Make(uint64_t bytes, uint64_t seed = 1) {
    return Make(*memory_, bytes, seed);
  }
  static absl::Status Write(NpuMemory& memory, Tensor& tensor, uint64_t seed);

  // Reads as the bank would; and as a command of the device sees it.
  void ExpectContents(NpuMemory& memory, const Tensor& tensor);
  void ExpectContents(const Tensor& tensor) { ExpectContents(*memory_, tensor); }
  void ExpectDeviceSees(const Tensor& tensor);
  // The books agree with the driver.
  void ExpectExactBooks();

  level_zero::SoftwareNpuStatistics Driver() const { return DriverStatistics(*software_); }
  void ExpectNothingLeft(const std::string& when) const {
    npubank::ExpectNothingLeft(*software_, when);
  }

  std::shared_ptr<level_zero::Device> device_;
  const level_zero::SoftwareNpuExtension* software_ = nullptr;
  std::shared_ptr<NpuMemory> memory_;
  std::vector<std::string> notices_;
  std::vector<testing::TemporaryFile> files_;
  std::vector<std::shared_ptr<Source>> sources_;
};

std::string StrategyTestName(const ::testing::TestParamInfo<MemoryStrategy>& info);

// Every strategy; the names appear in the tests'.
#define NPUBANK_FOR_EVERY_STRATEGY(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Every, suite,                                                          \
                           ::testing::Values(MemoryStrategy::kCommitted, MemoryStrategy::kPlaced, \
                                             MemoryStrategy::kTiled, MemoryStrategy::kImported),  \
                           StrategyTestName)

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_MEMORY_FIXTURE_H_
