#include "npubank/runtime/software_npu/graphs/graph_arguments.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "npubank/runtime/software_npu/graphs/graph.h"
#include "npubank/runtime/software_npu/handles.h"

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
    case ElementType::kF64:
      return GraphPrecision::kF64;
    case ElementType::kF8E4M3:
      return GraphPrecision::kF8E4M3;
    case ElementType::kF8E5M2:
      return GraphPrecision::kF8E5M2;
    case ElementType::kI64:
      return GraphPrecision::kI64;
    case ElementType::kI32:
      return GraphPrecision::kI32;
    case ElementType::kI16:
      return GraphPrecision::kI16;
    case ElementType::kI8:
      return GraphPrecision::kI8;
    case ElementType::kI4:
      return GraphPrecision::kI4;
    case ElementType::kU64:
      return GraphPrecision::kU64;
    case ElementType::kU32:
      return GraphPrecision::kU32;
    case ElementType::kU16:
      return GraphPrecision::kU16;
    case ElementType::kU8:
      return GraphPrecision::kU8;
    case ElementType::kU4:
      return GraphPrecision::kU4;
    case ElementType::kNF4:
      return GraphPrecision::kNF4;
    case ElementType::kBool:
      return GraphPrecision::kBoolean;
  }
  return GraphPrecision::kUnknown;
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

// What the second and third entry tell beside that.
template <class Properties>
ze_result_t FindAndDescribe(level_zero::GraphHandle handle, uint32_t index, Properties* properties,
                            FunctionArgument* argument) {
  const ze_result_t result = FindArgument(handle, index, properties, argument);
  if (result != ZE_RESULT_SUCCESS) return result;
  Describe(*argument, &properties->first);
  properties->quantizationScale = 1;
  properties->quantizationZero = 0;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

ze_result_t GraphGetArgumentProperties(level_zero::GraphHandle handle, uint32_t index,
                                       level_zero::GraphArgumentProperties* properties) {
  FunctionArgument argument;
  const ze_result_t result = FindArgument(handle, index, properties, &argument);
  if (result == ZE_RESULT_SUCCESS) Describe(argument, properties);
  return result;
}

ze_result_t GraphGetArgumentProperties2(level_zero::GraphHandle handle, uint32_t index,
                                        level_zero::GraphArgumentProperties2* properties) {
  FunctionArgument argument;
  return FindAndDescribe(handle, index, properties, &argument);
}

ze_result_t GraphGetArgumentProperties3(level_zero::GraphHandle handle, uint32_t index,
                                        level_zero::GraphArgumentProperties3* properties) {
  FunctionArgument argument;
  const ze_result_t result = FindAndDescribe(handle, index, properties, &argument);
  if (result != ZE_RESULT_SUCCESS) return result;
  properties->rank = static_cast<uint32_t>(argument.type.shape().rank());
  SetName(properties->friendlyName, argument.name);
  SetName(properties->tensorNames[0], argument.name);
  properties->tensorNameCount = 1;
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

}  // namespace npubank::software_npu
