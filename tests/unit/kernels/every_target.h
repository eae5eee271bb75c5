// A test fixture that runs each test once per instruction set this processor has, and the data the
// kernels are compared on.
#ifndef NPUBANK_TESTS_UNIT_KERNELS_EVERY_TARGET_H_
#define NPUBANK_TESTS_UNIT_KERNELS_EVERY_TARGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank::kernels {

class EveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::string TargetTestName(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

#define NPUBANK_ON_EVERY_TARGET(Fixture)         \
  INSTANTIATE_TEST_SUITE_P(EveryTarget, Fixture, \
                           testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), TargetTestName)

using Bytes = std::vector<uint8_t>;

inline Bytes RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Where two results first differ, for a message; npos when they are equal.
inline size_t FirstDifference(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return i;
  }
  return std::string::npos;
}

}  // namespace npubank::kernels

#endif  // NPUBANK_TESTS_UNIT_KERNELS_EVERY_TARGET_H_
