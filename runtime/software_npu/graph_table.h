// The table of ZE_extension_graph: what the driver gives out for it.
//
// It claims version 1.5, the newest whose every entry it fills. A network cannot be queried, because
// nothing is compiled here: UNSUPPORTED_FEATURE.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPH_TABLE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPH_TABLE_H_

#include <cstdint>

#include "npubank/runtime/level_zero/graph_extension.h"

namespace npubank::software_npu {

// What later entries tell about an argument beyond GraphArgumentProperties.
struct GraphArgumentProperties2 {
  level_zero::GraphArgumentProperties first;
  float quantization_scale;
  uint8_t quantization_zero;
};

inline constexpr int kGraphTensorNames = 32;

struct GraphArgumentProperties3 {
  level_zero::GraphArgumentProperties first;
  float quantization_scale;
  uint8_t quantization_zero;
  uint32_t rank;
  char friendly_name[level_zero::kGraphArgumentMaxName];
  char tensor_names[kGraphTensorNames][level_zero::kGraphArgumentMaxName];
  uint32_t tensor_name_count;
};

inline constexpr int kGraphMetadataDims = 8;

struct GraphArgumentMetadata {
  uint32_t stype;
  void* pNext;
  uint32_t type;
  char friendly_name[level_zero::kGraphArgumentMaxName];
  uint32_t data_type;
  uint64_t shape[kGraphMetadataDims];
  uint32_t rank;
  char tensor_names[kGraphTensorNames][level_zero::kGraphArgumentMaxName];
  uint32_t tensor_name_count;
  char input_name[level_zero::kGraphArgumentMaxName];
};

const level_zero::GraphExtension& GetGraphExtension();

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPH_TABLE_H_
