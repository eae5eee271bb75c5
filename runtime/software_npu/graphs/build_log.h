// BuildLog: what the driver had to say when it read a blob, until the host destroys it. It belongs to no
// context.
//
//   TellText(log->text, size, buffer);     // as every entry of the graph extension tells a text
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_BUILD_LOG_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_BUILD_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {

struct BuildLog {
  using Handle = level_zero::GraphBuildLogHandle;
  static constexpr HandleKind kHandleKind = HandleKind::kBuildLog;
  static constexpr bool kUsableAfterFork = true;

  std::string text;  // not changed once the host has the handle
};

// As much as there is room for, with an ending zero; `size` becomes what all of it needs.
template <class Size>
ze_result_t TellText(const std::string& text, Size* size, char* out) {
  if (size == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const size_t whole = text.size() + 1;
  if (out != nullptr && *size > 0) {
    const size_t told = std::min<size_t>(*size, whole);
    std::memcpy(out, text.c_str(), told);
    out[told - 1] = 0;
  }
  *size = static_cast<Size>(whole);
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_BUILD_LOG_H_
