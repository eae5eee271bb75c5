#include "npubank/runtime/software_npu/extensions.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"
#include "npubank/runtime/software_npu/controls/faults.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/entry.h"
#include "npubank/runtime/software_npu/graphs/graph_table.h"

namespace npubank::software_npu {
namespace {

constexpr char kSystemMemoryExtension[] = "ZE_extension_external_memmap_sysmem";
constexpr uint32_t kFirstAlias = 2;  // ZE_extension_graph_1_2 ...
constexpr uint32_t kLastAlias = 8;  // later versions have none

struct Extension {
  std::string name;
  uint32_t version;
};

// What works here is reported, and nothing else: a client probes by this list.
std::vector<Extension> Extensions() {
  std::vector<Extension> extensions = {
      {level_zero::kGraphExtensionName, level_zero::kGraphExtensionVersion}};
  for (uint32_t minor = kFirstAlias; minor <= kLastAlias; ++minor) {
    extensions.push_back({absl::StrCat(level_zero::kGraphExtensionName, "_1_", minor),
                          static_cast<uint32_t>(ZE_MAKE_VERSION(1, minor))});
  }
  extensions.push_back(
      {level_zero::kSoftwareNpuExtensionName, static_cast<uint32_t>(ZE_MAKE_VERSION(1, 0))});
  if (GetSwitches()->import_system_memory) {
    extensions.push_back({kSystemMemoryExtension, static_cast<uint32_t>(ZE_MAKE_VERSION(1, 0))});
  }
  return extensions;
}

ze_result_t FailCall(const char* entry_point, uint64_t n, uint32_t forever, ze_result_t result) {
  if (entry_point == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Faults::Get().Fail(entry_point, n, forever != 0, result);
  return ZE_RESULT_SUCCESS;
}

ze_result_t CountCalls(const char* entry_point, uint64_t* count) {
  if (entry_point == nullptr || count == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *count = Faults::Get().CountCalls(entry_point);
  return ZE_RESULT_SUCCESS;
}

ze_result_t Reload() {
  ReloadSwitches();
  return ZE_RESULT_SUCCESS;
}

ze_result_t GetArgumentAlignment(uint64_t* alignment) {
  if (alignment == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *alignment = GetSwitches()->argument_alignment;
  return ZE_RESULT_SUCCESS;
}

// Not wrapped as entries: asking about calls is not a call.
constexpr level_zero::SoftwareNpuExtension kSoftwareNpuTable = {
    &GetStatistics, &ResetPeak, &FailCall, &CountCalls, &Reload, &GetArgumentAlignment,
};

}  // namespace

ze_result_t DriverGetExtensionProperties(ze_driver_handle_t handle, uint32_t* count,
                                         ze_driver_extension_properties_t* properties) {
  if (!IsDriver(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (count == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const std::vector<Extension> extensions = Extensions();
  const auto all = static_cast<uint32_t>(extensions.size());
  const uint32_t wanted = *count;
  *count = wanted == 0 ? all : std::min(wanted, all);
  if (wanted == 0 || properties == nullptr) return ZE_RESULT_SUCCESS;
  for (uint32_t i = 0; i < *count; ++i) {
    std::snprintf(properties[i].name, sizeof(properties[i].name), "%s", extensions[i].name.c_str());
    properties[i].version = extensions[i].version;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t DriverGetExtensionFunctionAddress(ze_driver_handle_t handle, const char* name,
                                              void** out) {
  if (!IsDriver(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (name == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const absl::string_view asked(name);
  // Clients see tables as writable memory of the driver; none of them writes it.
  if (asked == level_zero::kSoftwareNpuExtensionName) {
    *out = const_cast<level_zero::SoftwareNpuExtension*>(&kSoftwareNpuTable);
    return ZE_RESULT_SUCCESS;
  }
  for (const Extension& extension : Extensions()) {
    if (asked == extension.name && absl::StartsWith(asked, level_zero::kGraphExtensionName)) {
      *out = const_cast<level_zero::GraphExtension*>(&GetGraphExtension());
      return ZE_RESULT_SUCCESS;
    }
  }
  return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

}  // namespace npubank::software_npu
