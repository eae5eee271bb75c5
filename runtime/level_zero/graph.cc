#include "npubank/runtime/level_zero/graph.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

constexpr uint32_t kMostArguments = 1 << 16;  // what a driver says is bounded too

}  // namespace

absl::StatusOr<Graph> Graph::Create(std::shared_ptr<Device> device, absl::string_view blob,
                                    absl::string_view name) {
  if (!device->graphs())
    return absl::UnimplementedError(absl::StrCat("the driver of ", device->name(),
                                                 " has no graph extension: it cannot execute"));
  Graph graph;
  graph.device_ = std::move(device);
  graph.name_ = std::string(name);
  GraphDesc desc;
  desc.inputSize = blob.size();
  desc.pInput = reinterpret_cast<const uint8_t*>(blob.data());
  const Device& owner = *graph.device_;
  const ze_result_t result =
      owner.graphs()->pfnCreate(owner.context(), owner.device(), &desc, &graph.handle_);
  if (result == ZE_RESULT_SUCCESS) {
    graph.live_ = LiveObject("Level Zero graph", name);
    return graph;
  }
  graph.handle_ = nullptr;
  const std::string what = absl::StrCat("function '", name, "'");
  const absl::Status status = ZeStatus(result, "pfnCreate");
  if (absl::IsResourceExhausted(status)) return Annotate(status, what);
  return Annotate(status, absl::StrCat(what, ": ", owner.name(), " does not take the blob of ",
                                       blob.size(),
                                       " bytes, which must be whole and made for this device"));
}

Graph::~Graph() {
  if (handle_) device_->graphs()->pfnDestroy(handle_);
}

absl::StatusOr<std::vector<GraphArgument>> Graph::Arguments() const {
  GraphProperties properties;
  NPUBANK_RETURN_IF_ERROR(Annotate(
      ZeStatus(device_->graphs()->pfnGetProperties(handle_, &properties), "pfnGetProperties"),
      absl::StrCat("function '", name_, "'")));
  if (properties.numGraphArgs > kMostArguments)
    return absl::InternalError(absl::StrCat("function '", name_, "': the driver says it has ",
                                            properties.numGraphArgs, " arguments, more than ",
                                            kMostArguments));
  std::vector<GraphArgument> arguments;
  for (uint32_t i = 0; i < properties.numGraphArgs; ++i) {
    NPUBANK_ASSIGN_OR_RETURN(GraphArgument argument, Argument(i));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

// The later structures begin as the first does. A driver may have an entry and not the feature.
absl::StatusOr<GraphArgument> Graph::Argument(uint32_t index) const {
  const GraphExtension& graphs = *device_->graphs();
  GraphArgumentProperties3 third;
  GraphArgumentProperties2 second;
  GraphArgumentProperties* told = &third.first;
  ze_result_t result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  if (device_->graph_version() >= GraphVersion(1, 2) && graphs.pfnGetArgumentProperties3)
    result = graphs.pfnGetArgumentProperties3(handle_, index, &third);
  const bool ranked = result == ZE_RESULT_SUCCESS;
  if (!ranked) told = &second.first;
  if (result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE &&
      device_->graph_version() >= GraphVersion(1, 1) && graphs.pfnGetArgumentProperties2)
    result = graphs.pfnGetArgumentProperties2(handle_, index, &second);
  if (result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE)
    result = graphs.pfnGetArgumentProperties(handle_, index, told);
  const std::string what = absl::StrCat("function '", name_, "', argument ", index);
  NPUBANK_RETURN_IF_ERROR(Annotate(ZeStatus(result, "pfnGetArgumentProperties"), what));
  if (told->type > kGraphArgumentOutput || (ranked && third.rank > kGraphArgumentMaxDims))
    return absl::InternalError(absl::StrCat(what, ": the driver says it is of kind ", told->type,
                                            " and has ", third.rank, " dimensions"));
  const uint32_t rank = ranked ? third.rank : kGraphArgumentMaxDims;
  GraphArgument argument;
  argument.name.assign(told->name, strnlen(told->name, sizeof(told->name)));
  argument.output = told->type == kGraphArgumentOutput;
  argument.precision = told->devicePrecision != GraphPrecision::kUnknown ? told->devicePrecision
                                                                         : told->networkPrecision;
  argument.dims.assign(told->dims, told->dims + rank);
  argument.ranked = ranked;
  return argument;
}

absl::StatusOr<bool> Graph::Initialize() {
  const GraphExtension& graphs = *device_->graphs();
  GraphProperties2 properties;
  // Older drivers do not say, and want the command.
  properties.initStageRequired = kGraphStageCommandList;
  if (device_->graph_version() >= GraphVersion(1, 8) && graphs.pfnGetProperties2)
    NPUBANK_RETURN_IF_ERROR(
        Annotate(ZeStatus(graphs.pfnGetProperties2(handle_, &properties), "pfnGetProperties2"),
                 absl::StrCat("function '", name_, "'")));
  if ((properties.initStageRequired & kGraphStageInitialize) && graphs.pfnGraphInitialize)
    NPUBANK_RETURN_IF_ERROR(
        Annotate(ZeStatus(graphs.pfnGraphInitialize(handle_), "pfnGraphInitialize"),
                 absl::StrCat("function '", name_, "'")));
  return (properties.initStageRequired & kGraphStageCommandList) &&
         graphs.pfnAppendGraphInitialize != nullptr;
}

absl::Status Graph::SetArgument(uint32_t index, const void* address) {
  const ze_result_t result = device_->graphs()->pfnSetArgumentValue(handle_, index, address);
  std::string what = absl::StrCat("function '", name_, "', argument ", index);
  if (result == ZE_RESULT_ERROR_INVALID_ARGUMENT) {
    // A driver does not say what it minds. What it cannot be asked for, and may want more of, is this.
    const auto at = reinterpret_cast<uintptr_t>(address);
    absl::StrAppend(&what, ", at a multiple of ", at & (~at + 1), " and of nothing more; for a device that wants more, ",
                    "open its memory with a larger argument_alignment (--argument-alignment)");
  }
  return Annotate(ZeStatus(result, "pfnSetArgumentValue"), what);
}

}  // namespace npubank::level_zero
