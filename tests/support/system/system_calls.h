// SystemCalls: stands between a program and the system's calls on files.
//
//   SystemCalls calls([&](SystemCall call, const char* path) {
//     return call == SystemCall::kSync ? EIO : 0;  // the errno it fails with; 0: it is made
//   });
//
// Asked before each such call, as long as the object lives; one at a time, for one thread. `path` is
// null where the call names a descriptor. It defines the functions itself, for the program it is
// linked into.
#ifndef NPUBANK_TESTS_SUPPORT_SYSTEM_SYSTEM_CALLS_H_
#define NPUBANK_TESTS_SUPPORT_SYSTEM_SYSTEM_CALLS_H_

#include <functional>
#include <utility>

namespace npubank {

enum class SystemCall {
  kOpen,
  kOpenUnnamed,
  kStat,
  kSync,
  kLink,
  kRename,
  kLock,
  kMemory,     // memfd_create
  kLength,     // ftruncate
  kSpace,      // fallocate
  kControl,    // fcntl
  kDuplicate,  // dup3
};

class SystemCalls {
 public:
  using Hook = std::function<int(SystemCall call, const char* path)>;

  explicit SystemCalls(Hook hook) { Current() = std::move(hook); }
  ~SystemCalls() { Current() = nullptr; }
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  static Hook& Current();
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_SYSTEM_SYSTEM_CALLS_H_
