#include "npubank/lazy_tensor/recipe/recipe_op.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {
namespace {

// What a node's digest is made of: a word, the inputs, and what else makes it another node.
struct DigestOf {
  const TensorType& type;
  absl::Span<const Digest> inputs;

  DigestBuilder Over(absl::string_view word) const {
    DigestBuilder builder(word);
    builder.Add(static_cast<int64_t>(inputs.size()));
    for (const Digest& input : inputs) builder.Add(input);
    return builder;
  }
  absl::string_view element() const { return ElementTypeName(type.element()); }
  absl::Span<const int64_t> dims() const { return type.shape().dims(); }

  Digest operator()(const ConstantOp& op) const {
    return ConstantDigest(op.hold->source().identity(), op.offset, type);
  }
  Digest operator()(const ConcatOp& op) const { return Over("concat").Add(op.axis).Finish(); }
  Digest operator()(const SliceOp& op) const {
    return Over("slice").Add(op.start).Add(dims()).Finish();
  }
  Digest operator()(const ReshapeOp&) const { return Over("reshape").Add(dims()).Finish(); }
  Digest operator()(const PermuteOp& op) const {
    return Over("permute").Add(std::vector<int64_t>(op.order.begin(), op.order.end())).Finish();
  }
  Digest operator()(const ConvertOp&) const { return Over("convert").Add(element()).Finish(); }
  Digest operator()(const SplatOp& op) const {
    return DigestBuilder("splat")
        .Add(static_cast<int64_t>(op.bits))
        .Add(element())
        .Add(dims())
        .Finish();
  }
  Digest operator()(const UnpackOp&) const { return Over("unpack").Add(element()).Finish(); }
  Digest operator()(const GatherOp&) const { return Over("gather").Finish(); }
  Digest operator()(const ShiftOp&) const { return Over("shift").Finish(); }
  Digest operator()(const UnpackNibblesOp& op) const {
    return Over("unpack_nibbles").Add(static_cast<int64_t>(op.layout)).Finish();
  }
  Digest operator()(const DequantizeBlocksOp& op) const {
    return Over("dequantize_blocks").Add(static_cast<int64_t>(op.format)).Add(element()).Finish();
  }
  Digest operator()(const CopyBlockPlaneOp& op) const {
    return Over("copy_block_plane")
        .Add(static_cast<int64_t>(op.format))
        .Add(static_cast<int64_t>(op.plane))
        .Finish();
  }
};

struct DescriptionOf {
  const TensorType& type;

  absl::string_view element() const { return ElementTypeName(type.element()); }

  std::string operator()(const ConstantOp& op) const {
    return absl::StrCat(op.name, op.name.empty() ? "" : " ", type.ToString());
  }
  std::string operator()(const ConcatOp& op) const { return absl::StrCat("concat(", op.axis, ")"); }
  std::string operator()(const SliceOp& op) const {
    return absl::StrCat("slice(at [", absl::StrJoin(op.start, ","), "], ", type.shape().ToString(),
                        ")");
  }
  std::string operator()(const ReshapeOp&) const {
    return absl::StrCat("reshape(", absl::StrJoin(type.shape().dims(), ","), ")");
  }
  std::string operator()(const PermuteOp& op) const {
    return absl::StrCat("permute(", absl::StrJoin(op.order, ","), ")");
  }
  std::string operator()(const ConvertOp&) const {
    return absl::StrCat("convert(", element(), ")");
  }
  std::string operator()(const SplatOp& op) const {
    return absl::StrCat("splat(0x", absl::Hex(op.bits), ") ", type.ToString());
  }
  std::string operator()(const UnpackOp&) const { return absl::StrCat("unpack(", element(), ")"); }
  std::string operator()(const GatherOp&) const { return "gather"; }
  std::string operator()(const ShiftOp&) const { return absl::StrCat("shift(", element(), ")"); }
  std::string operator()(const UnpackNibblesOp& op) const {
    constexpr const char* kNames[] = {"",      "gptq rows", "columns",  "columns + 1", "awq columns",
                                      "bytes", "bytes + 1", "byte rows"};
    return absl::StrCat("unpack_nibbles(", kNames[static_cast<int>(op.layout)], ")");
  }
  std::string operator()(const DequantizeBlocksOp& op) const {
    return absl::StrCat("dequantize_blocks(", kernels::BlockFormatName(op.format), ", ", element(),
                        ")");
  }
  std::string operator()(const CopyBlockPlaneOp& op) const {
    return absl::StrCat("copy_block_plane(", kernels::BlockFormatName(op.format), ", ",
                        kernels::BlockPlaneName(op.plane), ")");
  }
};

}  // namespace

// The variant lists the operations in the order of their numbers.
RecipeOperation NumberOf(const RecipeOp& op) {
  return static_cast<RecipeOperation>(op.index() + 1);
}

Digest ConstantDigest(const Digest& source_identity, uint64_t offset, const TensorType& type) {
  return DigestBuilder("constant")
      .Add(source_identity)
      .Add(static_cast<int64_t>(offset))
      .Add(ElementTypeName(type.element()))
      .Add(type.shape().dims())
      .Finish();
}

Digest OperationDigest(const RecipeOp& op, const TensorType& type,
                       absl::Span<const Digest> inputs) {
  return std::visit(DigestOf{type, inputs}, op);
}

Digest ConstantStamp(const Digest& source_samples) {
  return DigestBuilder("stamp").Add(source_samples).Finish();
}

Digest OperationStamp(absl::Span<const Digest> inputs) {
  DigestBuilder builder("stamps");
  for (const Digest& input : inputs) builder.Add(input);
  return builder.Finish();
}

std::string DescribeOperation(const RecipeOp& op, const TensorType& type) {
  return std::visit(DescriptionOf{type}, op);
}

}  // namespace npubank
