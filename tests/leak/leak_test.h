// What the leak tests share: a device to run on, submodels over one checkpoint, and three
// independent counts.
//
// The tests name no device: each program that is built from them defines DevicesUnderTest(), so
// that the same tests run on host memory and on Level Zero memory.
#ifndef NPUBANK_TESTS_LEAK_LEAK_TEST_H_
#define NPUBANK_TESTS_LEAK_LEAK_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bank/bank.h"
#include "bank/device_memory.h"
#include "tests/support/test_weights.h"

namespace npubank {

struct DeviceUnderTest {
  std::string name;
  std::function<std::shared_ptr<DeviceMemory>()> make;
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
  // Everything is dropped by now: the three counts must be zero.
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

  // One copy of every weight on the device, no source held, by the audit, by the device memory's
  // own count and by the retention accounting.
  void ExpectOneCopyAndNoSource();
  void ExpectNothingOnTheDevice();

  TestWeights weights_{3};
  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Bank> bank_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_LEAK_LEAK_TEST_H_
