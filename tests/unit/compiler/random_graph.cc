#include "npubank/tests/unit/compiler/random_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/tests/unit/compiler/function_maker.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

constexpr int64_t kHeadDim = 4;
constexpr int64_t kWidth = 8;  // of what passes from block to block

class Generator {
 public:
  explicit Generator(std::mt19937& random) : random_(random) {}

  Graph Run() {
    tokens_ = graph_.AddInput("tokens", I32({kRandomChunk}));
    span_ = graph_.AddInput("span", I32({2}));
    uint32_t carry = graph_.AddInput("x", F32({kRandomChunk, kWidth}));
    old_ = {carry};
    for (int stack = To(3); stack >= 0; --stack) {
      const unsigned seed = random_();
      const int ops = 6 + To(9);
      for (int block = To(4); block >= 0; --block) {
        random_.seed(seed);  // the same block once more, on what the last one made
        carry = Block(carry, ops);
      }
      random_.seed(seed + 1);
      for (int op = To(4); op > 0; --op) carry = Block(carry, 1);
    }
    graph_.AddOutput(carry);
    AddOutputs(carry);
    return std::move(graph_);
  }

 private:
  int To(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  bool OneIn(int n) { return To(n) == 0; }

  // Operations on `carry`, on each other's results and sometimes on an older block's; the last one
  // is as wide as `carry`.
  uint32_t Block(uint32_t carry, int ops) {
    local_ = {carry};
    if (OneIn(3))
      local_.push_back(old_[old_.size() - 1 - static_cast<size_t>(To(3)) % old_.size()]);
    for (int op = 0; op < ops; ++op) local_.push_back(RandomOp());
    uint32_t last = local_.back();
    if (Rows(last) != kRandomChunk || Width(last) != kWidth) last = Any(kRandomChunk, kWidth);
    switch (To(3)) {
      case 0:
        carry = Sum(carry, Product(local_.back(), kWidth));
        break;
      case 1:
        carry = Sum(last, carry);
        break;
      default:
        carry = Product(last, kWidth);
        break;
    }
    old_.push_back(carry);
    return carry;
  }

  uint32_t RandomOp() {
    const uint32_t x = Recent();
    switch (To(12)) {
      case 0:
        return Norm(x);
      case 1:
        return Op(OpKind::kRope, {x, span_}, Type(x), RopeAttributes());
      case 2:
        return Op(OpKind::kSiluMul, {x, Any(Rows(x), Width(x))}, Type(x));
      case 3:
      case 4:
        return Sum(x, Any(Rows(x), Width(x)));
      case 5:
        return Sum(Product(Recent(), kWidth), Any(Rows(local_.back()), kWidth));
      case 6:
      case 7:
        return Attention(x);
      case 8:
        return Embedding();
      case 9:
        return Rows(x) == kRandomChunk ? Op(OpKind::kSelectLast, {x, span_}, F32({1, Width(x)}))
                                       : Norm(x);
      default:
        return Product(x, 8 * (1 + To(3)));
    }
  }

  // Both have one row where the first has.
  uint32_t Sum(uint32_t a, uint32_t b) {
    if (Rows(a) != Rows(b)) b = Any(Rows(a), Width(a));
    return OneIn(2) ? Op(OpKind::kAdd, {a, b}, Type(a)) : Op(OpKind::kAdd, {b, a}, Type(a));
  }

  uint32_t Norm(uint32_t x) {
    OpAttributes attributes;
    attributes.epsilon = 1e-5f;
    if (OneIn(4)) return Op(OpKind::kAddBias, {x, Weight({Width(x)})}, Type(x));
    const int64_t pieces = OneIn(3) ? 2 : 1;  // heads, each normed by itself
    return Op(OpKind::kRmsNorm, {x, Weight({Width(x) / pieces})}, Type(x), attributes);
  }

  // Sometimes with an addend of its own, which may be what is multiplied.
  uint32_t Product(uint32_t x, int64_t width) {
    OpAttributes attributes;
    attributes.transposed = OneIn(2);
    std::vector<uint32_t> inputs = {x};
    if (attributes.transposed) {
      attributes.form = AddRows(width, Width(x), inputs);
    } else {
      inputs.push_back(Weight({Width(x), width}));
    }
    if (OneIn(8)) inputs.push_back(width == Width(x) && OneIn(2) ? x : Any(Rows(x), width));
    return Op(OpKind::kMatMul, std::move(inputs), F32({Rows(x), width}), attributes);
  }

  uint32_t Embedding() {
    OpAttributes attributes;
    std::vector<uint32_t> inputs = {tokens_};
    attributes.form = AddRows(11, kWidth, inputs);
    return Op(OpKind::kEmbed, std::move(inputs), F32({kRandomChunk, kWidth}), attributes);
  }

  // A matrix that lies by rows, whole or in two or three parts; its values after `inputs`.
  WeightForm AddRows(int64_t rows, int64_t columns, std::vector<uint32_t>& inputs) {
    if (OneIn(2)) {
      inputs.push_back(Weight({rows, columns}));
      return WeightForm();
    }
    const WeightForm form =
        WeightForm::Planes(OneIn(2) ? WeightForm::Offset::kNone : WeightForm::Offset::kMin);
    const std::string name = absl::StrCat("weight", graph_.values().size());
    for (const WeightPart part : form.Parts()) {
      const bool numbers = part == WeightPart::kWeight;
      const std::string stored = absl::StrCat(name, " ", WeightPartName(part));
      model_.Set(stored, numbers ? ElementType::kI8 : ElementType::kF32, {rows, numbers ? columns : 2});
      inputs.push_back(graph_.AddWeight(name, model_.Tensor(stored), part));
    }
    return form;
  }

  // Over caches of its own, all heads at once or head after head.
  uint32_t Attention(uint32_t q) {
    const uint32_t keys = Cache(Width(q));
    const uint32_t values = Cache(Width(q));
    const int64_t heads = Width(q) / kHeadDim;
    const int64_t step = OneIn(2) ? heads : 1;
    OpAttributes attributes;
    attributes.head_dim = kHeadDim;
    attributes.heads = step;
    attributes.scale = 0.5f;
    const TensorType scores_type = F32({step, Rows(q), kRandomContext});
    uint32_t mixed = 0;
    for (int64_t head = 0; head < heads; head += step) {
      attributes.first_head = head;
      uint32_t scores = Op(OpKind::kAttentionScores, {q, keys, span_}, scores_type, attributes);
      scores = Op(OpKind::kSoftmax, {scores, span_}, scores_type);
      std::vector<uint32_t> inputs = {scores, values, span_};
      if (head > 0) inputs.push_back(mixed);
      mixed = Op(OpKind::kAttentionMix, std::move(inputs), Type(q), attributes);
    }
    return mixed;
  }

  uint32_t Cache(int64_t width) {
    const std::string name = absl::StrCat("state", graph_.values().size());
    const TensorType type = F32({kRandomContext, width});
    const uint32_t state = graph_.AddState(name, type);
    return Op(OpKind::kCacheWrite, {Any(kRandomChunk, width), state, span_}, type);
  }

  // Values that something later reads are outputs as well, now and then.
  void AddOutputs(uint32_t last) {
    for (const GraphOp& op : graph_.ops()) {
      const bool rows = graph_.value(op.output).type.shape().rank() == 2;
      const bool chained = op.kind == OpKind::kAttentionMix || op.kind == OpKind::kCacheWrite;
      if (rows && !chained && op.output != last && OneIn(12)) graph_.AddOutput(op.output);
    }
  }

  uint32_t Recent() {
    return local_[local_.size() - 1 - static_cast<size_t>(To(4)) % local_.size()];
  }

  // The latest or another value of that type; made if there is none.
  uint32_t Any(int64_t rows, int64_t width) {
    std::vector<uint32_t> fitting;
    for (uint32_t value : local_) {
      if (Rows(value) == rows && Width(value) == width) fitting.push_back(value);
    }
    if (!fitting.empty()) {
      return OneIn(2) ? fitting.back() : fitting[static_cast<size_t>(To(4)) % fitting.size()];
    }
    const auto of_rows = std::find_if(local_.begin(), local_.end(),
                                      [&](uint32_t value) { return Rows(value) == rows; });
    const uint32_t from = of_rows != local_.end() ? *of_rows : local_.front();
    const uint32_t made =
        Op(OpKind::kMatMul, {from, Weight({Width(from), width})}, F32({Rows(from), width}));
    return rows == Rows(from) ? made : Op(OpKind::kSelectLast, {made, span_}, F32({1, width}));
  }

  uint32_t Weight(std::vector<int64_t> dims) {
    const std::string name = absl::StrCat("weight", graph_.values().size());
    model_.Set(name, ElementType::kF32, std::move(dims));
    return graph_.AddWeight(name, model_.Tensor(name));
  }

  uint32_t Op(OpKind kind, std::vector<uint32_t> inputs, TensorType type,
              OpAttributes attributes = {}) {
    return graph_.AddOp(kind, absl::StrCat("op", graph_.ops().size()), std::move(inputs),
                        std::move(type), std::move(attributes));
  }

  static OpAttributes RopeAttributes() {
    OpAttributes attributes;
    attributes.head_dim = kHeadDim;
    attributes.frequencies = {1.0f, 0.25f};
    return attributes;
  }

  const TensorType& Type(uint32_t value) const { return graph_.value(value).type; }
  int64_t Rows(uint32_t value) const { return Type(value).shape().dim(0); }
  int64_t Width(uint32_t value) const { return Type(value).shape().dim(1); }

  std::mt19937& random_;
  Graph graph_;
  FakeModel model_{SmallConfig(1)};
  uint32_t tokens_ = 0;
  uint32_t span_ = 0;
  std::vector<uint32_t> local_;  // of the block being made
  std::vector<uint32_t> old_;    // what blocks handed on
};

}  // namespace

Graph RandomGraph(std::mt19937& random) { return Generator(random).Run(); }

}  // namespace npubank
