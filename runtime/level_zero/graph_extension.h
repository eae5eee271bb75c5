// The graph extension of NPU drivers ("ZE_extension_graph", binary interface of version 1.12), as far as this
// project uses it. The distribution's Level Zero headers do not declare it.
//
//   void* table = nullptr;
//   zeDriverGetExtensionFunctionAddress(driver, kGraphExtensionName, &table);
//   auto* graphs = static_cast<GraphExtension*>(table);
//
// Layouts are those of the driver's C interface: natural alignment, the order of entries is the
// interface. A driver of an older version has a shorter table: entries after those of the version
// that pfnDeviceGetGraphProperties tells are not there to be read (Device::graph_version). Used
// by the runtime (caller) and by the software NPU (implementer); nobody else includes ze_api.h.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_EXTENSION_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_EXTENSION_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>

namespace npubank::level_zero {

inline constexpr char kGraphExtensionName[] = "ZE_extension_graph";

using GraphHandle = struct OpaqueGraph*;
using GraphBuildLogHandle = struct OpaqueGraphBuildLog*;

inline constexpr uint32_t kStructureDeviceGraphProperties = 1;
inline constexpr uint32_t kStructureGraphDesc = 2;
inline constexpr uint32_t kStructureGraphProperties = 3;
inline constexpr uint32_t kStructureGraphArgumentProperties = 4;

inline constexpr uint32_t kGraphFormatNative = 1;

// A version as the extension writes it.
constexpr uint32_t GraphVersion(uint32_t major, uint32_t minor) { return major << 16 | minor; }
// The version that this table is of.
inline constexpr uint32_t kGraphExtensionVersion = GraphVersion(1, 12);

struct GraphDesc {
  uint32_t stype = kStructureGraphDesc;
  const void* pNext = nullptr;
  uint32_t format = kGraphFormatNative;
  size_t inputSize = 0;
  const uint8_t* pInput = nullptr;
  const char* pBuildFlags = nullptr;
};

struct GraphProperties {
  uint32_t stype = kStructureGraphProperties;
  void* pNext = nullptr;
  uint32_t numGraphArgs = 0;
};

// What must be done once before a graph's first execution: bits.
inline constexpr uint32_t kGraphStageCommandList = 1;  // pfnAppendGraphInitialize
inline constexpr uint32_t kGraphStageInitialize = 2;   // pfnGraphInitialize

struct GraphProperties2 {
  uint32_t stype = kStructureGraphProperties;
  void* pNext = nullptr;
  uint32_t numGraphArgs = 0;
  uint32_t initStageRequired = 0;
};

struct GraphProperties3 {
  uint32_t stype = kStructureGraphProperties;
  void* pNext = nullptr;
  uint32_t numGraphArgs = 0;
  uint32_t initStageRequired = 0;
  uint32_t flags = 0;
};

inline constexpr uint32_t kGraphArgumentInput = 0;
inline constexpr uint32_t kGraphArgumentOutput = 1;

enum class GraphPrecision : uint32_t {
  kUnknown = 0,
  kF32 = 1,
  kF16 = 2,
  kU16 = 3,
  kU8 = 4,
  kI32 = 5,
  kI16 = 6,
  kI8 = 7,
  kBin = 8,
  kBF16 = 9,
  kU32 = 0xA,
  kU4 = 0xB,
  kI4 = 0xC,
  kDynamic = 0xD,
  kBoolean = 0xE,
  kF64 = 0xF,
  kU64 = 0x10,
  kI64 = 0x11,
  kNF4 = 0x12,
  kF8E4M3 = 0x13,
  kF8E5M2 = 0x14,
  kF8E8M0 = 0x15,
};

inline constexpr int kGraphArgumentMaxDims = 5;
inline constexpr int kGraphArgumentMaxName = 256;

struct GraphArgumentProperties {
  uint32_t stype = kStructureGraphArgumentProperties;
  void* pNext = nullptr;
  char name[kGraphArgumentMaxName] = {};
  uint32_t type = kGraphArgumentInput;
  uint32_t dims[kGraphArgumentMaxDims] = {};  // outermost first; unused ones are 1
  GraphPrecision networkPrecision = GraphPrecision::kUnknown;
  uint32_t networkLayout = 0;
  GraphPrecision devicePrecision = GraphPrecision::kUnknown;
  uint32_t deviceLayout = 0;
};

// What later entries tell about an argument beyond that.
struct GraphArgumentProperties2 {
  GraphArgumentProperties first;
  float quantizationScale = 1;
  uint8_t quantizationZero = 0;
};

inline constexpr int kGraphTensorNames = 32;

struct GraphArgumentProperties3 {
  GraphArgumentProperties first;
  float quantizationScale = 1;
  uint8_t quantizationZero = 0;
  uint32_t rank = 0;
  char friendlyName[kGraphArgumentMaxName] = {};
  char tensorNames[kGraphTensorNames][kGraphArgumentMaxName] = {};
  uint32_t tensorNameCount = 0;
};

struct DeviceGraphProperties {
  uint32_t stype = kStructureDeviceGraphProperties;
  void* pNext = nullptr;
  uint32_t graphExtensionVersion = 0;
  struct {
    uint16_t major, minor;
  } compilerVersion = {};
  uint32_t graphFormatsSupported = 0;
  uint32_t maxOVOpsetVersionSupported = 0;
};

inline constexpr uint32_t kMemoryTypeDdr = 1;
inline constexpr uint32_t kMemoryTypeProgramCache = 3;  // the last one

struct GraphMemoryQuery {
  uint64_t total = 0;      // bytes the context may allocate
  uint64_t allocated = 0;  // bytes it has
};

// The table, in the interface's order, each version's entries behind those of the one before. Entries
// that are no functions here have types that this project does not need.
struct GraphExtension {
  ze_result_t(ZE_APICALL* pfnCreate)(ze_context_handle_t, ze_device_handle_t, const GraphDesc*,
                                     GraphHandle*);
  ze_result_t(ZE_APICALL* pfnDestroy)(GraphHandle);
  ze_result_t(ZE_APICALL* pfnGetProperties)(GraphHandle, GraphProperties*);
  ze_result_t(ZE_APICALL* pfnGetArgumentProperties)(GraphHandle, uint32_t,
                                                    GraphArgumentProperties*);
  ze_result_t(ZE_APICALL* pfnSetArgumentValue)(GraphHandle, uint32_t, const void*);
  ze_result_t(ZE_APICALL* pfnAppendGraphInitialize)(ze_command_list_handle_t, GraphHandle,
                                                    ze_event_handle_t, uint32_t,
                                                    ze_event_handle_t*);
  ze_result_t(ZE_APICALL* pfnAppendGraphExecute)(ze_command_list_handle_t, GraphHandle,
                                                 void* profiling_query, ze_event_handle_t, uint32_t,
                                                 ze_event_handle_t*);
  ze_result_t(ZE_APICALL* pfnGetNativeBinary)(GraphHandle, size_t*, uint8_t*);
  ze_result_t(ZE_APICALL* pfnDeviceGetGraphProperties)(ze_device_handle_t, DeviceGraphProperties*);
  // 1.1
  void* pfnGraphGetArgumentMetadata;
  ze_result_t(ZE_APICALL* pfnGetArgumentProperties2)(GraphHandle, uint32_t,
                                                     GraphArgumentProperties2*);
  // 1.2
  ze_result_t(ZE_APICALL* pfnGetArgumentProperties3)(GraphHandle, uint32_t,
                                                     GraphArgumentProperties3*);
  // 1.3, 1.4 and 1.5
  void* pfnQueryNetworkCreate;
  void* pfnQueryNetworkDestroy;
  void* pfnQueryNetworkGetSupportedLayers;
  void* pfnBuildLogGetString;
  void* pfnCreate2;
  void* pfnQueryNetworkCreate2;
  ze_result_t(ZE_APICALL* pfnQueryContextMemory)(ze_context_handle_t, uint32_t type,
                                                 GraphMemoryQuery*);
  // 1.6 and 1.7
  void* pfnDeviceGetGraphProperties2;
  void* pfnGetNativeBinary2;
  // 1.8
  ze_result_t(ZE_APICALL* pfnGetProperties2)(GraphHandle, GraphProperties2*);
  ze_result_t(ZE_APICALL* pfnGraphInitialize)(GraphHandle);
  // 1.11 and 1.12
  void* pfnCompilerGetSupportedOptions;
  void* pfnCompilerIsOptionSupported;
  void* pfnCreate3;
  ze_result_t(ZE_APICALL* pfnGetProperties3)(GraphHandle, GraphProperties3*);
  void* pfnBuildLogGetString2;
  void* pfnBuildLogDestroy;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_EXTENSION_H_
