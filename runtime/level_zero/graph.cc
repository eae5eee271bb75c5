#include "npubank/runtime/level_zero/graph.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {

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
  absl::Status status = Annotate(ZeStatus(result, "pfnCreate"), absl::StrCat("function ", name));
  // What a driver that expects its own compiler's output says varies; out of memory is another
  // matter.
  if (owner.software() || absl::IsResourceExhausted(status)) return status;
  return absl::UnimplementedError(
      absl::StrCat(status.message(), ": ", owner.name(),
                   " does not take blobs of this project's compiler stub; execute on the software "
                   "device, or load only"));
}

Graph::~Graph() {
  if (handle_) device_->graphs()->pfnDestroy(handle_);
}

absl::Status Graph::SetArgument(uint32_t index, const void* address) {
  return Annotate(ZeStatus(device_->graphs()->pfnSetArgumentValue(handle_, index, address),
                           "pfnSetArgumentValue"),
                  absl::StrCat("function ", name_, " argument ", index));
}

}  // namespace npubank::level_zero
