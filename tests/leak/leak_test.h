// What the leak tests share: a device to run on, submodels over one checkpoint, and three
// independent counts.
//
// The tests name no device: each program that is built from them defines DevicesUnderTest(), so
// that the same tests run on host memory and on Level Zero memory.
#ifndef NPUBANK_TESTS_LEAK_LEAK_TEST_H_
#define NPUBANK_TESTS_LEAK_LEAK_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/testing.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {

// What the device itself has given out. On the software NPU its driver says so, which knows nothing
// of our books.
struct DeviceCount {
  uint64_t bytes = 0;
  uint64_t allocations = 0;
};

// Memory in which each tensor is one allocation of whole pages.
struct TestDevice {
  static constexpr uint64_t kPage = 4096;
  std::shared_ptr<DeviceMemory> memory;
  std::function<DeviceCount()> count;
};

struct DeviceUnderTest {
  std::string name;
  std::function<TestDevice()> make;

  friend void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }
};
std::vector<DeviceUnderTest> DevicesUnderTest();

// A submodel as the bank sees it: who registers, what, and what it keeps of it.
struct TestSubmodel {
  Owner owner;
  std::vector<LazyTensor> tensors;
  std::vector<Uid> uids;
};

class LeakTest : public ::testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override;
  // Everything is dropped by now: the guard looks for what is left, then the device itself is asked.
  void TearDown() override;

  // Opens the checkpoint as a loader does and registers nothing yet.
  TestSubmodel Open(const std::string& name, const TestWeights& weights);
  TestSubmodel Open(const std::string& name) { return Open(name, weights_); }
  void Register(TestSubmodel& submodel, size_t tensor);
  void RegisterAll(TestSubmodel& submodel);
  absl::Status Evaluate(const TestSubmodel& submodel);
  // Open, RegisterAll and Evaluate.
  TestSubmodel Load(const std::string& name);
  // As an inference does: leases on everything, the bytes behind them checked against `weights`.
  void Run(const TestSubmodel& submodel) { Run(submodel, weights_); }
  void Run(const TestSubmodel& submodel, const TestWeights& weights);

  // One copy of every weight on the device, no source held, by the audit, by the device's own count
  // and by the retention accounting.
  void ExpectOneCopyAndNoSource();
  void ExpectNothingOnTheDevice();

  TestWeights weights_{3};
  TestDevice device_;
  std::shared_ptr<Bank> bank_;
  std::optional<LeakGuard> guard_;
};

std::string DeviceName(const ::testing::TestParamInfo<DeviceUnderTest>& device);

}  // namespace npubank

#endif  // NPUBANK_TESTS_LEAK_LEAK_TEST_H_
