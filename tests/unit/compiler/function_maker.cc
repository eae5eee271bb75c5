#include "npubank/tests/unit/compiler/function_maker.h"

#include <flatbuffers/flatbuffers.h>

namespace npubank {
namespace {

OpAttributes HeadAttributes() {
  OpAttributes attributes;
  attributes.head_dim = 4;
  attributes.heads = 2;
  attributes.heads_per_kv_head = 2;
  attributes.scale = 0.5f;
  attributes.window = 4;
  return attributes;
}

OpAttributes RopeAttributes() {
  OpAttributes attributes;
  attributes.head_dim = 4;
  attributes.frequencies = {1.0f, 0.25f};
  return attributes;
}

OpAttributes NormAttributes() {
  OpAttributes attributes;
  attributes.epsilon = 1e-5f;
  return attributes;
}

}  // namespace

Function MakeLayer() {
  FunctionMaker f("layer");
  const uint32_t x = f.Input("x", F32({3, 8}));
  const uint32_t span = f.Input("span", I32({2}));
  const uint32_t keys = f.Input("keys", F32({5, 4}));
  const uint32_t values = f.Input("values", F32({5, 4}));
  const uint32_t norm = f.Input("norm", F32({8}));
  const uint32_t wq = f.Input("wq", Type(ElementType::kF16, {8, 8}));
  const uint32_t wk = f.Input("wk", Type(ElementType::kBF16, {8, 4}));
  const uint32_t wo = f.Input("wo", F32({8, 8}));
  OpAttributes transposed;
  transposed.transposed = true;
  const uint32_t n = f.Op(OpKind::kRmsNorm, {x, norm}, F32({3, 8}), NormAttributes());
  const uint32_t k = f.Op(OpKind::kMatMul, {n, wk}, F32({3, 4}));
  const uint32_t kr = f.OpOver(OpKind::kRope, {k, span}, k, RopeAttributes());
  const uint32_t kc = f.OpOver(OpKind::kCacheWrite, {kr, keys, span}, keys);
  const uint32_t vc = f.OpOver(OpKind::kCacheWrite, {kr, values, span}, values);
  const uint32_t q = f.Op(OpKind::kMatMul, {n, wq}, F32({3, 8}), transposed);
  const uint32_t s =
      f.Op(OpKind::kAttentionScores, {q, kc, span}, F32({2, 3, 5}), HeadAttributes());
  const uint32_t p = f.OpOver(OpKind::kSoftmax, {s, span}, s, HeadAttributes());
  const uint32_t m = f.Op(OpKind::kAttentionMix, {p, vc, span}, F32({3, 8}), HeadAttributes());
  const uint32_t o = f.Op(OpKind::kMatMul, {m, wo, x}, F32({3, 8}));
  const uint32_t g = f.Op(OpKind::kSiluMul, {o, n}, F32({3, 8}));
  const uint32_t y = f.Op(OpKind::kAdd, {g, o}, F32({3, 8}));
  return f.Finish({y});
}

std::string OfVersion(std::string blob, uint32_t version) {
  constexpr flatbuffers::voffset_t kFirstField = 4;  // both say their version there
  auto* const root = flatbuffers::GetMutableRoot<flatbuffers::Table>(blob.data());
  flatbuffers::WriteScalar(root->GetAddressOf(kFirstField), version);
  return blob;
}

Function MakeEnds() {
  FunctionMaker f("ends");
  const uint32_t tokens = f.Input("tokens", I32({3}));
  const uint32_t span = f.Input("span", I32({2}));
  const uint32_t table = f.Input("table", Type(ElementType::kBF16, {11, 8}));
  const uint32_t x = f.Op(OpKind::kEmbed, {tokens, table}, F32({3, 8}));
  const uint32_t y = f.Op(OpKind::kSelectLast, {x, span}, F32({1, 8}));
  return f.Finish({y});
}

}  // namespace npubank
