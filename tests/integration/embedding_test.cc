// The README's embedding example, compiled and run.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/npu.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

#define ASSIGN NPUBANK_ASSIGN_OR_RETURN

absl::StatusOr<int32_t> NextToken(const std::string& folder, uint64_t* source_bytes_after_load) {
  ASSIGN(auto npu, Npu::Open());
  ASSIGN(auto bank, npu->MakeBank({}));
  ASSIGN(auto model, Checkpoint::Open(folder));
  std::vector<std::string> blobs;
  for (int64_t chunk : {8, 1}) {  // prefill, kvcache
    CompileOptions options;
    options.name = chunk == 1 ? "kvcache" : "prefill";
    options.chunk = chunk;
    options.context = 64;
    ASSIGN(std::string blob, Compile(*model, options));
    blobs.push_back(blob);
  }
  ASSIGN(auto session, Session::Load(npu, bank, blobs, model->index(), {}));
  model.reset();  // every weight is on the device now, once
  *source_bytes_after_load = LiveSourceBytes();
  ASSIGN(absl::Span<const float> logits, session->Feed({1, 40, 47}));
  return Argmax(logits);
}

absl::StatusOr<Lease> OneWeight(const std::string& folder) {
  ASSIGN(auto npu, Npu::Open());
  ASSIGN(auto bank, npu->MakeBank({}));
  ASSIGN(auto model, Checkpoint::Open(folder));
  ASSIGN(LazyTensor head, model->Tensor("lm_head.weight"));
  ASSIGN(Lease lease, bank->Load("demo", head));
  return lease;
}

class EmbeddingTest : public NpuTest {};

TEST_F(EmbeddingTest, TheReadmesFiveLinesPutAWeightOnTheDevice) {
  TestModel model;
  const auto lease = OneWeight(model.folder());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_NE(lease->address(), nullptr);
  EXPECT_EQ(lease->type().ToString(), "BF16[128,64]");
  EXPECT_EQ(LiveSourceBytes(), 0u);
}

TEST_F(EmbeddingTest, TheReadmesExampleLoadsRunsAndLeavesNothing) {
  TestModel model;
  uint64_t source_bytes = 1;
  const auto token = NextToken(model.folder(), &source_bytes);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_GE(*token, 0);
  EXPECT_EQ(source_bytes, 0u);
}

}  // namespace
}  // namespace npubank
