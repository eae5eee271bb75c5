#include "npubank/runtime/software_npu/controls/faults.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace npubank::software_npu {
namespace {

struct Fault {
  std::string entry_point;
  uint64_t n = 0;
  bool forever = false;
};

bool ParseFault(absl::string_view text, Fault* fault) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty()) return false;
  if (!absl::SimpleAtoi(parts[1], &fault->n) || fault->n == 0) return false;
  if (parts.size() == 3 && parts[2] != "forever") return false;
  fault->entry_point = parts[0] == "any" ? "" : parts[0];
  fault->forever = parts.size() == 3;
  return true;
}

}  // namespace

Faults& Faults::Get() {
  static auto* const faults = new Faults;
  return *faults;
}

ze_result_t Faults::Count(Point& point) {
  ++point.calls;
  const bool now = point.fail_at != 0 &&
                   (point.forever ? point.calls >= point.fail_at : point.calls == point.fail_at);
  return now ? point.result : ZE_RESULT_SUCCESS;
}

ze_result_t Faults::Enter(absl::string_view entry_point, bool can_fail) {
  MutexLock lock(mutex_);
  ze_result_t result = Count(points_[std::string(entry_point)]);
  if (!can_fail) return result;
  Point& any = points_[""];
  const ze_result_t any_result = Count(any);
  if (result == ZE_RESULT_SUCCESS && any_result != ZE_RESULT_SUCCESS) {
    result = any_result == ZE_RESULT_ERROR_UNKNOWN ? UsualFailure(entry_point) : any_result;
  }
  return result;
}

void Faults::Fail(absl::string_view entry_point, uint64_t n, bool forever, ze_result_t result) {
  MutexLock lock(mutex_);
  if (n == 0) {
    points_.clear();
    return;
  }
  points_[std::string(entry_point)] = {0, n, forever, result};
}

uint64_t Faults::CountCalls(absl::string_view entry_point) {
  MutexLock lock(mutex_);
  return points_[std::string(entry_point)].calls;
}

bool Faults::Configure(absl::string_view text) {
  std::vector<Fault> faults;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    Fault fault;
    if (!ParseFault(part, &fault)) return false;
    faults.push_back(std::move(fault));
  }
  for (const Fault& fault : faults) {
    const ze_result_t result =
        fault.entry_point.empty() ? ZE_RESULT_ERROR_UNKNOWN : UsualFailure(fault.entry_point);
    Fail(fault.entry_point, fault.n, fault.forever, result);
  }
  return true;
}

ze_result_t UsualFailure(absl::string_view entry_point) {
  for (absl::string_view prefix : {"zeMem", "zePhysicalMem", "zeVirtualMem"}) {
    if (absl::StartsWith(entry_point, prefix)) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  for (absl::string_view name : {"zeCommandQueueExecuteCommandLists", "zeCommandQueueSynchronize",
                                 "zeFenceHostSynchronize", "zeEventHostSynchronize"}) {
    if (entry_point == name) return ZE_RESULT_ERROR_DEVICE_LOST;
  }
  return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

}  // namespace npubank::software_npu
