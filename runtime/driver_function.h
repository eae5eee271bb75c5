// DriverFunction: a compiled function as a driver has it: its graph, and what it takes and gives.
//
//   NPUBANK_ASSIGN_OR_RETURN(DriverFunction layer, DriverFunction::Create(device, blob, "layer"));
//   for (const level_zero::GraphArgument& argument : layer.arguments())
//     std::cout << argument.name << " " << TypeText(argument);          // "weight F16[64,64]"
//   NPUBANK_RETURN_IF_ERROR(CheckTakes(layer.arguments()[1], weight.type()));
//
// The blob is the driver's own: nobody here reads it. What can be known of the function is what the
// driver says, and that is asked once, when it is made.
//
// Ownership: owns its graph, which keeps the device. Threads: one at a time. Errors: those of
// level_zero::Graph, naming the function.
#ifndef NPUBANK_RUNTIME_DRIVER_FUNCTION_H_
#define NPUBANK_RUNTIME_DRIVER_FUNCTION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/runtime/level_zero/graph.h"

namespace npubank {

class DriverFunction {
 public:
  static absl::StatusOr<DriverFunction> Create(std::shared_ptr<level_zero::Device> device,
                                               absl::string_view blob, absl::string_view name);

  // Inputs first.
  const std::vector<level_zero::GraphArgument>& arguments() const { return arguments_; }
  level_zero::Graph& graph() { return graph_; }

 private:
  DriverFunction(level_zero::Graph graph, std::vector<level_zero::GraphArgument> arguments)
      : graph_(std::move(graph)), arguments_(std::move(arguments)) {}

  level_zero::Graph graph_;
  std::vector<level_zero::GraphArgument> arguments_;
};

// What this project calls these elements; nullopt for what it does not have (unknown, dynamic,
// bits).
std::optional<ElementType> ElementOf(level_zero::GraphPrecision precision);

// "F16[64,64]"; "precision 8 [64]" for elements that are not known here.
std::string TypeText(const level_zero::GraphArgument& argument);

// Whether memory of this type can be the argument. InvalidArgument, saying both types. Where the
// driver does not tell how many dimensions there are, ones at the end count as none.
absl::Status CheckTakes(const level_zero::GraphArgument& argument, const TensorType& type);

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_DRIVER_FUNCTION_H_
