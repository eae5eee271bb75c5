#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "npubank/compiler_stub/planner/files/example_graphs.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using Names = std::map<std::string, int>;

absl::StatusOr<std::vector<int>> Numbers(const Json& op, const char* key, const Names& names) {
  const auto list = op.find(key);
  if (list == op.end() || !list->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("needs a list '", key, "'"));
  }
  std::vector<int> numbers;
  for (const Json& name : *list) {
    if (!name.is_string())
      return absl::InvalidArgumentError(absl::StrCat("'", key, "' needs names"));
    const auto found = names.find(name.get<std::string>());
    if (found == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("names '", name.get<std::string>(), "', which is no tensor"));
    }
    numbers.push_back(found->second);
  }
  return numbers;
}

absl::StatusOr<PlanOp> ParseOp(const Json& json, const Names& names) {
  PlanOp op;
  const auto kind = json.find("kind");
  if (kind == json.end() || !kind->is_string()) return absl::InvalidArgumentError("needs a 'kind'");
  op.kind = kind->get<std::string>();
  NPUBANK_ASSIGN_OR_RETURN(op.inputs, Numbers(json, "inputs", names));
  NPUBANK_ASSIGN_OR_RETURN(op.outputs, Numbers(json, "outputs", names));
  if (const auto in_place = json.find("inplace"); in_place != json.end()) {
    if (!in_place->is_array()) return absl::InvalidArgumentError("'inplace' is not a list");
    for (const Json& position : *in_place) {
      if (!position.is_number_unsigned() || position.get<uint64_t>() >= op.inputs.size()) {
        return absl::InvalidArgumentError("'inplace' names no input");
      }
      op.in_place.push_back(position.get<int>());
    }
  }
  op.is_add = op.kind == "add" && op.inputs.size() == 2;
  op.can_accumulate = op.kind == "conv" || op.kind == "matmul" || op.kind == "bmm";
  return op;
}

absl::Status ParseTensor(const std::string& name, const Json& tensor, PlanGraph* graph) {
  const auto size = tensor.is_object() ? tensor.find("size") : tensor.end();
  if (!tensor.is_object() || size == tensor.end() || !size->is_number_unsigned()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' needs a 'size' in bytes"));
  }
  const auto external = tensor.find("external");
  graph->AddValue(name, size->get<uint64_t>(),
                  external != tensor.end() && external->is_boolean() && external->get<bool>());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanGraph> ParseGraphJson(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the graph is not a JSON object");
  const auto tensors = json.find("tensors");
  const auto ops = json.find("ops");
  if (tensors == json.end() || !tensors->is_object() || ops == json.end() || !ops->is_array()) {
    return absl::InvalidArgumentError("the graph needs an object 'tensors' and a list 'ops'");
  }
  PlanGraph graph;
  Names names;
  for (const auto& [name, tensor] : tensors->items()) {
    names[name] = static_cast<int>(graph.values.size());
    NPUBANK_RETURN_IF_ERROR(ParseTensor(name, tensor, &graph));
  }
  if (const auto align = json.find("align"); align != json.end()) {
    if (!align->is_number_unsigned()) {
      return absl::InvalidArgumentError("'align' is not a number of bytes");
    }
    graph.alignment = align->get<uint64_t>();
  }
  for (const Json& op : *ops) {
    const std::string name = op.is_object() && op.contains("name") && op["name"].is_string()
                                 ? op["name"].get<std::string>()
                                 : absl::StrCat("#", graph.ops.size());
    absl::StatusOr<PlanOp> parsed =
        op.is_object() ? ParseOp(op, names) : absl::InvalidArgumentError("is not an object");
    if (!parsed.ok()) return Annotate(parsed.status(), absl::StrCat("operation '", name, "'"));
    parsed->name = name;
    graph.ops.push_back(*std::move(parsed));
  }
  if (json.contains("outputs")) {
    NPUBANK_ASSIGN_OR_RETURN(const std::vector<int> outputs, Numbers(json, "outputs", names));
    for (int output : outputs) graph.values[output].kept = true;
  }
  return graph;
}

}  // namespace npubank
