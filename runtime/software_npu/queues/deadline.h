// Deadlines: a Level Zero timeout (nanoseconds, UINT64_MAX: forever) as a point in time.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_DEADLINE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace npubank::software_npu {

using Deadline = std::chrono::steady_clock::time_point;

// How long a job may wait, and how long a list that is in flight blocks its next execution.
inline constexpr std::chrono::seconds kJobTimeout{2};

inline Deadline DeadlineAfter(uint64_t nanoseconds) {
  // A year stands for forever: the clock's own maximum overflows where it is converted.
  constexpr uint64_t kForever = uint64_t{365} * 24 * 3600 * 1'000'000'000;
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(std::min(nanoseconds, kForever));
}

inline Deadline JobDeadline() { return std::chrono::steady_clock::now() + kJobTimeout; }

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_DEADLINE_H_
