// The table of ZE_extension_graph: what the driver gives out for it.
//
// It claims version 1.12, the newest whose every entry it fills: what the later ones want is not known.
// Nothing is compiled here: a network cannot be queried (UNSUPPORTED_FEATURE), there are no options, and
// a build log says why a blob was refused, if it was.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_TABLE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_TABLE_H_

#include <cstdint>

#include "npubank/runtime/level_zero/graph_extension.h"

namespace npubank::software_npu {

struct GraphVersion {
  uint32_t major, minor, patch;
};

struct DeviceGraphProperties2 {
  level_zero::DeviceGraphProperties first;
  GraphVersion container;
  GraphVersion runtime;
};

// Where a graph came from.
inline constexpr uint32_t kGraphPreCompiled = 4;

const level_zero::GraphExtension& GetGraphExtension();

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_TABLE_H_
