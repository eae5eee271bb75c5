// Submodels by themselves: what they hold of the bank before anything runs.
#include "npubank/runtime/submodel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/compiled_submodel.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

class SubmodelTest : public NpuTest {
 protected:
  // One token at a time, of a model that shares no weight with one of another seed.
  Submodel Load(const std::string& name, uint64_t seed) {
    CheckpointShape shape = TinyShape();
    shape.seed = seed;
    models_.emplace_back(new TestModel(shape));
    const auto checkpoint = Checkpoint::Open(models_.back()->folder()).value();
    CompileOptions options;
    options.name = name;
    options.chunk = 1;
    options.context = 32;
    const std::string blob = Compile(*checkpoint, options).value();
    const CompiledSubmodel compiled = ReadCompiledSubmodel(blob, checkpoint->index()).value();
    return Submodel::Load(place_.bank, compiled.description, "").value();
  }
  // Device bytes of its weights that somebody runs on; its sleep lets all others go.
  uint64_t LeasedBytes(const Submodel& submodel) {
    return place_.bank->Sleep({&submodel.owner()}, {}).value().bytes_leased;
  }

  std::vector<std::unique_ptr<TestModel>> models_;
};

TEST_F(SubmodelTest, WhereOneOfSeveralLacksALeaseNoneOfThemKeepsAny) {
  std::vector<Submodel> submodels;
  submodels.push_back(Load("first", 1));
  submodels.push_back(Load("second", 2));
  const Owner* const owners[] = {&submodels[0].owner(), &submodels[1].owner()};
  {
    const std::vector<Lease> leases = place_.bank->Load(submodels[0].owner()).value();
    const absl::Status status = Submodel::Pin(absl::MakeSpan(submodels), leases);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("submodel 'second': weight '"));
  }
  EXPECT_EQ(LeasedBytes(submodels[0]), 0u);
  {
    const std::vector<Lease> leases = place_.bank->Load(owners).value();
    EXPECT_EQ(Submodel::Pin(absl::MakeSpan(submodels), leases), absl::OkStatus());
  }
  EXPECT_GE(LeasedBytes(submodels[0]), submodels[0].weight_bytes());
  EXPECT_GE(LeasedBytes(submodels[1]), submodels[1].weight_bytes());
}

}  // namespace
}  // namespace npubank
