// Faults: which call of which entry point fails, and how often each was called.
//
//   Faults::Get().Fail("zeMemAllocDevice", 3, false, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
//   ze_result_t result = Faults::Get().Enter("zeMemAllocDevice", true);   // in every entry point
//
// The third call from then on fails and does nothing else. The name "" stands for every entry point
// that can fail: all but destroying, freeing and asking for properties.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FAULTS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FAULTS_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/controls/forks.h"

namespace npubank::software_npu {

class Faults {
 public:
  static Faults& Get();

  Faults() { KeepAcrossForks(mutex_); }

  // Counts a call. SUCCESS, or what the call must return at once.
  ze_result_t Enter(absl::string_view entry_point, bool can_fail);

  // The n-th call from now on (1 is the next) fails; n = 0 takes back all faults. Starts the count
  // of that entry point anew.
  void Fail(absl::string_view entry_point, uint64_t n, bool forever, ze_result_t result);

  // Calls since start or the last Fail of that name.
  uint64_t CountCalls(absl::string_view entry_point);

  // The form of the environment: "name:n[:forever]", several with commas between. False, and
  // nothing done, when it is not understood.
  bool Configure(absl::string_view text);

 private:
  struct Point {
    uint64_t calls = 0;
    uint64_t fail_at = 0;  // 0: never
    bool forever = false;
    ze_result_t result = ZE_RESULT_SUCCESS;
  };
  static ze_result_t Count(Point& point);

  Mutex mutex_;
  std::unordered_map<std::string, Point> points_ ABSL_GUARDED_BY(mutex_);
};

// What a failing call of that entry point returns when nobody says.
ze_result_t UsualFailure(absl::string_view entry_point);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FAULTS_H_
