#include "npubank/lazy_tensor/recipe/recipe_codec.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_generated.h"

namespace npubank {
namespace {

constexpr uint32_t kVersion = 2;

class Encoder {
 public:
  absl::Status Add(const RecipePtr& recipe) {
    if (recipe == nullptr) return absl::InvalidArgumentError("encoding a recipe that is null");
    NPUBANK_ASSIGN_OR_RETURN(uint32_t index, Node(*recipe));
    roots_.push_back(index);
    return absl::OkStatus();
  }

  std::string Finish() {
    const auto sources = builder_.CreateVector(sources_);
    const auto nodes = builder_.CreateVector(nodes_);
    const auto roots = builder_.CreateVector(roots_);
    fbs::FinishRecipeListBuffer(builder_,
                                fbs::CreateRecipeList(builder_, kVersion, sources, nodes, roots));
    return std::string(reinterpret_cast<const char*>(builder_.GetBufferPointer()),
                       builder_.GetSize());
  }

 private:
  // What an operation knows beside its inputs and its type.
  struct ValuesOf {
    using Values = std::vector<int64_t>;
    Values operator()(const ConcatOp& op) const { return {op.axis}; }
    Values operator()(const SliceOp& op) const { return op.start; }
    Values operator()(const PermuteOp& op) const { return {op.order.begin(), op.order.end()}; }
    Values operator()(const SplatOp& op) const { return {static_cast<int64_t>(op.bits)}; }
    Values operator()(const UnpackNibblesOp& op) const { return {static_cast<int64_t>(op.layout)}; }
    Values operator()(const DequantizeBlocksOp& op) const {
      return {static_cast<int64_t>(op.format)};
    }
    Values operator()(const CopyBlockPlaneOp& op) const {
      return {static_cast<int64_t>(op.format), static_cast<int64_t>(op.plane)};
    }
    template <typename Other>
    Values operator()(const Other&) const {
      return {};
    }
  };

  absl::StatusOr<uint32_t> Node(const Recipe& recipe) {
    const auto known = index_of_.find(recipe.digest().ToHex());
    if (known != index_of_.end()) return known->second;
    std::vector<uint32_t> inputs;
    for (const RecipePtr& input : recipe.inputs()) {
      NPUBANK_ASSIGN_OR_RETURN(inputs.emplace_back(), Node(*input));
    }
    NPUBANK_RETURN_IF_ERROR(CheckLimits(recipe, inputs.size()));
    Write(recipe, inputs);
    const auto index = static_cast<uint32_t>(nodes_.size() - 1);
    index_of_.emplace(recipe.digest().ToHex(), index);
    return index;
  }

  absl::Status CheckLimits(const Recipe& recipe, size_t inputs) {
    if (const auto* constant = std::get_if<ConstantOp>(&recipe.op())) {
      const size_t name = constant->name.size();
      if (name == 0 || name > EncodedRecipes::kMaxNameBytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a constant ", recipe.type().ToString(), " with a name of ", name,
            " bytes cannot be written: 1 to ", EncodedRecipes::kMaxNameBytes, " are needed"));
      }
    }
    input_count_ += inputs;
    if (nodes_.size() < EncodedRecipes::kMaxNodes && input_count_ <= EncodedRecipes::kMaxInputs &&
        sources_.size() < EncodedRecipes::kMaxSources) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "recipes of more than ", EncodedRecipes::kMaxNodes, " steps, ", EncodedRecipes::kMaxInputs,
        " inputs or ", EncodedRecipes::kMaxSources, " sources cannot be written"));
  }

  void Write(const Recipe& recipe, const std::vector<uint32_t>& input_numbers) {
    flatbuffers::Offset<flatbuffers::String> name;
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> inputs;
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> values;
    uint32_t source = 0;
    uint64_t offset = 0;
    if (const auto* constant = std::get_if<ConstantOp>(&recipe.op())) {
      source = NumberOfSource(constant->hold->source());
      offset = constant->offset;
      name = builder_.CreateString(constant->name);
    }
    if (!input_numbers.empty()) inputs = builder_.CreateVector(input_numbers);
    const std::vector<int64_t> numbers = std::visit(ValuesOf{}, recipe.op());
    if (!numbers.empty()) values = builder_.CreateVector(numbers);
    const absl::Span<const int64_t> shape = recipe.type().shape().dims();
    const auto dims = builder_.CreateVector(shape.data(), shape.size());
    nodes_.push_back(fbs::CreateNode(builder_, static_cast<uint16_t>(NumberOf(recipe.op())), inputs,
                                     static_cast<uint8_t>(recipe.type().element()), dims, values,
                                     source, offset, name));
  }

  uint32_t NumberOfSource(const Source& source) {
    const auto next = static_cast<uint32_t>(sources_.size());
    const auto [known, added] = source_numbers_.emplace(source.identity().ToHex(), next);
    if (added) {
      const auto name = builder_.CreateString(source.name());
      sources_.push_back(fbs::CreateRecipeSource(builder_, name, source.size(),
                                                 source.identity().high, source.identity().low));
    }
    return known->second;
  }

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fbs::RecipeSource>> sources_;
  std::vector<flatbuffers::Offset<fbs::Node>> nodes_;
  std::vector<uint32_t> roots_;
  std::unordered_map<std::string, uint32_t> source_numbers_;  // by identity
  std::unordered_map<std::string, uint32_t> index_of_;        // by digest
  size_t input_count_ = 0;
};

// One node's fields, checked and turned into an operation.
class NodeReader {
 public:
  explicit NodeReader(const fbs::Node& node) : node_(node) {}

  absl::StatusOr<RecipeOp> Op() const {
    switch (static_cast<RecipeOperation>(node_.operation())) {
      case RecipeOperation::kConstant: {
        NPUBANK_ASSIGN_OR_RETURN(std::string name, Name());
        return With(0, 0, ConstantOp{nullptr, node_.offset(), std::move(name)});
      }
      case RecipeOperation::kConcat: {
        NPUBANK_ASSIGN_OR_RETURN(const int64_t axis, OneValue());
        return With(1, EncodedRecipes::kMaxInputs, ConcatOp{SmallAxis(axis)});
      }
      case RecipeOperation::kSlice:
        return With(1, 1, SliceOp{Values(node_.values())});
      case RecipeOperation::kReshape:
        return With(1, 1, ReshapeOp{});
      case RecipeOperation::kPermute: {
        PermuteOp op;
        for (int64_t axis : Values(node_.values())) op.order.push_back(SmallAxis(axis));
        return With(1, 1, std::move(op));
      }
      case RecipeOperation::kConvert:
        return With(1, 1, ConvertOp{});
      case RecipeOperation::kSplat: {
        NPUBANK_ASSIGN_OR_RETURN(const int64_t bits, OneValue());
        return With(0, 0, SplatOp{static_cast<uint64_t>(bits)});
      }
      case RecipeOperation::kUnpack:
        return With(2, 3, UnpackOp{});
      case RecipeOperation::kGather:
        return With(2, 2, GatherOp{});
      case RecipeOperation::kShift:
        return With(1, 1, ShiftOp{});
      case RecipeOperation::kUnpackNibbles:
        return Nibbles();
      case RecipeOperation::kDequantizeBlocks:
        return Blocks();
      case RecipeOperation::kCopyBlockPlane:
        return BlockPlane();
      case RecipeOperation::kFirstOfEmbedders:
        break;
    }
    return absl::UnimplementedError(
        absl::StrCat("operation number ", node_.operation(), " is not known to this version",
                     node_.operation() >= static_cast<uint16_t>(RecipeOperation::kFirstOfEmbedders)
                         ? " (an embedder's own)"
                         : ""));
  }

  absl::StatusOr<TensorType> Type() const {
    const std::optional<ElementType> element = ElementTypeFromNumber(node_.element());
    if (!element) {
      return absl::InvalidArgumentError(absl::StrCat("element type number ", node_.element()));
    }
    NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(Values(node_.dims())));
    return TensorType::Create(*element, std::move(shape));
  }

 private:
  absl::StatusOr<RecipeOp> With(size_t least, size_t most, RecipeOp op) const {
    const size_t count = node_.inputs() == nullptr ? 0 : node_.inputs()->size();
    if (count >= least && count <= most) return op;
    return absl::InvalidArgumentError(absl::StrCat("operation number ", node_.operation(), " on ",
                                                   count, " inputs, takes ", least,
                                                   most > least ? " or more" : ""));
  }

  absl::StatusOr<RecipeOp> Nibbles() const {
    NPUBANK_ASSIGN_OR_RETURN(const int64_t number, OneValue());
    if (number < 1 || number > static_cast<int64_t>(NibbleLayout::kByteRows)) {
      return absl::InvalidArgumentError(absl::StrCat("nibble layout number ", number));
    }
    return With(1, 1, UnpackNibblesOp{static_cast<NibbleLayout>(number)});
  }

  static absl::StatusOr<kernels::BlockFormat> FormatOf(int64_t number) {
    const auto format = number < 0 || number > UINT32_MAX
                            ? std::nullopt
                            : kernels::BlockFormatFromNumber(static_cast<uint32_t>(number));
    if (format) return *format;
    return absl::InvalidArgumentError(absl::StrCat("block format number ", number));
  }

  absl::StatusOr<RecipeOp> Blocks() const {
    NPUBANK_ASSIGN_OR_RETURN(const int64_t number, OneValue());
    NPUBANK_ASSIGN_OR_RETURN(const kernels::BlockFormat format, FormatOf(number));
    return With(1, 1, DequantizeBlocksOp{format});
  }

  absl::StatusOr<RecipeOp> BlockPlane() const {
    const std::vector<int64_t> values = Values(node_.values());
    if (values.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(values.size(), " values instead of two"));
    }
    NPUBANK_ASSIGN_OR_RETURN(const kernels::BlockFormat format, FormatOf(values[0]));
    if (values[1] < 0 || values[1] > static_cast<int64_t>(kernels::BlockPlane::kMin)) {
      return absl::InvalidArgumentError(absl::StrCat("block plane number ", values[1]));
    }
    return With(1, 1, CopyBlockPlaneOp{format, static_cast<kernels::BlockPlane>(values[1])});
  }

  absl::StatusOr<std::string> Name() const {
    const size_t size = node_.name() == nullptr ? 0 : node_.name()->size();
    if (size > 0 && size <= EncodedRecipes::kMaxNameBytes) return node_.name()->str();
    return absl::InvalidArgumentError(absl::StrCat("a constant with a name of ", size, " bytes"));
  }

  // An axis that does not exist stays one that does not exist.
  static int SmallAxis(int64_t axis) {
    return static_cast<int>(std::clamp<int64_t>(axis, -1, Shape::kMaxRank));
  }

  absl::StatusOr<int64_t> OneValue() const {
    const std::vector<int64_t> values = Values(node_.values());
    if (values.size() == 1) return values[0];
    return absl::InvalidArgumentError(absl::StrCat(values.size(), " values instead of one"));
  }

  // At most one more than a shape may have: enough for the checks that follow to refuse it. Copied
  // bytewise, since the verifier lets a vector of eight-byte numbers begin at any multiple of four.
  static std::vector<int64_t> Values(const flatbuffers::Vector<int64_t>* values) {
    static_assert(FLATBUFFERS_LITTLEENDIAN, "values are copied as they are");
    if (values == nullptr) return {};
    std::vector<int64_t> copy(std::min<size_t>(values->size(), Shape::kMaxRank + 1));
    if (!copy.empty()) std::memcpy(copy.data(), values->Data(), copy.size() * sizeof(int64_t));
    return copy;
  }

  const fbs::Node& node_;
};

const fbs::RecipeList& ListIn(const std::vector<uint64_t>& words) {
  return *fbs::GetRecipeList(words.data());
}

absl::Status CheckBounds(const EncodedRecipes& list) {
  if (list.node_count() > EncodedRecipes::kMaxNodes ||
      list.root_count() > EncodedRecipes::kMaxInputs ||
      list.source_count() > EncodedRecipes::kMaxSources) {
    return absl::InvalidArgumentError(absl::StrCat("a recipe list of ", list.node_count(),
                                                   " steps, ", list.root_count(), " roots and ",
                                                   list.source_count(), " sources: too many"));
  }
  for (size_t i = 0; i < list.root_count(); ++i) {
    if (list.root(i) < list.node_count()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("recipe root ", list.root(i), " of ", list.node_count(), " steps"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EncodeRecipes(absl::Span<const RecipePtr> roots) {
  Encoder encoder;
  for (const RecipePtr& root : roots) NPUBANK_RETURN_IF_ERROR(encoder.Add(root));
  return encoder.Finish();
}

absl::StatusOr<EncodedRecipes> EncodedRecipes::Open(absl::string_view bytes) {
  constexpr FlatbufferLimits kLimits{.bytes = kMaxBytes, .tables = kMaxNodes + kMaxSources + 1};
  if (bytes.size() > kMaxBytes) {  // before they are copied
    return absl::InvalidArgumentError(absl::StrCat("not a recipe list: it has ", bytes.size(),
                                                   " bytes, more than ", kMaxBytes));
  }
  EncodedRecipes list;
  list.size_ = bytes.size();
  list.words_.resize((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(list.words_.data(), bytes.data(), bytes.size());
  const absl::string_view copy(reinterpret_cast<const char*>(list.words_.data()), bytes.size());
  NPUBANK_RETURN_IF_ERROR(FlatbufferRoot<fbs::RecipeList>::Open(
                              copy, fbs::RecipeListIdentifier(), "recipe list", kLimits)
                              .status());
  const uint32_t version = ListIn(list.words_).version();
  if (version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("a recipe list of version ", version,
                                                   "; this reader knows ", kVersion,
                                                   ": compile the model again"));
  }
  NPUBANK_RETURN_IF_ERROR(CheckBounds(list));
  return list;
}

size_t EncodedRecipes::node_count() const {
  const auto* nodes = ListIn(words_).nodes();
  return nodes == nullptr ? 0 : nodes->size();
}

size_t EncodedRecipes::source_count() const {
  const auto* sources = ListIn(words_).sources();
  return sources == nullptr ? 0 : sources->size();
}

size_t EncodedRecipes::root_count() const {
  const auto* roots = ListIn(words_).roots();
  return roots == nullptr ? 0 : roots->size();
}

uint32_t EncodedRecipes::root(size_t i) const { return ListIn(words_).roots()->Get(i); }

absl::StatusOr<EncodedRecipes::SourceFacts> EncodedRecipes::source(size_t i) const {
  const fbs::RecipeSource& source = *ListIn(words_).sources()->Get(i);
  if (source.name() == nullptr || source.name()->size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("source ", i, " has no name, or too long a one"));
  }
  return SourceFacts{.name = source.name()->str(),
                     .size = source.size(),
                     .identity = {source.identity_high(), source.identity_low()}};
}

bool EncodedRecipes::is_constant(size_t i) const {
  return static_cast<RecipeOperation>(ListIn(words_).nodes()->Get(i)->operation()) ==
         RecipeOperation::kConstant;
}

absl::StatusOr<EncodedRecipes::Node> EncodedRecipes::node(size_t i) const {
  const fbs::Node& from = *ListIn(words_).nodes()->Get(i);
  const NodeReader reader(from);
  Node node;
  NPUBANK_ASSIGN_OR_RETURN(node.op, reader.Op());
  NPUBANK_ASSIGN_OR_RETURN(node.type, reader.Type());
  node.source = from.source();
  if (from.inputs() == nullptr) return node;
  for (uint32_t input : *from.inputs()) {
    if (input >= i) {
      return absl::InvalidArgumentError(absl::StrCat("input ", input, " is not an earlier step"));
    }
    node.inputs.push_back(input);
  }
  return node;
}

}  // namespace npubank
