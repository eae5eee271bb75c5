#include "npubank/runtime/software_npu/graphs/graph_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/entry.h"
#include "npubank/runtime/software_npu/graphs/build_log.h"
#include "npubank/runtime/software_npu/graphs/graph.h"
#include "npubank/runtime/software_npu/graphs/graph_arguments.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/queues/command_list.h"

namespace npubank::software_npu {
namespace {

// `log` gets what there is to say about the blob.
ze_result_t MakeGraph(ze_context_handle_t handle, ze_device_handle_t device,
                      const level_zero::GraphDesc* desc, level_zero::GraphHandle* out,
                      std::string* log) {
  std::shared_ptr<Context> context = Live<Context>().FindUnwrapped(handle);
  if (context == nullptr || !IsDeviceUnwrapped(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr || desc->pInput == nullptr) {
    return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  }
  if (desc->inputSize == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (desc->format != level_zero::kGraphFormatNative) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  std::string blob(reinterpret_cast<const char*>(desc->pInput), desc->inputSize);
  absl::StatusOr<Function> function = ReadFunctionBlob(blob);
  if (!function.ok()) {
    *log = std::string(function.status().message());
    return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  }
  *out = Live<Graph>().Add(
      std::make_shared<Graph>(std::move(context), *std::move(function), std::move(blob)));
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphCreate(ze_context_handle_t handle, ze_device_handle_t device,
                        const level_zero::GraphDesc* desc, level_zero::GraphHandle* out) {
  std::string log;
  return MakeGraph(handle, device, desc, out, &log);
}

// With a log of what was read, also when it was refused; not when nothing was.
ze_result_t GraphCreate3(ze_context_handle_t handle, ze_device_handle_t device,
                         const level_zero::GraphDesc* desc, level_zero::GraphHandle* out,
                         level_zero::GraphBuildLogHandle* log_out) {
  if (log_out == nullptr) return GraphCreate(handle, device, desc, out);
  const auto log = std::make_shared<BuildLog>();
  const level_zero::GraphBuildLogHandle log_handle = Live<BuildLog>().Add(log);
  absl::Cleanup remove = [log_handle] { Live<BuildLog>().Remove(log_handle); };
  const ze_result_t result = MakeGraph(handle, device, desc, out, &log->text);
  if (result != ZE_RESULT_SUCCESS && result != ZE_RESULT_ERROR_INVALID_NATIVE_BINARY) return result;
  std::move(remove).Cancel();
  *log_out = log_handle;
  return result;
}

ze_result_t GraphDestroy(level_zero::GraphHandle handle) {
  if (Graph* const inherited = Live<Graph>().Disown(handle)) {
    inherited->context().Leave();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<Graph> graph = Live<Graph>().Remove(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  graph->context().Leave();
  return ZE_RESULT_SUCCESS;
}

// Of initialization no stage is required, and nothing is there to be done.
ze_result_t GraphInitialize(level_zero::GraphHandle handle) {
  return Live<Graph>().Find(handle) == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE
                                               : ZE_RESULT_SUCCESS;
}

ze_result_t GraphGetProperties(level_zero::GraphHandle handle,
                               level_zero::GraphProperties* properties) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  properties->numGraphArgs = static_cast<uint32_t>(graph->function().arguments.size());
  return ZE_RESULT_SUCCESS;
}

// The second structure is how the third begins.
template <class Properties>
ze_result_t TellProperties(level_zero::GraphHandle handle, Properties* properties) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  properties->numGraphArgs = static_cast<uint32_t>(graph->function().arguments.size());
  properties->initStageRequired = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphGetProperties2(level_zero::GraphHandle handle,
                                level_zero::GraphProperties2* properties) {
  return TellProperties(handle, properties);
}

ze_result_t GraphGetProperties3(level_zero::GraphHandle handle,
                                level_zero::GraphProperties3* properties) {
  const ze_result_t result = TellProperties(handle, properties);
  if (result == ZE_RESULT_SUCCESS) properties->flags = kGraphPreCompiled;
  return result;
}

ze_result_t GraphQueryNetworkCreate(ze_context_handle_t handle, ze_device_handle_t device,
                                    const level_zero::GraphDesc*, void*) {
  const std::shared_ptr<Context> context = Live<Context>().FindUnwrapped(handle);
  if (context == nullptr || !IsDeviceUnwrapped(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

// There are none.
ze_result_t GraphQueryNetworkDestroy(void*) { return ZE_RESULT_ERROR_INVALID_NULL_HANDLE; }
ze_result_t GraphQueryNetworkGetSupportedLayers(void*, size_t*, char*) {
  return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}

// Empty: nothing was built.
ze_result_t GraphBuildLogGetString(level_zero::GraphHandle handle, uint32_t* size, char* log) {
  if (handle != nullptr && Live<Graph>().Find(handle) == nullptr) {
    return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  return TellText("", size, log);
}

ze_result_t GraphBuildLogGetString2(level_zero::GraphBuildLogHandle handle, uint32_t* size,
                                    char* text) {
  const std::shared_ptr<BuildLog> log = Live<BuildLog>().Find(handle);
  return log == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE : TellText(log->text, size, text);
}

ze_result_t GraphBuildLogDestroy(level_zero::GraphBuildLogHandle handle) {
  return Live<BuildLog>().Remove(handle) == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE
                                                    : ZE_RESULT_SUCCESS;
}

// Of a compiler that is not there, and of this driver, which has switches instead.
ze_result_t CheckOptionsOf(ze_device_handle_t device, uint32_t type) {
  if (!IsDeviceUnwrapped(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return type == 1 || type == 2 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ENUMERATION;
}

ze_result_t CompilerGetSupportedOptions(ze_device_handle_t device, uint32_t type, size_t* size,
                                        char* options) {
  const ze_result_t result = CheckOptionsOf(device, type);
  return result == ZE_RESULT_SUCCESS ? TellText("", size, options) : result;
}

ze_result_t CompilerIsOptionSupported(ze_device_handle_t device, uint32_t type, const char* option,
                                      const char*) {
  const ze_result_t result = CheckOptionsOf(device, type);
  if (result != ZE_RESULT_SUCCESS) return result;
  return option == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_POINTER
                           : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

ze_result_t GraphSetArgumentValue(level_zero::GraphHandle handle, uint32_t index,
                                  const void* pointer) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (pointer == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return graph->SetArgument(index, pointer);
}

// Finds list and graph of an append call.
ze_result_t FindBoth(ze_command_list_handle_t list_handle, level_zero::GraphHandle graph_handle,
                     std::shared_ptr<CommandList>* list, std::shared_ptr<Graph>* graph) {
  *list = Live<CommandList>().FindUnwrapped(list_handle);
  *graph = Live<Graph>().Find(graph_handle);
  if (*list == nullptr || *graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphAppendInitialize(ze_command_list_handle_t list_handle,
                                  level_zero::GraphHandle graph_handle, ze_event_handle_t signal,
                                  uint32_t waits, ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  std::shared_ptr<Graph> graph;
  ze_result_t result = FindBoth(list_handle, graph_handle, &list, &graph);
  if (result != ZE_RESULT_SUCCESS) return result;
  Command command;  // nothing to prepare: a function is ready when it is read
  result = ResolveEvents(signal, waits, wait_handles, &command);
  return result == ZE_RESULT_SUCCESS ? list->Append(std::move(command)) : result;
}

ze_result_t GraphAppendExecute(ze_command_list_handle_t list_handle,
                               level_zero::GraphHandle graph_handle, void* profiling_query,
                               ze_event_handle_t signal, uint32_t waits,
                               ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  std::shared_ptr<Graph> graph;
  ze_result_t result = FindBoth(list_handle, graph_handle, &list, &graph);
  if (result != ZE_RESULT_SUCCESS) return result;
  if (profiling_query != nullptr) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  Command command;
  result = ResolveEvents(signal, waits, wait_handles, &command);
  if (result != ZE_RESULT_SUCCESS) return result;
  ExecuteGraph execute;
  result = graph->Capture(&execute.arguments);
  if (result != ZE_RESULT_SUCCESS) return result;
  execute.graph = std::move(graph);
  command.work = std::move(execute);
  return list->Append(std::move(command));
}

ze_result_t GraphGetNativeBinary(level_zero::GraphHandle handle, size_t* size, uint8_t* bytes) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (size == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const size_t whole = graph->blob().size();
  if (bytes != nullptr) std::memcpy(bytes, graph->blob().data(), std::min(*size, whole));
  *size = whole;
  return ZE_RESULT_SUCCESS;
}

// Where they are, as long as the graph lives.
ze_result_t GraphGetNativeBinary2(level_zero::GraphHandle handle, size_t* size,
                                  const uint8_t** bytes) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (size == nullptr || bytes == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *size = graph->blob().size();
  *bytes = reinterpret_cast<const uint8_t*>(graph->blob().data());
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphDeviceGetProperties(ze_device_handle_t device,
                                     level_zero::DeviceGraphProperties* properties) {
  if (!IsDeviceUnwrapped(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  properties->graphExtensionVersion = level_zero::kGraphExtensionVersion;
  properties->compilerVersion = {1, 0};
  properties->graphFormatsSupported = level_zero::kGraphFormatNative;
  properties->maxOVOpsetVersionSupported = 0;
  return ZE_RESULT_SUCCESS;
}

// Its blobs are in no container that has a version, and there is no firmware.
ze_result_t GraphDeviceGetProperties2(ze_device_handle_t device,
                                      DeviceGraphProperties2* properties) {
  const ze_result_t result =
      GraphDeviceGetProperties(device, properties == nullptr ? nullptr : &properties->first);
  if (result != ZE_RESULT_SUCCESS) return result;
  properties->container = {};
  properties->runtime = {};
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphQueryContextMemory(ze_context_handle_t handle, uint32_t type,
                                    level_zero::GraphMemoryQuery* query) {
  const std::shared_ptr<Context> context = Live<Context>().FindUnwrapped(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (query == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (type == 0 || type > level_zero::kMemoryTypeProgramCache) {
    return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
  }
  *query = {};
  if (type != level_zero::kMemoryTypeDdr) return ZE_RESULT_SUCCESS;  // there are no caches
  query->total = GetSwitches()->capacity;
  query->allocated = context->counted_bytes;
  return ZE_RESULT_SUCCESS;
}

// The interface's later entries have types of their own, which no caller here needs.
template <class Function>
void* Untyped(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

const level_zero::GraphExtension& GetGraphExtension() {
  static const level_zero::GraphExtension table = {
      kEntry<"pfnCreate", &GraphCreate>,
      kSureEntry<"pfnDestroy", &GraphDestroy>,
      kSureEntry<"pfnGetProperties", &GraphGetProperties>,
      kSureEntry<"pfnGetArgumentProperties", &GraphGetArgumentProperties>,
      kEntry<"pfnSetArgumentValue", &GraphSetArgumentValue>,
      kEntry<"pfnAppendGraphInitialize", &GraphAppendInitialize>,
      kEntry<"pfnAppendGraphExecute", &GraphAppendExecute>,
      kSureEntry<"pfnGetNativeBinary", &GraphGetNativeBinary>,
      kSureEntry<"pfnDeviceGetGraphProperties", &GraphDeviceGetProperties>,
      Untyped(kSureEntry<"pfnGraphGetArgumentMetadata", &GraphGetArgumentMetadata>),
      kSureEntry<"pfnGetArgumentProperties2", &GraphGetArgumentProperties2>,
      kSureEntry<"pfnGetArgumentProperties3", &GraphGetArgumentProperties3>,
      Untyped(kSureEntry<"pfnQueryNetworkCreate", &GraphQueryNetworkCreate>),
      Untyped(kSureEntry<"pfnQueryNetworkDestroy", &GraphQueryNetworkDestroy>),
      Untyped(
          kSureEntry<"pfnQueryNetworkGetSupportedLayers", &GraphQueryNetworkGetSupportedLayers>),
      Untyped(kSureEntry<"pfnBuildLogGetString", &GraphBuildLogGetString>),
      // The second description is the first with flags behind it: caching and timing, neither here.
      Untyped(kEntry<"pfnCreate2", &GraphCreate>),
      Untyped(kSureEntry<"pfnQueryNetworkCreate2", &GraphQueryNetworkCreate>),
      kSureEntry<"pfnQueryContextMemory", &GraphQueryContextMemory>,
      Untyped(kSureEntry<"pfnDeviceGetGraphProperties2", &GraphDeviceGetProperties2>),
      Untyped(kSureEntry<"pfnGetNativeBinary2", &GraphGetNativeBinary2>),
      kSureEntry<"pfnGetProperties2", &GraphGetProperties2>,
      kEntry<"pfnGraphInitialize", &GraphInitialize>,
      Untyped(kSureEntry<"pfnCompilerGetSupportedOptions", &CompilerGetSupportedOptions>),
      Untyped(kSureEntry<"pfnCompilerIsOptionSupported", &CompilerIsOptionSupported>),
      Untyped(kEntry<"pfnCreate3", &GraphCreate3>),
      kSureEntry<"pfnGetProperties3", &GraphGetProperties3>,
      Untyped(kSureEntry<"pfnBuildLogGetString2", &GraphBuildLogGetString2>),
      Untyped(kSureEntry<"pfnBuildLogDestroy", &GraphBuildLogDestroy>),
  };
  return table;
}

}  // namespace npubank::software_npu
