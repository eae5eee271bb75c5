#include "npubank/tools/checkpoints/stored_layout.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/tools/checkpoints/made_up_network.h"

namespace npubank {
namespace {

using Content = LaidOutTensor::Content;
using kernels::BlockFormat;

constexpr int64_t kUsualGroup = 128;
constexpr int64_t kSmallGroup = 32;
constexpr int64_t kNumbersInWord = 8;

absl::Status CheckShape(const CheckpointShape& shape) {
  auto bounded = [](int64_t value, int64_t max) { return value >= 1 && value <= max; };
  const bool fits =
      bounded(shape.layers, ModelConfig::kMaxLayers) &&
      bounded(shape.hidden, ModelConfig::kMaxDim) && bounded(shape.heads, ModelConfig::kMaxDim) &&
      bounded(shape.kv_heads, shape.heads) && bounded(shape.intermediate, ModelConfig::kMaxDim) &&
      bounded(shape.vocab, ModelConfig::kMaxVocab) && shape.vocab >= 3 &&
      bounded(shape.context, ModelConfig::kMaxContext) &&
      bounded(shape.head_dim + 1, ModelConfig::kMaxDim / shape.heads + 1) &&
      bounded(shape.window + 1, ModelConfig::kMaxContext) &&
      bounded(shape.original_context + 1, ModelConfig::kMaxContext);
  if (!fits) return absl::InvalidArgumentError("a dimension of the checkpoint is out of range");
  if (shape.head_dim == 0 ? shape.hidden % (2 * shape.heads) != 0 : shape.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden ", shape.hidden, " must be an even multiple of heads ", shape.heads,
                     ", or the head size be given and even"));
  }
  if (shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv heads ", shape.kv_heads, " must divide heads ", shape.heads));
  }
  if (shape.element != ElementType::kBF16 && shape.element != ElementType::kF16 &&
      shape.element != ElementType::kF32) {
    return absl::InvalidArgumentError("the element type must be BF16, F16 or F32");
  }
  if (shape.shards < 1 || shape.shards > shape.layers || (shape.shards > 1 && IsGguf(shape.format))) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards ", shape.shards, " must be 1, or of safetensors at most one for each layer"));
  }
  return absl::OkStatus();
}

class Layout {
 public:
  explicit Layout(const CheckpointShape& shape) : shape_(shape) {}

  absl::StatusOr<std::vector<LaidOutTensor>> Make() {
    int64_t layer = -1;
    for (const LogicalTensor& logical : MadeUpNetwork(shape_).Tensors()) {
      if (logical.gguf.find("attn_norm") != std::string::npos) ++layer;
      if (logical.divisors && !IsGguf(shape_.format)) continue;
      if (IsGguf(shape_.format)) {
        AddGguf(logical, layer);
      } else if (logical.linear && IsCompressed(shape_.format)) {
        AddCompressed(logical);
      } else if (logical.linear && shape_.format != CheckpointFormat::kSafetensors) {
        AddWords(logical);
      } else {
        Add(logical.hub, Element(), logical.dims, Plain(logical));
      }
    }
    NPUBANK_RETURN_IF_ERROR(status_);
    if (!IsGguf(shape_.format)) SortAsSafetensors();
    return std::move(tensors_);
  }

 private:
  ElementType Element() const {
    if (shape_.format == CheckpointFormat::kSafetensors) return shape_.element;
    return IsCompressed(shape_.format) ? ElementType::kBF16 : ElementType::kF16;
  }
  static Content Plain(const LogicalTensor& logical) {
    if (logical.divisors) return Content::kDivisors;
    const bool bias = logical.hub.ends_with(".bias");
    return logical.dims.size() == 1 && !bias ? Content::kNearOne : Content::kNearZero;
  }

  LaidOutTensor* Add(std::string name, ElementType element, const std::vector<int64_t>& dims,
                     Content content) {
    absl::StatusOr<Shape> checked = Shape::Create(dims);
    absl::StatusOr<TensorType> type =
        checked.ok() ? TensorType::Create(element, *checked) : checked.status();
    status_.Update(type.status());
    tensors_.push_back({std::move(name), type.ok() ? *type : TensorType(), content});
    return &tensors_.back();
  }

  void AddWords(const LogicalTensor& logical) {
    const std::string stem(absl::StripSuffix(logical.hub, ".weight"));
    const int64_t out = logical.dims[0];
    const int64_t in = logical.dims[1];
    const int64_t group = GroupSize(shape_).value_or(in);
    const int64_t groups = in / group;
    if (out % kNumbersInWord != 0 || in % kNumbersInWord != 0 || in % group != 0) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(stem, " of [", out, ",", in, "] is not whole words of eight, or groups of ", group)));
      return;
    }
    const bool gptq = IsGptq(shape_.format);
    const bool eight = shape_.format == CheckpointFormat::kGptq8;
    const int64_t in_word = eight ? 4 : kNumbersInWord;
    const std::vector<int64_t> words = {gptq ? in / in_word : in, gptq ? out : out / in_word};
    Add(stem + ".qweight", ElementType::kI32, words, Content::kWords);
    Add(stem + ".qzeros", ElementType::kI32, {groups, out / in_word}, Content::kZeroPoints);
    Add(stem + ".scales", ElementType::kF16, {groups, out}, Content::kScales)->levels = eight ? 256 : 16;
    if (!gptq) return;
    Add(stem + ".g_idx", ElementType::kI32, {in}, Content::kGroups)->group_size = group;
  }

  void AddCompressed(const LogicalTensor& logical) {
    const std::string stem(absl::StripSuffix(logical.hub, ".weight"));
    const int64_t out = logical.dims[0];
    const int64_t in = logical.dims[1];
    const bool four = shape_.format == CheckpointFormat::kPackInt4;
    const int64_t group = four ? GroupSize(shape_).value_or(in) : in;
    if (shape_.format == CheckpointFormat::kInt8) {
      Add(stem + ".weight", ElementType::kI8, logical.dims, Content::kBytes);
    } else {
      const int64_t in_word = four ? kNumbersInWord : 4;
      if (in % in_word != 0) {
        status_.Update(absl::InvalidArgumentError(
            absl::StrCat(stem, " has rows of ", in, ", which are not whole words of ", in_word)));
        return;
      }
      Add(stem + ".weight_packed", ElementType::kI32, {out, in / in_word}, Content::kWords);
      Add(stem + ".weight_shape", ElementType::kI64, {2}, Content::kShape)->dims = logical.dims;
    }
    Add(stem + ".weight_scale", ElementType::kBF16, {out, in / group}, Content::kScales)->levels =
        four ? 16 : 256;
  }

  void AddGguf(const LogicalTensor& logical, int64_t layer) {
    LaidOutTensor* const tensor =
        Add(logical.gguf, ElementType::kF32, logical.dims, Plain(logical));
    if (logical.dims.size() == 1 || shape_.format == CheckpointFormat::kGgufF32) return;
    tensor->blocks = BlocksOf(logical, layer);
    tensor->content = Content::kBlocks;
    const auto length = static_cast<int64_t>(kernels::BlockLength(*tensor->blocks));
    if (logical.dims[1] % length == 0) return;
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("'", tensor->name, "' has rows of ", logical.dims[1], ", which are not whole blocks of ",
                     kernels::BlockFormatName(*tensor->blocks))));
  }

  BlockFormat BlocksOf(const LogicalTensor& logical, int64_t layer) const {
    switch (shape_.format) {
      case CheckpointFormat::kGgufQ4_0:
        return BlockFormat::kQ4_0;
      case CheckpointFormat::kGgufQ8_0:
        return BlockFormat::kQ8_0;
      case CheckpointFormat::kGgufQ6_K:
        return BlockFormat::kQ6_K;
      default:
        break;
    }
    const bool precise = logical.gguf.ends_with("ffn_down.weight") || logical.gguf.ends_with("attn_v.weight");
    const int64_t eighth = shape_.layers / 8;
    const bool chosen = layer < eighth || layer >= 7 * shape_.layers / 8 || (layer - eighth) % 3 == 2;
    return logical.gguf == "output.weight" || (precise && chosen) ? BlockFormat::kQ6_K : BlockFormat::kQ4_K;
  }

  void SortAsSafetensors() {
    std::sort(tensors_.begin(), tensors_.end(), [](const LaidOutTensor& a, const LaidOutTensor& b) {
      const int left = BitWidth(a.type.element());
      const int right = BitWidth(b.type.element());
      return left != right ? left > right : a.name < b.name;
    });
  }

  const CheckpointShape& shape_;
  std::vector<LaidOutTensor> tensors_;
  absl::Status status_;
};

}  // namespace

uint64_t LaidOutTensor::bytes() const {
  if (!blocks.has_value()) return type.bytes();
  return static_cast<uint64_t>(type.num_elements()) / kernels::BlockLength(*blocks) *
         kernels::BlockBytes(*blocks);
}

std::optional<int64_t> GroupSize(const CheckpointShape& shape) {
  const auto fits = [&](int64_t group) {
    return shape.hidden % group == 0 && shape.intermediate % group == 0;
  };
  if (fits(kUsualGroup)) return kUsualGroup;
  // One group has no order.
  const bool order = shape.format == CheckpointFormat::kGptqActOrder;
  return order && fits(kSmallGroup) ? std::optional(kSmallGroup) : std::nullopt;
}

bool IsGptq(CheckpointFormat format) {
  return format >= CheckpointFormat::kGptq && format <= CheckpointFormat::kGptq8;
}

bool IsCompressed(CheckpointFormat format) {
  return format >= CheckpointFormat::kInt8 && format <= CheckpointFormat::kPackInt4;
}

bool IsGguf(CheckpointFormat format) { return format >= CheckpointFormat::kGgufQ4_0; }

absl::StatusOr<std::vector<LaidOutTensor>> StoredLayout(const CheckpointShape& shape) {
  NPUBANK_RETURN_IF_ERROR(CheckShape(shape));
  return Layout(shape).Make();
}

}  // namespace npubank
