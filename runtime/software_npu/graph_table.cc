#include "npubank/runtime/software_npu/graph_table.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/entry.h"
#include "npubank/runtime/software_npu/graph.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/queues/command_list.h"

namespace npubank::software_npu {
namespace {

using level_zero::GraphPrecision;

GraphPrecision PrecisionOf(ElementType element) {
  switch (element) {
    case ElementType::kF32:
      return GraphPrecision::kF32;
    case ElementType::kF16:
      return GraphPrecision::kF16;
    case ElementType::kBF16:
      return GraphPrecision::kBF16;
    case ElementType::kI32:
      return GraphPrecision::kI32;
    case ElementType::kU8:
      return GraphPrecision::kU8;
    default:
      return GraphPrecision::kUnknown;
  }
}

// How the extension numbers the types of its metadata.
uint32_t MetadataTypeOf(ElementType element) {
  switch (element) {
    case ElementType::kBF16:
      return 3;
    case ElementType::kF16:
      return 4;
    case ElementType::kF32:
      return 5;
    case ElementType::kI32:
      return 10;
    case ElementType::kU8:
      return 14;
    default:
      return 0;
  }
}

ze_result_t GraphCreate(ze_context_handle_t handle, ze_device_handle_t device,
                        const level_zero::GraphDesc* desc, level_zero::GraphHandle* out) {
  std::shared_ptr<Context> context = Live<Context>().FindUnwrapped(handle);
  if (context == nullptr || !IsDeviceUnwrapped(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr || desc->pInput == nullptr) {
    return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  }
  if (desc->inputSize == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (desc->format != level_zero::kGraphFormatNative) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  std::string blob(reinterpret_cast<const char*>(desc->pInput), desc->inputSize);
  absl::StatusOr<Function> function = ReadFunctionBlob(blob);
  if (!function.ok()) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  *out = Live<Graph>().Add(
      std::make_shared<Graph>(std::move(context), *std::move(function), std::move(blob)));
  return ZE_RESULT_SUCCESS;
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

ze_result_t GraphGetProperties(level_zero::GraphHandle handle,
                               level_zero::GraphProperties* properties) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  properties->numGraphArgs = static_cast<uint32_t>(graph->function().arguments.size());
  return ZE_RESULT_SUCCESS;
}

// The argument that a call asks about.
ze_result_t FindArgument(level_zero::GraphHandle handle, uint32_t index, const void* out,
                         FunctionArgument* argument) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (index >= graph->function().arguments.size()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *argument = graph->function().arguments[index];
  return ZE_RESULT_SUCCESS;
}

void SetName(char (&to)[level_zero::kGraphArgumentMaxName], const std::string& name) {
  std::snprintf(to, sizeof(to), "%s", name.c_str());
}

uint32_t DirectionOf(const FunctionArgument& argument) {
  return argument.kind == ArgumentKind::kInput ? level_zero::kGraphArgumentInput
                                               : level_zero::kGraphArgumentOutput;
}

void Describe(const FunctionArgument& argument, level_zero::GraphArgumentProperties* properties) {
  SetName(properties->name, argument.name);
  properties->type = DirectionOf(argument);
  const Shape& shape = argument.type.shape();
  for (int axis = 0; axis < level_zero::kGraphArgumentMaxDims; ++axis) {
    properties->dims[axis] = axis < shape.rank() ? static_cast<uint32_t>(shape.dim(axis)) : 1;
  }
  properties->networkPrecision = PrecisionOf(argument.type.element());
  properties->devicePrecision = properties->networkPrecision;
  properties->networkLayout = 0;
  properties->deviceLayout = 0;
}

ze_result_t GraphGetArgumentProperties(level_zero::GraphHandle handle, uint32_t index,
                                       level_zero::GraphArgumentProperties* properties) {
  FunctionArgument argument;
  const ze_result_t result = FindArgument(handle, index, properties, &argument);
  if (result == ZE_RESULT_SUCCESS) Describe(argument, properties);
  return result;
}

ze_result_t GraphGetArgumentProperties2(level_zero::GraphHandle handle, uint32_t index,
                                        GraphArgumentProperties2* properties) {
  FunctionArgument argument;
  const ze_result_t result = FindArgument(handle, index, properties, &argument);
  if (result != ZE_RESULT_SUCCESS) return result;
  Describe(argument, &properties->first);
  properties->quantization_scale = 1;
  properties->quantization_zero = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphGetArgumentProperties3(level_zero::GraphHandle handle, uint32_t index,
                                        GraphArgumentProperties3* properties) {
  FunctionArgument argument;
  const ze_result_t result = FindArgument(handle, index, properties, &argument);
  if (result != ZE_RESULT_SUCCESS) return result;
  Describe(argument, &properties->first);
  properties->quantization_scale = 1;
  properties->quantization_zero = 0;
  properties->rank = static_cast<uint32_t>(argument.type.shape().rank());
  SetName(properties->friendly_name, argument.name);
  SetName(properties->tensor_names[0], argument.name);
  properties->tensor_name_count = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t GraphGetArgumentMetadata(level_zero::GraphHandle handle, uint32_t index,
                                     GraphArgumentMetadata* metadata) {
  FunctionArgument argument;
  const ze_result_t result = FindArgument(handle, index, metadata, &argument);
  if (result != ZE_RESULT_SUCCESS) return result;
  metadata->type = DirectionOf(argument);
  metadata->data_type = MetadataTypeOf(argument.type.element());
  const Shape& shape = argument.type.shape();
  metadata->rank = static_cast<uint32_t>(std::min(shape.rank(), kGraphMetadataDims));
  for (uint32_t axis = 0; axis < metadata->rank; ++axis) {
    metadata->shape[axis] = static_cast<uint64_t>(shape.dim(static_cast<int>(axis)));
  }
  SetName(metadata->friendly_name, argument.name);
  SetName(metadata->tensor_names[0], argument.name);
  metadata->tensor_name_count = 1;
  SetName(metadata->input_name, argument.name);
  return ZE_RESULT_SUCCESS;
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

// Empty: nothing was built. A size of 0 asks for the size, which counts the ending zero.
ze_result_t GraphBuildLogGetString(level_zero::GraphHandle handle, uint32_t* size, char* log) {
  if (size == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (handle != nullptr && Live<Graph>().Find(handle) == nullptr) {
    return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  if (log != nullptr && *size != 0) log[0] = 0;
  *size = 1;
  return ZE_RESULT_SUCCESS;
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

ze_result_t GraphQueryContextMemory(ze_context_handle_t handle, uint32_t type,
                                    level_zero::GraphMemoryQuery* query) {
  const std::shared_ptr<Context> context = Live<Context>().FindUnwrapped(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (query == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (type != level_zero::kMemoryTypeDdr) return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
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
      Untyped(kSureEntry<"pfnGetArgumentProperties2", &GraphGetArgumentProperties2>),
      Untyped(kSureEntry<"pfnGetArgumentProperties3", &GraphGetArgumentProperties3>),
      Untyped(kSureEntry<"pfnQueryNetworkCreate", &GraphQueryNetworkCreate>),
      Untyped(kSureEntry<"pfnQueryNetworkDestroy", &GraphQueryNetworkDestroy>),
      Untyped(
          kSureEntry<"pfnQueryNetworkGetSupportedLayers", &GraphQueryNetworkGetSupportedLayers>),
      Untyped(kSureEntry<"pfnBuildLogGetString", &GraphBuildLogGetString>),
      // The second description is the first with flags behind it: caching and timing, neither here.
      Untyped(kEntry<"pfnCreate2", &GraphCreate>),
      Untyped(kSureEntry<"pfnQueryNetworkCreate2", &GraphQueryNetworkCreate>),
      kSureEntry<"pfnQueryContextMemory", &GraphQueryContextMemory>,
  };
  return table;
}

}  // namespace npubank::software_npu
