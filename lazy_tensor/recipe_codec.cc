#include "npubank/lazy_tensor/recipe_codec.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe_generated.h"

namespace npubank {
namespace {

constexpr uint32_t kVersion = 1;
// Bounds on what a list may ask of the reader: nodes may share their parts in the file, so the
// file's size alone does not bound the work.
constexpr size_t kMaxNodes = 1 << 18;
constexpr size_t kMaxInputs = 1 << 20;  // over all nodes
constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxBytes = size_t{1} << 30;

// Numbers of the operations in files. Never reuse one.
enum class Operation : uint16_t {
  kConstant = 1,
  kConcat = 2,
  kSlice = 3,
  kReshape = 4,
  kPermute = 5,
  kConvert = 6,
  kSplat = 7,
  kUnpack = 8,
  kGather = 9,
  kShift = 10,
  kUnpackNibbles = 11,
  kDequantizeBlocks = 12,
};

class Encoder {
 public:
  absl::Status Add(const RecipePtr& recipe) {
    if (recipe == nullptr) return absl::InvalidArgumentError("encoding a recipe that is null");
    NPUBANK_ASSIGN_OR_RETURN(uint32_t index, Node(*recipe));
    roots_.push_back(index);
    return absl::OkStatus();
  }

  std::string Finish() {
    const auto nodes = builder_.CreateVector(nodes_);
    const auto roots = builder_.CreateVector(roots_);
    fbs::FinishRecipeListBuffer(builder_, fbs::CreateRecipeList(builder_, kVersion, nodes, roots));
    return std::string(reinterpret_cast<const char*>(builder_.GetBufferPointer()),
                       builder_.GetSize());
  }

 private:
  // The fields of a node, in words of the schema.
  struct Fields {
    Operation operation = Operation::kConstant;
    std::vector<uint32_t> inputs;
    bool has_element = false;
    bool has_dims = false;
    std::vector<int64_t> values;
    std::string name;
  };

  static Fields FieldsOf(const ConstantOp& op) {
    return {Operation::kConstant, {}, true, true, {}, op.name};
  }
  static Fields FieldsOf(const ConcatOp& op) {
    return {Operation::kConcat, {}, false, false, {op.axis}, {}};
  }
  static Fields FieldsOf(const SliceOp& op) {
    return {Operation::kSlice, {}, false, true, op.start, {}};
  }
  static Fields FieldsOf(const ReshapeOp&) {
    return {Operation::kReshape, {}, false, true, {}, {}};
  }
  static Fields FieldsOf(const PermuteOp& op) {
    return {Operation::kPermute, {}, false, false, {op.order.begin(), op.order.end()}, {}};
  }
  static Fields FieldsOf(const ConvertOp&) {
    return {Operation::kConvert, {}, true, false, {}, {}};
  }

  static Fields FieldsOf(const SplatOp& op) {
    return {Operation::kSplat, {}, true, true, {static_cast<int64_t>(op.bits)}, {}};
  }
  static Fields FieldsOf(const UnpackOp&) { return {Operation::kUnpack, {}, true, false, {}, {}}; }
  static Fields FieldsOf(const GatherOp&) { return {Operation::kGather, {}, false, false, {}, {}}; }
  static Fields FieldsOf(const ShiftOp&) { return {Operation::kShift, {}, false, false, {}, {}}; }
  static Fields FieldsOf(const UnpackNibblesOp& op) {
    return {Operation::kUnpackNibbles, {}, false, false, {static_cast<int64_t>(op.layout)}, {}};
  }
  static Fields FieldsOf(const DequantizeBlocksOp& op) {
    return {Operation::kDequantizeBlocks, {}, true, false, {static_cast<int64_t>(op.format)}, {}};
  }

  absl::StatusOr<uint32_t> Node(const Recipe& recipe) {
    const auto known = index_of_.find(recipe.digest().ToHex());
    if (known != index_of_.end()) return known->second;
    Fields fields = std::visit([](const auto& op) { return FieldsOf(op); }, recipe.op());
    for (const RecipePtr& input : recipe.inputs()) {
      NPUBANK_ASSIGN_OR_RETURN(uint32_t index, Node(*input));
      fields.inputs.push_back(index);
    }
    if (fields.operation == Operation::kConstant) {
      NPUBANK_RETURN_IF_ERROR(CheckName(recipe, fields.name));
    }
    NPUBANK_RETURN_IF_ERROR(CheckLimits(fields));
    Write(recipe.type(), fields);
    const auto index = static_cast<uint32_t>(nodes_.size() - 1);
    index_of_.emplace(recipe.digest().ToHex(), index);
    return index;
  }

  // A reader finds the constant again by its name alone.
  absl::Status CheckName(const Recipe& recipe, const std::string& name) {
    if (name.empty() || name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a constant ", recipe.type().ToString(), " with a name of ", name.size(),
          " bytes cannot be written: 1 to ", kMaxNameBytes, " are needed to find it again"));
    }
    const auto [known, is_new] = constants_.emplace(name, recipe.digest());
    if (is_new || known->second == recipe.digest()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("two different constants are named ", name,
                                                   "; a reader could not tell them apart"));
  }

  absl::Status CheckLimits(const Fields& fields) {
    input_count_ += fields.inputs.size();
    if (nodes_.size() < kMaxNodes && input_count_ <= kMaxInputs) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("recipes of more than ", kMaxNodes, " steps or ",
                                                   kMaxInputs, " inputs cannot be written"));
  }

  void Write(const TensorType& type, const Fields& fields) {
    flatbuffers::Offset<flatbuffers::String> name;
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> inputs;
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> dims;
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> values;
    if (!fields.name.empty()) name = builder_.CreateString(fields.name);
    if (!fields.inputs.empty()) inputs = builder_.CreateVector(fields.inputs);
    if (!fields.values.empty()) values = builder_.CreateVector(fields.values);
    const absl::Span<const int64_t> shape = type.shape().dims();
    if (fields.has_dims) dims = builder_.CreateVector(shape.data(), shape.size());
    const auto element = static_cast<uint8_t>(fields.has_element ? type.element() : ElementType{});
    nodes_.push_back(fbs::CreateNode(builder_, static_cast<uint16_t>(fields.operation), inputs,
                                     element, dims, values, name));
  }

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fbs::Node>> nodes_;
  std::vector<uint32_t> roots_;
  std::unordered_map<std::string, uint32_t> index_of_;  // by digest
  std::map<std::string, Digest> constants_;
  size_t input_count_ = 0;
};

class Decoder {
 public:
  using Leaf = absl::FunctionRef<absl::StatusOr<RecipePtr>(absl::string_view name)>;

  explicit Decoder(Leaf leaf) : leaf_(leaf) {}

  absl::Status Read(const fbs::RecipeList& list) {
    if (list.version() != kVersion) {
      return absl::InvalidArgumentError(absl::StrCat("recipe list of version ", list.version(),
                                                     "; this reader knows ", kVersion));
    }
    const size_t count = list.nodes() == nullptr ? 0 : list.nodes()->size();
    const size_t roots = list.roots() == nullptr ? 0 : list.roots()->size();
    if (count > kMaxNodes || roots > kMaxInputs) {
      return absl::InvalidArgumentError(
          absl::StrCat("recipe list of ", count, " steps and ", roots, " roots; too many"));
    }
    for (size_t i = 0; i < count; ++i) {
      absl::StatusOr<RecipePtr> node = Node(*list.nodes()->Get(i));
      if (!node.ok()) return Annotate(node.status(), absl::StrCat("recipe step ", i));
      nodes_.push_back(*std::move(node));
    }
    for (size_t i = 0; i < roots; ++i) {
      const uint32_t root = list.roots()->Get(i);
      if (root >= nodes_.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("recipe root ", root, " of ", nodes_.size(), " steps"));
      }
      roots_.push_back(nodes_[root]);
    }
    return absl::OkStatus();
  }

  std::vector<RecipePtr> TakeRoots() { return std::move(roots_); }

 private:
  absl::StatusOr<RecipePtr> Node(const fbs::Node& node) {
    NPUBANK_ASSIGN_OR_RETURN(std::vector<RecipePtr> inputs, Inputs(node));
    const auto operation = static_cast<Operation>(node.operation());
    switch (operation) {
      case Operation::kConstant:
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 0));
        return Constant(node);
      case Operation::kConcat: {
        NPUBANK_ASSIGN_OR_RETURN(const int64_t axis, OneValue(node));
        return Recipe::Concat(std::move(inputs), SmallAxis(axis));
      }
      case Operation::kSlice:
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        return Recipe::Slice(inputs[0], Values(node.values()), Values(node.dims()));
      case Operation::kReshape:
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        return Recipe::Reshape(inputs[0], Values(node.dims()));
      case Operation::kPermute: {
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        std::vector<int> order;
        for (int64_t axis : Values(node.values())) {
          order.push_back(SmallAxis(axis));
        }
        return Recipe::Permute(inputs[0], order);
      }
      case Operation::kConvert: {
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        NPUBANK_ASSIGN_OR_RETURN(const ElementType to, Element(node));
        return Recipe::Convert(inputs[0], to);
      }
      case Operation::kSplat:
      case Operation::kUnpack:
      case Operation::kGather:
      case Operation::kShift:
      case Operation::kUnpackNibbles:
      case Operation::kDequantizeBlocks:
        return Computed(node, operation, std::move(inputs));
    }
    return absl::UnimplementedError(
        absl::StrCat("operation number ", node.operation(), " is not known to this version"));
  }

  // The operations that compute values.
  absl::StatusOr<RecipePtr> Computed(const fbs::Node& node, Operation operation,
                                     std::vector<RecipePtr> inputs) {
    switch (operation) {
      case Operation::kSplat: {
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 0));
        NPUBANK_ASSIGN_OR_RETURN(const int64_t bits, OneValue(node));
        NPUBANK_ASSIGN_OR_RETURN(TensorType type, Type(node));
        return Recipe::Splat(std::move(type), static_cast<uint64_t>(bits));
      }
      case Operation::kUnpack: {
        if (inputs.size() == 2) inputs.push_back(nullptr);
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 3));
        NPUBANK_ASSIGN_OR_RETURN(const ElementType to, Element(node));
        return Recipe::Unpack(inputs[0], inputs[1], inputs[2], to);
      }
      case Operation::kGather:
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 2));
        return Recipe::Gather(inputs[0], inputs[1]);
      case Operation::kShift:
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        return Recipe::Shift(inputs[0]);
      case Operation::kUnpackNibbles: {
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        NPUBANK_ASSIGN_OR_RETURN(const int64_t number, OneValue(node));
        if (number < 1 || number > static_cast<int64_t>(NibbleLayout::kColumnsAwq)) {
          return absl::InvalidArgumentError(absl::StrCat("nibble layout number ", number));
        }
        return Recipe::UnpackNibbles(inputs[0], static_cast<NibbleLayout>(number));
      }
      default: {
        NPUBANK_RETURN_IF_ERROR(CheckInputs(inputs, 1));
        NPUBANK_ASSIGN_OR_RETURN(const int64_t number, OneValue(node));
        const auto format = number < 0 || number > UINT32_MAX
                                ? std::nullopt
                                : kernels::BlockFormatFromNumber(static_cast<uint32_t>(number));
        if (!format)
          return absl::InvalidArgumentError(absl::StrCat("block format number ", number));
        NPUBANK_ASSIGN_OR_RETURN(const ElementType to, Element(node));
        return Recipe::DequantizeBlocks(inputs[0], *format, to);
      }
    }
  }

  absl::StatusOr<std::vector<RecipePtr>> Inputs(const fbs::Node& node) {
    std::vector<RecipePtr> inputs;
    if (node.inputs() == nullptr) return inputs;
    input_count_ += node.inputs()->size();
    if (input_count_ > kMaxInputs) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxInputs, " inputs"));
    }
    for (uint32_t index : *node.inputs()) {
      if (index >= nodes_.size()) {
        return absl::InvalidArgumentError(absl::StrCat("input ", index, " is not an earlier step"));
      }
      inputs.push_back(nodes_[index]);
    }
    return inputs;
  }

  absl::StatusOr<RecipePtr> Constant(const fbs::Node& node) {
    const absl::string_view name =
        node.name() == nullptr ? "" : absl::string_view(node.name()->data(), node.name()->size());
    if (name.empty() || name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a constant with a name of ", name.size(), " bytes"));
    }
    NPUBANK_ASSIGN_OR_RETURN(const TensorType type, Type(node));
    NPUBANK_ASSIGN_OR_RETURN(RecipePtr found, leaf_(name));
    if (found == nullptr) return absl::NotFoundError(absl::StrCat("no tensor ", name));
    if (found->type() == type) return found;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " is ", found->type().ToString(), " here, but was ",
                     type.ToString(), " when the recipe was written"));
  }

  static absl::Status CheckInputs(const std::vector<RecipePtr>& inputs, size_t count) {
    if (inputs.size() == count) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("an operation on ", inputs.size(), " inputs that takes ", count));
  }

  static absl::StatusOr<ElementType> Element(const fbs::Node& node) {
    if (const std::optional<ElementType> type = ElementTypeFromNumber(node.element())) return *type;
    return absl::InvalidArgumentError(absl::StrCat("element type number ", node.element()));
  }

  static absl::StatusOr<TensorType> Type(const fbs::Node& node) {
    NPUBANK_ASSIGN_OR_RETURN(const ElementType element, Element(node));
    NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(Values(node.dims())));
    return TensorType::Create(element, std::move(shape));
  }

  // An axis that does not exist stays one that does not exist.
  static int SmallAxis(int64_t axis) {
    return static_cast<int>(std::clamp<int64_t>(axis, -1, Shape::kMaxRank));
  }

  static absl::StatusOr<int64_t> OneValue(const fbs::Node& node) {
    const std::vector<int64_t> values = Values(node.values());
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

  const Leaf leaf_;
  std::vector<RecipePtr> nodes_;
  std::vector<RecipePtr> roots_;
  size_t input_count_ = 0;
};

}  // namespace

absl::StatusOr<std::string> EncodeRecipes(absl::Span<const RecipePtr> roots) {
  Encoder encoder;
  for (const RecipePtr& root : roots) NPUBANK_RETURN_IF_ERROR(encoder.Add(root));
  return encoder.Finish();
}

absl::StatusOr<std::vector<RecipePtr>> DecodeRecipes(
    absl::string_view bytes,
    absl::FunctionRef<absl::StatusOr<RecipePtr>(absl::string_view name)> leaf) {
  if (bytes.size() < 8 || bytes.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes cannot be a recipe list"));
  }
  std::vector<uint64_t> aligned((bytes.size() + 7) /
                                8);  // flatbuffers reads numbers where they lie
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/8,
                                 /*max_tables=*/static_cast<flatbuffers::uoffset_t>(kMaxNodes + 1));
  if (!fbs::RecipeListBufferHasIdentifier(data) || !fbs::VerifyRecipeListBuffer(verifier)) {
    return absl::InvalidArgumentError("not a recipe list, or a damaged one");
  }
  Decoder decoder(leaf);
  NPUBANK_RETURN_IF_ERROR(decoder.Read(*fbs::GetRecipeList(data)));
  return decoder.TakeRoots();
}

}  // namespace npubank
