#include "npubank/lazy_tensor/recipe/recipe_list.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_internal.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

std::atomic<uint64_t> recipes_made{0};

absl::string_view BaseName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

std::optional<uint32_t> FileOf(const SourceIndex& index, const EncodedRecipes::SourceFacts& facts) {
  std::optional<uint32_t> same_name;
  for (uint32_t i = 0; i < index.file_count(); ++i) {
    const SourceIndex::File& file = index.file(i);
    if (file.identity == facts.identity) return i;
    if (file.size == facts.size && BaseName(file.name) == BaseName(facts.name)) same_name = i;
  }
  return same_name;
}

// Makes the Recipe that a node stands for, from inputs that are made.
struct Maker {
  std::vector<RecipePtr> inputs;
  const TensorType& type;

  absl::StatusOr<RecipePtr> operator()(const ConstantOp&) const {
    return absl::InternalError("a constant is made over its source");
  }
  absl::StatusOr<RecipePtr> operator()(const ConcatOp& op) const {
    return Recipe::Concat(inputs, op.axis);
  }
  absl::StatusOr<RecipePtr> operator()(const SliceOp& op) const {
    return Recipe::Slice(inputs[0], op.start, type.shape().dims());
  }
  absl::StatusOr<RecipePtr> operator()(const ReshapeOp&) const {
    return Recipe::Reshape(inputs[0], type.shape().dims());
  }
  absl::StatusOr<RecipePtr> operator()(const PermuteOp& op) const {
    return Recipe::Permute(inputs[0], op.order);
  }
  absl::StatusOr<RecipePtr> operator()(const ConvertOp&) const {
    return Recipe::Convert(inputs[0], type.element());
  }
  absl::StatusOr<RecipePtr> operator()(const SplatOp& op) const {
    return Recipe::Splat(type, op.bits);
  }
  absl::StatusOr<RecipePtr> operator()(const UnpackOp&) const {
    return Recipe::Unpack(inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : nullptr,
                          type.element());
  }
  absl::StatusOr<RecipePtr> operator()(const GatherOp&) const {
    return Recipe::Gather(inputs[0], inputs[1]);
  }
  absl::StatusOr<RecipePtr> operator()(const ShiftOp&) const { return Recipe::Shift(inputs[0]); }
  absl::StatusOr<RecipePtr> operator()(const UnpackNibblesOp& op) const {
    return Recipe::UnpackNibbles(inputs[0], op.layout);
  }
  absl::StatusOr<RecipePtr> operator()(const DequantizeBlocksOp& op) const {
    return Recipe::DequantizeBlocks(inputs[0], op.format, type.element());
  }
  absl::StatusOr<RecipePtr> operator()(const CopyBlockPlaneOp& op) const {
    return Recipe::CopyBlockPlane(inputs[0], op.format, op.plane);
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecipeList>> RecipeList::Bind(
    absl::string_view bytes, std::shared_ptr<const SourceIndex> index) {
  if (index == nullptr) {
    return absl::InvalidArgumentError("recipes cannot be bound to an index that is null");
  }
  NPUBANK_ASSIGN_OR_RETURN(EncodedRecipes encoded, EncodedRecipes::Open(bytes));
  std::shared_ptr<RecipeList> list(new RecipeList(std::move(encoded), std::move(index)));
  NPUBANK_RETURN_IF_ERROR(list->BindSources());
  NPUBANK_RETURN_IF_ERROR(list->Fold());
  return list;
}

absl::StatusOr<std::shared_ptr<const RecipeList>> RecipeList::Of(
    const RecipePtr& recipe, std::shared_ptr<const SourceIndex> index) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes, EncodeRecipes({recipe}));
  NPUBANK_ASSIGN_OR_RETURN(auto list, Bind(bytes, std::move(index)));
  if (list->digest(0) == recipe->digest()) return list;
  return absl::InvalidArgumentError(
      absl::StrCat(list->index()->listing(), " is not what '", list->Describe(0), "' was made of"));
}

absl::Status RecipeList::BindSources() {
  for (size_t i = 0; i < encoded_.source_count(); ++i) {
    NPUBANK_ASSIGN_OR_RETURN(const EncodedRecipes::SourceFacts facts, encoded_.source(i));
    const std::optional<uint32_t> file = FileOf(*index_, facts);
    if (!file.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the recipes are over '", facts.name, "' of ", facts.size,
                       " bytes, which is not among the files of ", index_->listing(),
                       ": compile the model again"));
    }
    files_.push_back(*file);
  }
  return absl::OkStatus();
}

absl::Status RecipeList::Fold() {
  std::vector<Digest> digests;
  std::vector<Digest> stamps;
  std::vector<int> depths;
  std::vector<bool> permuted;
  size_t input_count = 0;
  std::vector<TensorType> types;
  for (size_t i = 0; i < encoded_.node_count(); ++i) {
    absl::StatusOr<EncodedRecipes::Node> read = encoded_.node(i);
    if (!read.ok()) return Annotate(read.status(), absl::StrCat("recipe step ", i));
    std::vector<Digest> inputs;
    std::vector<Digest> input_stamps;
    int depth = 1;
    for (const uint32_t input : read->inputs) {
      inputs.push_back(digests[input]);
      input_stamps.push_back(stamps[input]);
      depth = std::max(depth, depths[input] + 1);
    }
    input_count += inputs.size();
    if (depth > Recipe::kMaxDepth || input_count > EncodedRecipes::kMaxInputs) {
      return absl::InvalidArgumentError(absl::StrCat("recipe step ", i, " is ", depth,
                                                     " steps deep, with ", input_count,
                                                     " inputs up to it: too much"));
    }
    if (const auto* constant = std::get_if<ConstantOp>(&read->op)) {
      NPUBANK_ASSIGN_OR_RETURN(const uint32_t number, FindLeaf(*read));
      const SourceIndex::File& file = index_->file(number);
      digests.push_back(ConstantDigest(file.identity, constant->offset, read->type));
      stamps.push_back(ConstantStamp(file.samples));
    } else {
      // Making it would fold the two (recipe.h), and so make another digest than the list says.
      if (std::holds_alternative<PermuteOp>(read->op) && permuted[read->inputs[0]]) {
        return absl::InvalidArgumentError(absl::StrCat(
            "recipe step ", i, " permutes what is permuted already: compile the model again"));
      }
      digests.push_back(OperationDigest(read->op, read->type, inputs));
      stamps.push_back(OperationStamp(input_stamps));
    }
    depths.push_back(depth);
    permuted.push_back(std::holds_alternative<PermuteOp>(read->op));
    types.push_back(std::move(read->type));
  }
  for (size_t i = 0; i < encoded_.root_count(); ++i) {
    const uint32_t root = encoded_.root(i);
    roots_.push_back({types[root], digests[root], stamps[root]});
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> RecipeList::FindLeaf(const EncodedRecipes::Node& node) const {
  const auto& constant = std::get<ConstantOp>(node.op);
  if (node.source >= files_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", constant.name, "' lies in source ",
                                                   node.source, " of ", files_.size()));
  }
  const uint32_t file = files_[node.source];
  NPUBANK_ASSIGN_OR_RETURN(const StoredTensor* stored, index_->Get(constant.name));
  if (stored->file != file || stored->offset != constant.offset || stored->type != node.type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", constant.name, "' is ", stored->type.ToString(), " at byte ", stored->offset,
        " of ", index_->file(stored->file).name, " here, but was ", node.type.ToString(),
        " at byte ", constant.offset, " of ", index_->file(file).name,
        " when the recipe was written: compile the model again"));
  }
  return file;
}

struct RecipeList::Made {
  std::unordered_map<uint32_t, RecipePtr> recipes;
};

absl::StatusOr<RecipePtr> RecipeList::Make(size_t root) const {
  Made made;
  const uint32_t number = encoded_.root(root);
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr recipe, MakeNode(number, made));
  recipes_made.fetch_add(1, std::memory_order_relaxed);
  return recipe;
}

std::optional<StoredConstant> RecipeList::Stored(size_t root) const {
  const absl::StatusOr<EncodedRecipes::Node> node = encoded_.node(encoded_.root(root));
  if (!node.ok()) return std::nullopt;
  const auto* constant = std::get_if<ConstantOp>(&node->op);
  if (constant == nullptr) return std::nullopt;
  return StoredConstant{index_->file(files_[node->source]).identity, constant->offset, type(root)};
}

// Not deeper than Recipe::kMaxDepth: Fold has seen to that.
absl::StatusOr<RecipePtr> RecipeList::MakeNode(uint32_t number, Made& made) const {
  const auto known = made.recipes.find(number);
  if (known != made.recipes.end()) return known->second;
  NPUBANK_ASSIGN_OR_RETURN(EncodedRecipes::Node node, encoded_.node(number));
  absl::StatusOr<RecipePtr> recipe;
  if (auto* constant = std::get_if<ConstantOp>(&node.op)) {
    NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, index_->Open(files_[node.source]));
    recipe =
        Recipe::Constant(std::move(source), constant->offset, node.type, std::move(constant->name));
  } else {
    Maker maker = {{}, node.type};
    for (const uint32_t input : node.inputs) {
      NPUBANK_ASSIGN_OR_RETURN(maker.inputs.emplace_back(), MakeNode(input, made));
    }
    recipe = std::visit(maker, node.op);
  }
  if (recipe.ok() && (*recipe)->type() != node.type) {
    recipe = absl::InvalidArgumentError(absl::StrCat("it makes ", (*recipe)->type().ToString(),
                                                     " and is written as ", node.type.ToString()));
  }
  if (!recipe.ok()) return Annotate(recipe.status(), absl::StrCat("recipe step ", number));
  made.recipes.emplace(number, *recipe);
  return recipe;
}

std::string RecipeList::Describe(size_t root) const {
  std::string text;
  AppendDescription(encoded_.root(root), text);
  return internal::Shortened(std::move(text));
}

void RecipeList::AppendDescription(uint32_t number, std::string& text) const {
  const absl::StatusOr<EncodedRecipes::Node> node = encoded_.node(number);
  if (!node.ok()) return;  // cannot be: Fold has read it
  internal::AppendDescription(
      node->inputs, [&](uint32_t input, std::string& out) { AppendDescription(input, out); },
      DescribeOperation(node->op, node->type), text);
}

uint64_t RecipeList::RecipesMade() { return recipes_made.load(std::memory_order_relaxed); }

}  // namespace npubank
