// Graph: one compiled function on the device, whatever compiler made it; its arguments are bound before
// each time it is appended.
//
//   NPUBANK_ASSIGN_OR_RETURN(Graph layer, Graph::Create(device, blob, "layer"));
//   NPUBANK_ASSIGN_OR_RETURN(auto arguments, layer.Arguments());   // what the driver says of it
//   NPUBANK_ASSIGN_OR_RETURN(bool more, layer.Initialize());
//   if (more) NPUBANK_RETURN_IF_ERROR(first.AppendGraphInitialize(layer.handle()));
//   NPUBANK_RETURN_IF_ERROR(layer.SetArgument(0, hidden));         // Level Zero memory
//   NPUBANK_RETURN_IF_ERROR(list.AppendGraph(layer.handle()));
//
// The driver takes the arguments' addresses when the graph is appended, so one graph serves many
// closures. Errors name the function. Unimplemented when the driver has no graph extension; when it does
// not take the blob what it returned (InvalidArgument of most): the blob is cut off, or of another
// device's compiler, as this project's stub is to a real NPU. Internal where what the driver says of
// arguments cannot be.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank::level_zero {

// What a driver says of an argument.
struct GraphArgument {
  std::string name;
  bool output = false;
  GraphPrecision precision = GraphPrecision::kUnknown;  // of its elements in memory
  std::vector<uint32_t> dims;                           // outermost first
  // Whether the driver told how many there are; if not, ones at the end may be none.
  bool ranked = false;
};

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

  // Inputs first. By the newest call that the driver has for it.
  absl::StatusOr<std::vector<GraphArgument>> Arguments() const;
  // What a driver wants done once before the first execution; true where that is a command too: a list
  // that AppendGraphInitialize was recorded in must have run by then.
  absl::StatusOr<bool> Initialize();
  absl::Status SetArgument(uint32_t index, const void* address);
  GraphHandle handle() const { return handle_; }

 private:
  Graph() = default;
  absl::StatusOr<GraphArgument> Argument(uint32_t index) const;
  std::shared_ptr<Device> device_;
  std::string name_;
  GraphHandle handle_ = nullptr;
  LiveObject live_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_GRAPH_H_
