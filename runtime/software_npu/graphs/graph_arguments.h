// What the graph extension tells about a graph's arguments, entry by entry: the same each time, in structures
// that grew.
//
//   kSureEntry<"pfnGetArgumentProperties2", &GraphGetArgumentProperties2>
//
// Errors: INVALID_NULL_HANDLE for what is no graph, INVALID_ARGUMENT for an index that it does not have.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_ARGUMENTS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_ARGUMENTS_H_

#include <cstdint>

#include "npubank/runtime/level_zero/graph_extension.h"

namespace npubank::software_npu {

inline constexpr int kGraphMetadataDims = 8;

struct GraphArgumentMetadata {
  uint32_t stype;
  void* pNext;
  uint32_t type;
  char friendly_name[level_zero::kGraphArgumentMaxName];
  uint32_t data_type;
  uint64_t shape[kGraphMetadataDims];
  uint32_t rank;
  char tensor_names[level_zero::kGraphTensorNames][level_zero::kGraphArgumentMaxName];
  uint32_t tensor_name_count;
  char input_name[level_zero::kGraphArgumentMaxName];
};

ze_result_t GraphGetArgumentProperties(level_zero::GraphHandle handle, uint32_t index,
                                       level_zero::GraphArgumentProperties* properties);
ze_result_t GraphGetArgumentProperties2(level_zero::GraphHandle handle, uint32_t index,
                                        level_zero::GraphArgumentProperties2* properties);
ze_result_t GraphGetArgumentProperties3(level_zero::GraphHandle handle, uint32_t index,
                                        level_zero::GraphArgumentProperties3* properties);
ze_result_t GraphGetArgumentMetadata(level_zero::GraphHandle handle, uint32_t index,
                                     GraphArgumentMetadata* metadata);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_ARGUMENTS_H_
