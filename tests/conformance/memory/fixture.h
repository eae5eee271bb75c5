// MemoryFixture: one kind of device memory: a strategy on the software NPU, opened through the real
// loader, or the shared memory of npubankd.
//
//   TEST_P(MemoryConformance, ...) { auto tensor = Make(4096); ... ExpectContents(*tensor); }
//
// What the driver can do comes from the environment (runtime/software_npu/README.md), so the same
// program is run several times. Where the driver cannot do what the strategy needs, that is said in
// a line of its own and the test is skipped with the reason; that a reason was given is checked.
// TearDown demands that the driver itself counts nothing left, and the system no shared memory.
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

enum class MemoryKind { kCommitted, kPlaced, kTiled, kImported, kShared };

class MemoryFixture : public ::testing::TestWithParam<MemoryKind> {
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

  bool imported() const { return GetParam() == MemoryKind::kImported; }
  bool shared() const { return GetParam() == MemoryKind::kShared; }
  absl::StatusOr<std::shared_ptr<DeviceMemory>> CreateMemory();
  NpuMemory& npu_memory() { return static_cast<NpuMemory&>(*memory_); }

  // Allocates where `hints` say, and writes; or imports from one of the files, if that is the strategy: then
  // `bytes` are at most kFileBytes, and the hints are not for it.
  absl::StatusOr<Tensor> Make(DeviceMemory& memory, uint64_t bytes, uint64_t seed,
                              const MemoryHints& hints = {});
  absl::StatusOr<Tensor> Make(uint64_t bytes, uint64_t seed = 1) {
    return Make(*memory_, bytes, seed);
  }
  static absl::Status Write(DeviceMemory& memory, Tensor& tensor, uint64_t seed);

  // Reads as the bank would; and as a command of the device sees it, or another process.
  void ExpectContents(DeviceMemory& memory, const Tensor& tensor);
  void ExpectContents(const Tensor& tensor) { ExpectContents(*memory_, tensor); }
  void ExpectDeviceSees(const Tensor& tensor);
  void ExpectAnotherProcessSees(const Tensor& tensor);
  // The books agree with the driver.
  void ExpectExactBooks();

  level_zero::SoftwareNpuStatistics Driver() const { return DriverStatistics(*software_); }
  void ExpectNothingLeft(const std::string& when) const;

  std::shared_ptr<level_zero::Device> device_;
  const level_zero::SoftwareNpuExtension* software_ = nullptr;
  std::shared_ptr<DeviceMemory> memory_;
  std::vector<std::string> notices_;
  std::vector<testing::TemporaryFile> files_;
  std::vector<std::shared_ptr<Source>> sources_;
};

std::string MemoryTestName(const ::testing::TestParamInfo<MemoryKind>& info);

// Every kind, and those of an NPU only; the names appear in the tests'.
#define NPUBANK_FOR_EVERY_MEMORY(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(                                                              \
      Every, suite,                                                                      \
      ::testing::Values(MemoryKind::kCommitted, MemoryKind::kPlaced, MemoryKind::kTiled, \
                        MemoryKind::kImported, MemoryKind::kShared),                     \
      MemoryTestName)
#define NPUBANK_FOR_EVERY_STRATEGY(suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(Every, suite,                                                  \
                           ::testing::Values(MemoryKind::kCommitted, MemoryKind::kPlaced, \
                                             MemoryKind::kTiled, MemoryKind::kImported),  \
                           MemoryTestName)

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_MEMORY_FIXTURE_H_
