#include "npubank/compiler_stub/planner/files/example_graphs.h"

#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

constexpr int64_t kF16 = 2;

// Adds operations with one output each, and returns the number of the value they make.
class Builder {
 public:
  int Input(absl::string_view name, int64_t elements) {
    return graph_.AddValue(std::string(name), elements * kF16);
  }
  // A matrix product or a convolution: nothing in place, but can accumulate.
  int Product(absl::string_view kind, absl::string_view name, std::vector<int> inputs,
              int64_t elements) {
    return Add(kind, name, std::move(inputs), elements, {}, false, true);
  }
  // Writes over any of its inputs.
  int Elementwise(absl::string_view kind, absl::string_view name, std::vector<int> inputs) {
    const auto elements = static_cast<int64_t>(graph_.values[inputs[0]].bytes) / kF16;
    std::vector<int> over;
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) over.push_back(i);
    return Add(kind, name, std::move(inputs), elements, std::move(over), kind == "add", false);
  }
  // Moves data: neither.
  int Copy(absl::string_view kind, absl::string_view name, std::vector<int> inputs,
           int64_t elements) {
    return Add(kind, name, std::move(inputs), elements, {}, false, false);
  }
  // Adds a part to `whole` where there is one.
  int Part(absl::string_view kind, absl::string_view name, std::vector<int> inputs, int whole,
           int64_t elements) {
    if (whole < 0) return Copy(kind, name, std::move(inputs), elements);
    inputs.push_back(whole);
    const int last = static_cast<int>(inputs.size()) - 1;
    return Add(kind, name, std::move(inputs), elements, {last}, false, false);
  }
  PlanGraph Finish(int result) {
    graph_.values[result].kept = true;
    return std::move(graph_);
  }

 private:
  int Add(absl::string_view kind, absl::string_view name, std::vector<int> inputs, int64_t elements,
          std::vector<int> in_place, bool is_add, bool can_accumulate) {
    const int output = graph_.AddValue(std::string(name), elements * kF16);
    PlanOp op;
    op.name = std::string(name);
    op.kind = std::string(kind);
    op.inputs = std::move(inputs);
    op.outputs = {output};
    op.in_place = std::move(in_place);
    op.is_add = is_add;
    op.can_accumulate = can_accumulate;
    graph_.ops.push_back(std::move(op));
    return output;
  }

  PlanGraph graph_;
};

int LlamaAttention(Builder* b, const LlamaShape& s, const std::string& at, int q, int k, int v,
                   int64_t rows, int64_t context, bool per_head) {
  const int64_t width = s.heads * s.head;
  if (!per_head) {
    const int scores = b->Product("scores", at + "s", {q, k}, s.heads * rows * context);
    const int weights = b->Elementwise("softmax", at + "p", {scores});
    return b->Product("mix", at + "att", {weights, v}, rows * width);
  }
  int attention = -1;
  for (int64_t head = 0; head < s.heads; ++head) {
    const int scores = b->Product("scores", absl::StrCat(at, "s", head), {q, k}, rows * context);
    const int weights = b->Elementwise("softmax", absl::StrCat(at, "p", head), {scores});
    attention =
        b->Part("mix", absl::StrCat(at, "att", head), {weights, v}, attention, rows * width);
  }
  return attention;
}

// gn, silu, conv, gn, silu, conv, and the input added, through a convolution where channels change.
int ResidualBlock(Builder* b, const std::string& at, int x, int64_t in, int64_t out,
                  int64_t pixels) {
  const int norm1 = b->Elementwise("groupnorm", at + "gn1", {x});
  const int act1 = b->Elementwise("silu", at + "act1", {norm1});
  const int conv1 = b->Product("conv", at + "c1", {act1}, out * pixels);
  const int norm2 = b->Elementwise("groupnorm", at + "gn2", {conv1});
  const int act2 = b->Elementwise("silu", at + "act2", {norm2});
  const int conv2 = b->Product("conv", at + "c2", {act2}, out * pixels);
  const int shortcut = in == out ? x : b->Product("conv", at + "short", {x}, out * pixels);
  return b->Elementwise("add", at + "res", {shortcut, conv2});
}

}  // namespace

PlanGraph LlamaGraph(const LlamaShape& s, int64_t rows, int64_t context, bool per_head) {
  Builder b;
  const int64_t width = s.heads * s.head;
  const int64_t kv_width = s.kv_heads * s.head;
  int x = b.Input("x0", rows * s.model);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string at = absl::StrCat("l", layer, ".");
    const int norm1 = b.Elementwise("rmsnorm", at + "ln1", {x});
    const int q = b.Product("matmul", at + "q", {norm1}, rows * width);
    const int k = b.Product("matmul", at + "k", {norm1}, rows * kv_width);
    const int v = b.Product("matmul", at + "v", {norm1}, rows * kv_width);
    const int rotated_q = b.Elementwise("rope", at + "qr", {q});
    const int rotated_k = b.Elementwise("rope", at + "kr", {k});
    const int attention =
        LlamaAttention(&b, s, at, rotated_q, rotated_k, v, rows, context, per_head);
    const int projected = b.Product("matmul", at + "o", {attention}, rows * s.model);
    const int x1 = b.Elementwise("add", at + "x1", {x, projected});
    const int norm2 = b.Elementwise("rmsnorm", at + "ln2", {x1});
    const int gate = b.Product("matmul", at + "gate", {norm2}, rows * s.hidden);
    const int up = b.Product("matmul", at + "up", {norm2}, rows * s.hidden);
    const int activated = b.Elementwise("silu", at + "silu", {gate});
    const int product = b.Elementwise("mul", at + "mul", {activated, up});
    const int down = b.Product("matmul", at + "down", {product}, rows * s.model);
    x = b.Elementwise("add", at + "x2", {x1, down});
  }
  const int last = b.Copy("rmsnorm", "lnf", {x}, s.model);  // of the last row alone
  return b.Finish(b.Product("matmul", "logits", {last}, s.vocabulary));
}

PlanGraph UNetGraph() {
  constexpr std::array<int64_t, 4> kChannels = {320, 640, 1280, 1280};
  constexpr int64_t kLevels = kChannels.size();
  Builder b;
  int64_t pixels = 64 * 64;
  int64_t channels = kChannels[0];
  struct Skip {
    int value;
    int64_t channels;
  };
  std::vector<Skip> skips;
  const int latent = b.Input("latent", 4 * pixels);
  int x = b.Product("conv", "conv_in", {latent}, channels * pixels);
  skips.push_back({x, channels});
  for (int64_t level = 0; level < kLevels; ++level) {
    for (int block = 0; block < 2; ++block) {
      x = ResidualBlock(&b, absl::StrCat("down", level, ".", block, "."), x, channels,
                        kChannels[level], pixels);
      channels = kChannels[level];
      skips.push_back({x, channels});
    }
    if (level + 1 == kLevels) break;
    pixels /= 4;
    x = b.Product("conv", absl::StrCat("down", level, ".half"), {x}, channels * pixels);
    skips.push_back({x, channels});
  }
  x = ResidualBlock(&b, "mid.0.", x, channels, channels, pixels);
  x = ResidualBlock(&b, "mid.1.", x, channels, channels, pixels);
  for (int64_t level = kLevels - 1; level >= 0; --level) {
    for (int block = 0; block < 3; ++block) {
      const std::string at = absl::StrCat("up", level, ".", block, ".");
      const Skip skip = skips.back();
      skips.pop_back();
      const int joined =
          b.Copy("concat", at + "cat", {x, skip.value}, (channels + skip.channels) * pixels);
      x = ResidualBlock(&b, at, joined, channels + skip.channels, kChannels[level], pixels);
      channels = kChannels[level];
    }
    if (level == 0) break;
    pixels *= 4;
    const int wide = b.Copy("upsample", absl::StrCat("up", level, ".us"), {x}, channels * pixels);
    x = b.Product("conv", absl::StrCat("up", level, ".usc"), {wide}, channels * pixels);
  }
  const int norm = b.Elementwise("groupnorm", "gn_out", {x});
  const int act = b.Elementwise("silu", "act_out", {norm});
  return b.Finish(b.Product("conv", "conv_out", {act}, 4 * pixels));
}

}  // namespace npubank
