#include "npubank/runtime/software_npu/graphs/graph.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "npubank/runtime/software_npu/controls/switches.h"

namespace npubank::software_npu {
namespace {

uint64_t ElementBytes(ElementType element) {
  return static_cast<uint64_t>(BitWidth(element) + 7) / 8;
}

}  // namespace

Graph::Graph(std::shared_ptr<Context> context, Function function, std::string blob)
    : context_(std::move(context)),
      program_(std::move(function)),
      blob_(std::move(blob)),
      arguments_(program_.function().arguments.size(), nullptr) {}

ze_result_t Graph::Resolve(uint32_t index, const void* pointer, Place* place) const {
  const TensorType& type = function().arguments[index].type;
  const uint64_t alignment =
      std::max(GetSwitches()->argument_alignment, ElementBytes(type.element()));
  if (reinterpret_cast<uint64_t>(pointer) % alignment != 0) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  std::optional<Place> found = AddressMap::Get().Find(context_.get().get(), pointer);
  if (!found.has_value()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const Pins pins({*found});
  if (found->Access(type.bytes(), Intent::kRead) == nullptr) {
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
    const uint64_t bytes = function().arguments[i].type.bytes();
    const Intent intent = program_.Writes(i) ? Intent::kWrite : Intent::kRead;
    pointers.push_back(arguments[i].Access(bytes, intent));
    if (pointers.back() == nullptr) return false;
  }
  const bool done = program_.Run(pointers);
  return done && std::all_of(arguments.begin(), arguments.end(),
                             [](const Place& place) { return place.allocation->intact(); });
}

}  // namespace npubank::software_npu
