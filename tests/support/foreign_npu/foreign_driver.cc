// The foreign NPU: a Level Zero driver of somebody else, whose blobs are opaque bytes
// (foreign_blob.h).
//
//   ZE_ENABLE_ALT_DRIVERS=.../libze_foreign_npu.so program
//
// Memory, queues and lists are the software NPU's, which this library opens and hands through to
// the loader, with its switches (NPUBANK_NPU_*). Graphs are its own: it reads its own blobs, tells
// their arguments by every call that its version has, and wants to be initialised before it
// executes. What it computes it has the software NPU compute: behind a driver nobody sees that.
//
// Switches, read when they matter:
//   FOREIGN_NPU_VERSION  1.N, 12 by default: the table ends with that version's entries, and a page that cannot be
//                        read follows it
//   FOREIGN_NPU_STAGES   bits of the initialisation that it wants, 3 by default
//   FOREIGN_NPU_LIE      what it says wrongly of arguments: many, rank, kind, precision, name; or "older": it has
//                        the newer calls and they are UNSUPPORTED_FEATURE
#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/tests/support/foreign_npu/foreign_blob.h"

namespace npubank {
namespace {

using level_zero::GraphExtension;
using level_zero::GraphHandle;

ze_pfnDriverGetExtensionFunctionAddress_t inner_address = nullptr;  // the software NPU's
const GraphExtension* inner = nullptr;                              // its graphs

std::string Switch(const char* name, const char* absent) {
  const char* value = std::getenv(name);
  return value == nullptr ? absent : value;
}
bool Lies(const char* how) { return Switch("FOREIGN_NPU_LIE", "") == how; }
uint32_t Version() {
  return static_cast<uint32_t>(std::stoul(Switch("FOREIGN_NPU_VERSION", "12")));
}

struct ForeignGraph {
  std::string bytes;
  ForeignBlob blob;
  GraphHandle graph = nullptr;      // the software NPU's
  std::atomic<uint32_t> stages{0};  // of initialisation, as far as they are done
};

ForeignGraph& Of(GraphHandle handle) { return *reinterpret_cast<ForeignGraph*>(handle); }
uint32_t Stages() {
  // Before 1.8 a driver cannot say, and wants the command.
  if (Version() < 8) return level_zero::kGraphStageCommandList;
  return static_cast<uint32_t>(std::stoul(Switch("FOREIGN_NPU_STAGES", "3")));
}

// The function as the software NPU computes it; no name when there is no such function.
Function Translate(const ForeignBlob& blob) {
  Function function;
  for (const ForeignArgument& argument : blob.arguments) {
    const ElementType element = argument.precision == level_zero::GraphPrecision::kF16
                                    ? ElementType::kF16
                                    : ElementType::kF32;
    const auto shape =
        Shape::Create(std::vector<int64_t>(argument.dims.begin(), argument.dims.end()));
    if (!shape.ok()) return {};
    const auto type = TensorType::Create(element, *shape);
    if (!type.ok()) return {};
    const auto number = static_cast<uint32_t>(function.arguments.size());
    function.arguments.push_back(
        {argument.name, argument.output ? ArgumentKind::kOutput : ArgumentKind::kInput, *type, -1});
    function.values.push_back({argument.name, *type, Storage::kArgument, number});
  }
  const size_t count = blob.arguments.size();
  if (blob.operation == ForeignOperation::kLayer && count == 4) {
    function.ops = {{OpKind::kMatMul, "layer", {0, 1, 2}, 3, {}}};
  } else if (blob.operation == ForeignOperation::kSum && count == 3) {
    function.ops = {{OpKind::kAdd, "sum", {0, 1}, 2, {}}};
  } else {
    return {};
  }
  function.name = "foreign";
  return function;
}

ze_result_t ZE_APICALL Create(ze_context_handle_t context, ze_device_handle_t device,
                              const level_zero::GraphDesc* desc, GraphHandle* out) {
  auto made = std::make_unique<ForeignGraph>();
  made->bytes.assign(reinterpret_cast<const char*>(desc->pInput), desc->inputSize);
  const std::optional<ForeignBlob> blob = ReadForeignBlob(made->bytes);
  if (!blob) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  made->blob = *blob;
  const Function function = Translate(made->blob);
  if (function.name.empty()) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  const std::string translated = WriteFunctionBlob(function);
  level_zero::GraphDesc inner_desc;
  inner_desc.inputSize = translated.size();
  inner_desc.pInput = reinterpret_cast<const uint8_t*>(translated.data());
  const ze_result_t result = inner->pfnCreate(context, device, &inner_desc, &made->graph);
  if (result == ZE_RESULT_SUCCESS) *out = reinterpret_cast<GraphHandle>(made.release());
  return result;
}

ze_result_t ZE_APICALL Destroy(GraphHandle handle) {
  const std::unique_ptr<ForeignGraph> graph(&Of(handle));
  return inner->pfnDestroy(graph->graph);
}

ze_result_t ZE_APICALL GetProperties(GraphHandle handle, level_zero::GraphProperties* properties) {
  properties->numGraphArgs =
      Lies("many") ? UINT32_MAX : static_cast<uint32_t>(Of(handle).blob.arguments.size());
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL GetArgument(GraphHandle handle, uint32_t index,
                                   level_zero::GraphArgumentProperties* to) {
  if (index >= Of(handle).blob.arguments.size()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const ForeignArgument& argument = Of(handle).blob.arguments[index];
  std::snprintf(to->name, sizeof(to->name), "%s", argument.name.c_str());
  if (Lies("name")) std::memset(to->name, 'n', sizeof(to->name));  // and no end
  to->type = Lies("kind") ? 9 : argument.output ? 1 : 0;
  for (size_t i = 0; i < level_zero::kGraphArgumentMaxDims; ++i)
    to->dims[i] = i < argument.dims.size() ? argument.dims[i] : 1;
  to->networkPrecision = level_zero::GraphPrecision::kF32;  // not what lies in memory
  to->devicePrecision =
      Lies("precision") ? static_cast<level_zero::GraphPrecision>(99) : argument.precision;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL GetArgument2(GraphHandle handle, uint32_t index,
                                    level_zero::GraphArgumentProperties2* to) {
  if (Lies("older")) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  return GetArgument(handle, index, &to->first);
}

ze_result_t ZE_APICALL GetArgument3(GraphHandle handle, uint32_t index,
                                    level_zero::GraphArgumentProperties3* to) {
  if (Lies("older")) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  const ze_result_t result = GetArgument(handle, index, &to->first);
  if (result != ZE_RESULT_SUCCESS) return result;
  to->rank =
      Lies("rank") ? 77 : static_cast<uint32_t>(Of(handle).blob.arguments[index].dims.size());
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL SetArgument(GraphHandle handle, uint32_t index, const void* pointer) {
  return inner->pfnSetArgumentValue(Of(handle).graph, index, pointer);
}

ze_result_t ZE_APICALL AppendInitialize(ze_command_list_handle_t list, GraphHandle handle,
                                        ze_event_handle_t signal, uint32_t waits,
                                        ze_event_handle_t* wait_handles) {
  Of(handle).stages |= level_zero::kGraphStageCommandList;
  return inner->pfnAppendGraphInitialize(list, Of(handle).graph, signal, waits, wait_handles);
}

ze_result_t ZE_APICALL Initialize(GraphHandle handle) {
  Of(handle).stages |= level_zero::kGraphStageInitialize;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL AppendExecute(ze_command_list_handle_t list, GraphHandle handle,
                                     void* profiling, ze_event_handle_t signal, uint32_t waits,
                                     ze_event_handle_t* wait_handles) {
  if (Of(handle).stages != Stages()) return ZE_RESULT_ERROR_UNINITIALIZED;
  return inner->pfnAppendGraphExecute(list, Of(handle).graph, profiling, signal, waits,
                                      wait_handles);
}

ze_result_t ZE_APICALL GetNativeBinary(GraphHandle handle, size_t* size, uint8_t* bytes) {
  const std::string& all = Of(handle).bytes;
  if (bytes != nullptr) std::memcpy(bytes, all.data(), std::min(*size, all.size()));
  *size = all.size();
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL GetDeviceProperties(ze_device_handle_t device,
                                           level_zero::DeviceGraphProperties* properties) {
  const ze_result_t result = inner->pfnDeviceGetGraphProperties(device, properties);
  properties->graphExtensionVersion = level_zero::GraphVersion(1, Version());
  return result;
}

ze_result_t ZE_APICALL QueryMemory(ze_context_handle_t context, uint32_t type,
                                   level_zero::GraphMemoryQuery* query) {
  return inner->pfnQueryContextMemory(context, type, query);
}

ze_result_t ZE_APICALL GetProperties2(GraphHandle handle, level_zero::GraphProperties2* to) {
  to->numGraphArgs = static_cast<uint32_t>(Of(handle).blob.arguments.size());
  to->initStageRequired = Stages();
  return ZE_RESULT_SUCCESS;
}

size_t EntriesOf(uint32_t minor) {
  constexpr size_t kEntries[] = {9, 11, 12, 15, 16, 19, 20, 21, 23, 23, 23, 25, 29};
  return kEntries[std::min<uint32_t>(minor, 12)];
}

// The version's entries at the end of a page, and behind it one that nobody may read. Never given
// back.
const void* ShortTable() {
  GraphExtension whole = {};
  whole.pfnCreate = Create;
  whole.pfnDestroy = Destroy;
  whole.pfnGetProperties = GetProperties;
  whole.pfnGetArgumentProperties = GetArgument;
  whole.pfnSetArgumentValue = SetArgument;
  whole.pfnAppendGraphInitialize = AppendInitialize;
  whole.pfnAppendGraphExecute = AppendExecute;
  whole.pfnGetNativeBinary = GetNativeBinary;
  whole.pfnDeviceGetGraphProperties = GetDeviceProperties;
  whole.pfnGetArgumentProperties2 = GetArgument2;
  whole.pfnGetArgumentProperties3 = GetArgument3;
  whole.pfnQueryContextMemory = QueryMemory;
  whole.pfnGetProperties2 = GetProperties2;
  whole.pfnGraphInitialize = Initialize;
  static_assert(sizeof(whole) == 29 * sizeof(void*));
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  mprotect(static_cast<char*>(pages) + page, page, PROT_NONE);
  const size_t bytes = EntriesOf(Version()) * sizeof(void*);
  return std::memcpy(static_cast<char*>(pages) + page - bytes, &whole, bytes);
}

ze_result_t ZE_APICALL GetExtensionAddress(ze_driver_handle_t driver, const char* name,
                                           void** address) {
  if (std::strcmp(name, level_zero::kGraphExtensionName) != 0)
    return inner_address(driver, name, address);
  void* graphs = nullptr;
  const ze_result_t result = inner_address(driver, name, &graphs);
  if (result != ZE_RESULT_SUCCESS) return result;
  inner = static_cast<const GraphExtension*>(graphs);
  *address = const_cast<void*>(ShortTable());
  return *address == nullptr ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY : ZE_RESULT_SUCCESS;
}

// What the software NPU puts into one of the loader's tables.
template <class Table>
ze_result_t Fill(const char* name, ze_api_version_t version, Table* table) {
  static void* const library = dlopen(SOFTWARE_NPU, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return ZE_RESULT_ERROR_UNINITIALIZED;
  using Get = ze_result_t(ZE_APICALL*)(ze_api_version_t, Table*);
  const auto get = reinterpret_cast<Get>(dlsym(library, name));
  return get == nullptr ? ZE_RESULT_ERROR_UNINITIALIZED : get(version, table);
}

}  // namespace
}  // namespace npubank

#define FOREIGN_EXPORT extern "C" __attribute__((visibility("default")))
#define FOREIGN_TABLE(name, Table)                                                     \
  FOREIGN_EXPORT ze_result_t ZE_APICALL name(ze_api_version_t version, Table* table) { \
    return npubank::Fill(#name, version, table);                                       \
  }

FOREIGN_EXPORT ze_result_t ZE_APICALL zeGetDriverProcAddrTable(ze_api_version_t version,
                                                               ze_driver_dditable_t* table) {
  const ze_result_t result = npubank::Fill("zeGetDriverProcAddrTable", version, table);
  if (result != ZE_RESULT_SUCCESS) return result;
  npubank::inner_address = table->pfnGetExtensionFunctionAddress;
  table->pfnGetExtensionFunctionAddress = npubank::GetExtensionAddress;
  return result;
}

FOREIGN_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t)
FOREIGN_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t)
FOREIGN_TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
FOREIGN_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t)
FOREIGN_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
FOREIGN_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t)
FOREIGN_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
FOREIGN_TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
FOREIGN_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
FOREIGN_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
FOREIGN_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
FOREIGN_TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
FOREIGN_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t)
FOREIGN_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
FOREIGN_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
FOREIGN_TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
FOREIGN_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
FOREIGN_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
FOREIGN_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t)
FOREIGN_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
FOREIGN_TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
FOREIGN_TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
FOREIGN_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
FOREIGN_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
FOREIGN_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
FOREIGN_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
FOREIGN_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
FOREIGN_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
FOREIGN_TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
FOREIGN_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
FOREIGN_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
FOREIGN_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
FOREIGN_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
FOREIGN_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
FOREIGN_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
FOREIGN_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
FOREIGN_TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t)
FOREIGN_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
FOREIGN_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
FOREIGN_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
FOREIGN_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
FOREIGN_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
FOREIGN_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
FOREIGN_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
FOREIGN_TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
FOREIGN_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
FOREIGN_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
FOREIGN_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
FOREIGN_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
FOREIGN_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
FOREIGN_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
FOREIGN_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
