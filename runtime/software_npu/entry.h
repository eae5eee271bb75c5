// Entry: what every function of the driver is wrapped in before a loader or a program gets it.
//
//   table->pfnAllocDevice = kEntry<"zeMemAllocDevice", &MemAllocDevice>;
//   table->pfnFree = kSureEntry<"zeMemFree", &MemFree>;     // not among the calls that "can fail"
//
// The wrapper counts the call, lets a fault (faults.h) answer in its place, and turns a failed
// allocation of host memory, or a thread that cannot start, into OUT_OF_HOST_MEMORY: no exception
// leaves the driver.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_ENTRY_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_ENTRY_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/string_view.h"
#include "npubank/runtime/software_npu/controls/faults.h"

namespace npubank::software_npu {

// A string literal as a template argument.
template <size_t N>
struct EntryName {
  // NOLINTNEXTLINE(google-explicit-constructor): made from literals where it is used
  constexpr EntryName(const char (&literal)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  constexpr absl::string_view view() const { return absl::string_view(text, N - 1); }
  char text[N] = {};
};

template <EntryName kName, bool kCanFail, auto kFunction, class = decltype(kFunction)>
struct Entry;

template <EntryName kName, bool kCanFail, auto kFunction, class... Arguments>
struct Entry<kName, kCanFail, kFunction, ze_result_t (*)(Arguments...)> {
  static ze_result_t ZE_APICALL Call(Arguments... arguments) {
    try {
      const ze_result_t fault = Faults::Get().Enter(kName.view(), kCanFail);
      if (fault != ZE_RESULT_SUCCESS) return fault;
      return kFunction(arguments...);
    } catch (const std::bad_alloc&) {
      return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    } catch (const std::system_error&) {
      return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;  // no room for a thread
    } catch (const std::exception&) {
      return ZE_RESULT_ERROR_UNKNOWN;
    }
  }
};

template <EntryName kName, auto kFunction>
inline constexpr auto* kEntry = &Entry<kName, true, kFunction>::Call;
template <EntryName kName, auto kFunction>
inline constexpr auto* kSureEntry = &Entry<kName, false, kFunction>::Call;

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_ENTRY_H_
