#include "npubank/runtime/software_npu/graph.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/status/statusor.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/entry.h"
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

uint64_t ElementBytes(ElementType element) {
  return static_cast<uint64_t>(BitWidth(element) + 7) / 8;
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

ze_result_t GraphGetArgumentProperties(level_zero::GraphHandle handle, uint32_t index,
                                       level_zero::GraphArgumentProperties* properties) {
  const std::shared_ptr<Graph> graph = Live<Graph>().Find(handle);
  if (graph == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (index >= graph->function().arguments.size()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const FunctionArgument& argument = graph->function().arguments[index];
  std::snprintf(properties->name, sizeof(properties->name), "%s", argument.name.c_str());
  properties->type = argument.kind == ArgumentKind::kInput ? level_zero::kGraphArgumentInput
                                                           : level_zero::kGraphArgumentOutput;
  const Shape& shape = argument.type.shape();
  for (int axis = 0; axis < level_zero::kGraphArgumentMaxDims; ++axis) {
    properties->dims[axis] = axis < shape.rank() ? static_cast<uint32_t>(shape.dim(axis)) : 1;
  }
  properties->networkPrecision = PrecisionOf(argument.type.element());
  properties->devicePrecision = properties->networkPrecision;
  properties->networkLayout = 0;
  properties->deviceLayout = 0;
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
  query->allocated = context->live_bytes;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

Graph::Graph(std::shared_ptr<Context> context, Function function, std::string blob)
    : context_(std::move(context)),
      program_(std::move(function)),
      blob_(std::move(blob)),
      arguments_(program_.function().arguments.size(), nullptr) {}

ze_result_t Graph::Resolve(uint32_t index, const void* pointer, Place* place) const {
  const TensorType& type = function().arguments[index].type;
  if (reinterpret_cast<uint64_t>(pointer) % ElementBytes(type.element()) != 0) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  std::optional<Place> found = AddressMap::Get().Find(context_.get().get(), pointer);
  if (!found.has_value()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const Pins pins({*found});
  if (found->Access(static_cast<uint64_t>(type.bytes()), Intent::kRead) == nullptr) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  *place = std::move(*found);
  return ZE_RESULT_SUCCESS;
}

ze_result_t Graph::SetArgument(uint32_t index, const void* pointer) {
  if (index >= function().arguments.size()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Place place;
  if (const ze_result_t result = Resolve(index, pointer, &place); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  MutexLock lock(mutex_);
  arguments_[index] = pointer;
  return ZE_RESULT_SUCCESS;
}

ze_result_t Graph::Capture(std::vector<Place>* places) const {
  std::vector<const void*> pointers;
  {
    MutexLock lock(mutex_);
    pointers = arguments_;
  }
  places->resize(pointers.size());
  for (uint32_t i = 0; i < pointers.size(); ++i) {
    if (pointers[i] == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    const ze_result_t result = Resolve(i, pointers[i], &(*places)[i]);
    if (result != ZE_RESULT_SUCCESS) return result;
  }
  return ZE_RESULT_SUCCESS;
}

bool Graph::Execute(const std::vector<Place>& arguments) const {
  const Pins pins(arguments);
  std::vector<uint8_t*> pointers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto bytes = static_cast<uint64_t>(function().arguments[i].type.bytes());
    const Intent intent = program_.Writes(i) ? Intent::kWrite : Intent::kRead;
    pointers.push_back(arguments[i].Access(bytes, intent));
    if (pointers.back() == nullptr) return false;
  }
  return program_.Run(pointers);
}

const level_zero::GraphExtension& GetGraphExtension() {
  static constexpr level_zero::GraphExtension kTable = {
      kEntry<"pfnCreate", &GraphCreate>,
      kSureEntry<"pfnDestroy", &GraphDestroy>,
      kSureEntry<"pfnGetProperties", &GraphGetProperties>,
      kSureEntry<"pfnGetArgumentProperties", &GraphGetArgumentProperties>,
      kEntry<"pfnSetArgumentValue", &GraphSetArgumentValue>,
      kEntry<"pfnAppendGraphInitialize", &GraphAppendInitialize>,
      kEntry<"pfnAppendGraphExecute", &GraphAppendExecute>,
      kSureEntry<"pfnGetNativeBinary", &GraphGetNativeBinary>,
      kSureEntry<"pfnDeviceGetGraphProperties", &GraphDeviceGetProperties>,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      kSureEntry<"pfnQueryContextMemory", &GraphQueryContextMemory>,
  };
  return kTable;
}

}  // namespace npubank::software_npu
