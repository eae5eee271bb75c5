// Graph: one compiled function on the device; its arguments are bound before each time it is
// appended.
//
//   NPUBANK_ASSIGN_OR_RETURN(Graph layer, Graph::Create(device, function.blob, "layer"));
//   NPUBANK_RETURN_IF_ERROR(layer.SetArgument(0, hidden));   // Level Zero memory
//   NPUBANK_RETURN_IF_ERROR(list.AppendGraph(layer.handle()));
//
// The driver takes the arguments' addresses when the graph is appended, so one graph serves many
// closures. Errors: Unimplemented when the driver has no graph extension or does not take the blob
// (a real NPU does not take this project's stub blobs: use the software device to execute, or
// --load-only).
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank::level_zero {

class Graph {
 public:
  static absl::StatusOr<Graph> Create(std::shared_ptr<Device> device, absl::string_view blob,
                                      absl::string_view name);
  Graph(Graph&& other) noexcept
      : device_(std::move(other.device_)),
        name_(std::move(other.name_)),
        handle_(std::exchange(other.handle_, nullptr)),
        live_(std::move(other.live_)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph();

  absl::Status SetArgument(uint32_t index, const void* address);
  GraphHandle handle() const { return handle_; }

 private:
  Graph() = default;
  std::shared_ptr<Device> device_;
  std::string name_;
  GraphHandle handle_ = nullptr;
  LiveObject live_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_
