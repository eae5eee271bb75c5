// DriverStatistics: what the software NPU itself counts, as tests ask it: the independent witness.
//
//   ExpectNothingLeft(device.software(), "after the session");
#ifndef NPUBANK_TESTS_SUPPORT_DRIVER_STATISTICS_H_
#define NPUBANK_TESTS_SUPPORT_DRIVER_STATISTICS_H_

#include <gtest/gtest.h>

#include <string>

#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank {

inline level_zero::SoftwareNpuStatistics DriverStatistics(
    const level_zero::SoftwareNpuExtension& software) {
  level_zero::SoftwareNpuStatistics statistics;
  EXPECT_EQ(software.pfnGetStatistics(&statistics), ZE_RESULT_SUCCESS);
  return statistics;
}

// No bytes and no handles but contexts, which an open device has.
inline void ExpectNothingLeft(const level_zero::SoftwareNpuExtension& software,
                              const std::string& when) {
  const level_zero::SoftwareNpuStatistics left = DriverStatistics(software);
  EXPECT_EQ(left.live_bytes, 0u) << when;
  EXPECT_EQ(left.live_allocations, 0u) << when;
  EXPECT_EQ(left.live_imports, 0u) << when;
  EXPECT_EQ(left.imported_bytes, 0u) << when;
  EXPECT_EQ(left.live_physical_memories, 0u) << when;
  EXPECT_EQ(left.live_reservations, 0u) << when;
  EXPECT_EQ(left.live_graphs, 0u) << when;
  EXPECT_EQ(left.live_build_logs, 0u) << when;
  EXPECT_EQ(left.live_lists, 0u) << when;
  EXPECT_EQ(left.live_fences, 0u) << when;
  EXPECT_EQ(left.live_queues, 0u) << when;
  EXPECT_EQ(left.live_events, 0u) << when;
  EXPECT_EQ(left.live_event_pools, 0u) << when;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_DRIVER_STATISTICS_H_
