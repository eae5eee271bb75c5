#include "npubank/tests/support/manifest_writer.h"

#include <fstream>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/block_planes.h"
#include "npubank/lazy_tensor/kernels/blocks.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

std::string ElementOf(const TensorType& type) {
  return std::string(ElementTypeName(type.element()));
}

std::vector<int64_t> DimsOf(const TensorType& type) {
  const absl::Span<const int64_t> dims = type.shape().dims();
  return {dims.begin(), dims.end()};
}

const char* LayoutName(NibbleLayout layout) {
  constexpr const char* kNames[] = {"", "rows", "columns", "columns_plus_one", "columns_awq",
                                    "bytes", "bytes_plus_one", "byte_rows"};
  return kNames[static_cast<int>(layout)];
}

// The last step of a recipe, and how it begins where that is its only one.
struct StepOf {
  const Recipe& recipe;

  Json Input(size_t i) const { return WordsOf(*recipe.inputs()[i]); }

  Json operator()(const ConstantOp& op) const { return op.name; }
  Json operator()(const SplatOp& op) const {
    return {
        {"splat",
         {{"type", ElementOf(recipe.type())}, {"dims", DimsOf(recipe.type())}, {"bits", op.bits}}}};
  }
  Json operator()(const ConcatOp& op) const {
    Json of = Json::array();
    for (size_t i = 0; i < recipe.inputs().size(); ++i) of.push_back(Input(i));
    return {{"concat", {{"axis", op.axis}, {"of", std::move(of)}}}};
  }
  Json operator()(const SliceOp& op) const {
    return {{"slice", {{"start", op.start}, {"size", DimsOf(recipe.type())}}}};
  }
  Json operator()(const ReshapeOp&) const { return {{"reshape", DimsOf(recipe.type())}}; }
  Json operator()(const PermuteOp& op) const { return {{"permute", op.order}}; }
  Json operator()(const ConvertOp&) const { return {{"convert", ElementOf(recipe.type())}}; }
  Json operator()(const UnpackOp&) const {
    Json with = {{"scale", Input(1)}, {"to", ElementOf(recipe.type())}};
    if (recipe.inputs().size() > 2) with["zero"] = Input(2);
    return {{"unpack", std::move(with)}};
  }
  Json operator()(const GatherOp&) const { return {{"gather", {{"table", Input(1)}}}}; }
  Json operator()(const ShiftOp&) const { return {{"shift", Json::object()}}; }
  Json operator()(const UnpackNibblesOp& op) const {
    return {{"unpack_nibbles", LayoutName(op.layout)}};
  }
  Json operator()(const DequantizeBlocksOp& op) const {
    return {{"dequantize_blocks",
             {{"format", kernels::BlockFormatName(op.format)}, {"to", ElementOf(recipe.type())}}}};
  }
  Json operator()(const CopyBlockPlaneOp& op) const {
    return {{"copy_block_plane",
             {{"format", kernels::BlockFormatName(op.format)},
              {"plane", kernels::BlockPlaneName(op.plane)}}}};
  }
};

Json ValueJson(const SubmodelDescription::Value& value) {
  constexpr const char* kPlaces[] = {"input", "output", "state", "arena", "scratch"};
  Json json = {{"name", value.name},
               {"type", ElementOf(value.type)},
               {"dims", DimsOf(value.type)},
               {"place", kPlaces[static_cast<int>(value.placement)]}};
  if (value.placement >= SubmodelDescription::Placement::kArena) json["offset"] = value.offset;
  return json;
}

Json CallJson(const SubmodelDescription& submodel, const SubmodelDescription::Call& call) {
  Json arguments = Json::array();
  for (const SubmodelDescription::Argument& argument : call.arguments) {
    const std::string& bound =
        argument.weight ? submodel.weights[argument.index] : submodel.values[argument.index].name;
    arguments.push_back({{"name", argument.name}, {argument.weight ? "weight" : "value", bound}});
  }
  return {{"name", call.name},
          {"function", submodel.functions[call.function].name},
          {"arguments", std::move(arguments)}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

Json WordsOf(const Recipe& recipe) {
  const bool begins = std::holds_alternative<ConstantOp>(recipe.op()) ||
                      std::holds_alternative<SplatOp>(recipe.op()) ||
                      std::holds_alternative<ConcatOp>(recipe.op());
  Json words = begins ? Json::array() : WordsOf(*recipe.inputs()[0]);
  words.push_back(std::visit(StepOf{recipe}, recipe.op()));
  return words;
}

absl::StatusOr<std::string> WriteManifest(const SubmodelDescription& submodel,
                                          const std::string& folder) {
  Json root = {{"npubank_manifest", 1},
               {"name", submodel.name},
               {"arena_bytes", submodel.arena_bytes},
               {"functions", Json::array()},
               {"values", Json::array()},
               {"weights", Json::array()},
               {"calls", Json::array()}};
  for (size_t i = 0; i < submodel.functions.size(); ++i) {
    const std::string file = absl::StrCat(submodel.name, ".", i, ".blob");
    WriteFile(absl::StrCat(folder, "/", file), submodel.functions[i].blob);
    root["functions"].push_back({{"name", submodel.functions[i].name}, {"file", file}});
  }
  for (const SubmodelDescription::Value& value : submodel.values)
    root["values"].push_back(ValueJson(value));
  for (size_t i = 0; i < submodel.weights.size(); ++i) {
    NPUBANK_ASSIGN_OR_RETURN(const RecipePtr recipe, submodel.recipes->Make(i));
    root["weights"].push_back({{"name", submodel.weights[i]}, {"tensor", WordsOf(*recipe)}});
    if (!submodel.weight_alignments.empty())
      root["weights"].back()["alignment"] = submodel.weight_alignments[i];
  }
  for (const SubmodelDescription::Call& call : submodel.calls)
    root["calls"].push_back(CallJson(submodel, call));
  const std::string path = absl::StrCat(folder, "/", submodel.name, ".json");
  WriteFile(path, root.dump(1));
  return path;
}

}  // namespace npubank
