// Functions of another compiler, on a driver of its own (tests/support/foreign_npu), described by a
// manifest: five layers of one function are bound to five closures, and whatever does not fit is
// refused by name before a byte of a weight is evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/manifest/manifest.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel_group.h"
#include "npubank/tests/integration/foreign/foreign_fixture.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/foreign_npu/foreign_submodel.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Weights = ForeignSubmodel::Weights;

TEST_F(ForeignFunctionTest, FiveClosuresOfOneFunctionGiveTheRightSums) {
  auto group = Load(submodel_.path());
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->submodels()[0].closures(), 5u);
  EXPECT_EQ(DriverStatistics(*npu_->device()->software()).live_graphs, 1u) << "one function";
  for (float scale : {1.f, 2.f}) {
    std::vector<float> x = ForeignSubmodel::Input();
    for (float& number : x) number *= scale;
    const auto y = Run(**group, x);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(*y, ForeignSubmodel::Expected(x));
  }
}

TEST_F(ForeignFunctionTest, AnotherSubmodelOfTheSameWeightsCostsNothing) {
  auto first = Load(submodel_.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const uint64_t resident = bank_->Totals().resident_bytes;
  auto read = ReadManifest(submodel_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  auto second = SubmodelGroup::Register(npu_, bank_, {*read}, "again");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->submodels()[0].hits(), 10u);
  ASSERT_TRUE((*second)->Prepare().ok());
  EXPECT_EQ(bank_->Totals().resident_bytes, resident);
}

TEST_F(ForeignFunctionTest, AfterASleepTheWeightsComeBackThroughTheIndex) {
  auto group = Load(submodel_.path());
  ASSERT_TRUE(group.ok()) << group.status();
  const auto slept = (*group)->Sleep();
  ASSERT_TRUE(slept.ok()) << slept.status();
  EXPECT_EQ(bank_->Totals().resident_bytes, 0u);
  ASSERT_TRUE((*group)->Prepare().ok());
  const auto y = Run(**group, ForeignSubmodel::Input());
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
}

class EveryStrategy
    : public ForeignFunctionTest,
      public ::testing::WithParamInterface<std::tuple<MemoryStrategy, bool, Weights>> {};

TEST_P(EveryStrategy, GivesTheRightSums) {
  const auto [strategy, host_access, weights] = GetParam();
  switches_.emplace(
      std::map<std::string, std::string>{{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                                         {"NPUBANK_NPU_IMPORT", "1"},
                                         {"NPUBANK_NPU_HOST_ACCESS", host_access ? "1" : "0"}});
  Open(strategy);
  const ForeignSubmodel submodel(folder_.path(), weights);
  auto group = Load(submodel.path());
  ASSERT_TRUE(group.ok()) << group.status();
  const bool imports = strategy == MemoryStrategy::kImported || strategy == MemoryStrategy::kAuto;
  EXPECT_EQ(npu_->memory()->Usage().imported_bytes > 0, imports) << "biases at least are stored";
  const auto y = Run(**group, ForeignSubmodel::Input());
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
}

INSTANTIATE_TEST_SUITE_P(
    Foreign, EveryStrategy,
    ::testing::Combine(::testing::Values(MemoryStrategy::kAuto, MemoryStrategy::kCommitted,
                                         MemoryStrategy::kPlaced, MemoryStrategy::kTiled,
                                         MemoryStrategy::kImported),
                       ::testing::Bool(), ::testing::Values(Weights::kStored, Weights::kConverted)),
    [](const auto& of) {
      return absl::StrCat(MemoryStrategyName(std::get<0>(of.param)),
                          std::get<1>(of.param) ? "_integrated" : "_discrete",
                          std::get<2>(of.param) == Weights::kStored ? "_stored" : "_converted");
    });

TEST_F(ForeignFunctionTest, WhatIsBoundMustBeWhatTheDriverSays) {
  ExpectRefused("call 'layer 2': argument 'wait': is 'weight' as the driver says",
                [](Json& m) { m["calls"][2]["arguments"][1]["name"] = "wait"; });
  ExpectRefused("call 'layer 0': argument 'x': is F32[1,16] as the driver says, not F16[1,16]",
                [](Json& m) { m["values"][0]["type"] = "F16"; });
  ExpectRefused("call 'layer 4': argument 'y': is F32[1,16] as the driver says, not F32[1,17]",
                [](Json& m) {
                  m["values"][1]["dims"] = {1, 17};
                });
  ExpectRefused("call 'layer 4': argument 'y': is F32[1,16] as the driver says, not F32[16]",
                [](Json& m) { m["values"][1]["dims"] = Json::array({16}); });
  ExpectRefused("argument 'weight': is F32[16,16] as the driver says, not F32[8,32]", [](Json& m) {
    m["weights"][0]["tensor"].push_back({{"reshape", {8, 32}}});
  });
  ExpectRefused("argument 'weight': is F32[16,16] as the driver says, not BF16[16,16]",
                [](Json& m) {
                  m["weights"][6]["tensor"].push_back({{"convert", "BF16"}});
                });
  ExpectRefused("binds 3 arguments, but function 'layer' has 4",
                [](Json& m) { m["calls"][1]["arguments"].erase(3); });
  ExpectRefused("binds 5 arguments, but function 'layer' has 4", [](Json& m) {
    m["calls"][1]["arguments"].push_back({{"name", "z"}, {"value", "y"}});
  });
  ExpectRefused("call 'layer 4': argument 'y': is an output bound to a weight", [](Json& m) {
    m["weights"].push_back({{"name", "fifth"}, {"tensor", {"layers.4.bias"}}});
    m["calls"][4]["arguments"][3] = {{"name", "y"}, {"weight", "fifth"}};
    m["values"].erase(1);
  });
  ExpectRefused("argument 'y': is an output bound to input 'x'", [](Json& m) {
    m["calls"][4]["arguments"][3]["value"] = "x";
    m["values"].erase(1);
  });
  ExpectRefused("argument 'x': is an input bound to output 'y'",
                [](Json& m) { m["calls"][4]["arguments"][0]["value"] = "y"; });
}

TEST_F(ForeignFunctionTest, WhatIsReadOfTheArenaMustHaveBeenWrittenAndStillBeThere) {
  ExpectRefused("call 'layer 1': argument 'x': reads 'h3', which no call has written by then",
                [](Json& m) { m["calls"][1]["arguments"][0]["value"] = "h3"; });
  ExpectRefused("call 'layer 4': argument 'x': reads 'h1', where 'h3' lies by then",
                [](Json& m) { m["calls"][4]["arguments"][0]["value"] = "h1"; });
  ExpectRefused("is written to 'h1', over 'h0', which the same call reads", [](Json& m) {
    m["values"][3]["place"] = "scratch";
    m["values"][3]["offset"] = 0;
  });
}

TEST_F(ForeignFunctionTest, PlacesInTheArenaMustLieAsTheDeviceWantsAddresses) {
  auto npu = Npu::Open({.device = level_zero::DeviceChoice::kSoftware,
                        .memory = {.argument_alignment = 128},
                        .workers = 0});
  ASSERT_TRUE(npu.ok()) << npu.status();
  auto submodel = ReadManifest(submodel_.path());
  ASSERT_TRUE(submodel.ok()) << submodel.status();
  auto bank = (*npu)->MakeBank({});
  ASSERT_TRUE(bank.ok()) << bank.status();
  auto group = SubmodelGroup::Register(*npu, *bank, {*submodel}, "");
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THAT(std::string((*group)->MakeFunctions().message()),
              HasSubstr("submodel 'layers': value 'h1' lies at offset 64 of the arena"));
}

// Weights lie at multiples of 64 in their file: those of which more is wanted are copied, the others imported.
TEST_F(ForeignFunctionTest, WeightsLieAsTheManifestWantsThemAndMoreThanADriverGivesIsRefused) {
  Json manifest = submodel_.manifest();
  for (Json& weight : manifest["weights"])
    if (weight["name"].get<std::string>()[0] == 'w') weight["alignment"] = 4096;
  submodel_.Rewrite(manifest);
  for (const bool import : {false, true}) {
    SCOPED_TRACE(import ? "import on" : "import off");
    switches_.emplace(
        std::map<std::string, std::string>{{"NPUBANK_NPU_IMPORT", import ? "1" : "0"}});
    for (const MemoryStrategy strategy : {MemoryStrategy::kAuto, MemoryStrategy::kPlaced}) {
      Open(strategy);
      auto group = Load(submodel_.path());
      ASSERT_TRUE(group.ok()) << group.status();
      int imported = 0;
      for (const TensorSnapshot& tensor : bank_->Snapshot().tensors) {
        if (tensor.name[0] == 'w') {
          EXPECT_EQ(tensor.device_address % 4096, 0u) << tensor.name;
          EXPECT_EQ(tensor.alignment, 4096u);
        }
        imported += tensor.strategy == "imported" ? 1 : 0;
      }
      EXPECT_LT(imported, 10);
      EXPECT_EQ(imported >= 5, import && strategy == MemoryStrategy::kAuto) << "the biases";
      const auto y = Run(**group, ForeignSubmodel::Input());
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
    }
  }
  manifest["weights"][4]["alignment"] = 8192;
  submodel_.Rewrite(manifest);
  const absl::Status refused = Load(submodel_.path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("submodel 'layers'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'w2'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("multiples of 4096"));
}

TEST_F(ForeignFunctionTest, ABlobThatIsCutOffIsRefusedByName) {
  for (size_t bytes = 0; bytes < submodel_.blob().size(); ++bytes) {
    submodel_.RewriteBlob(submodel_.blob().substr(0, bytes));
    const absl::Status status = Load(submodel_.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("submodel 'layers'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("function 'layer'"));
  }
  submodel_.RewriteBlob(submodel_.blob());
  EXPECT_TRUE(Load(submodel_.path()).ok());
}

TEST_F(ForeignFunctionTest, AnOlderDriverIsAskedOnlyWhatItsTableHas) {
  for (const char* version : {"0", "1", "2", "3", "5", "7", "8", "11", "12"}) {
    SCOPED_TRACE(version);
    const ForeignSwitch driver("FOREIGN_NPU_VERSION", version);
    Open(MemoryStrategy::kCommitted);
    const auto y = LoadAndRun(submodel_.path());
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
  }
}

TEST_F(ForeignFunctionTest, EveryStageOfInitialisationIsDoneBeforeTheFirstExecution) {
  for (const char* stages : {"0", "1", "2", "3"}) {
    SCOPED_TRACE(stages);
    const ForeignSwitch driver("FOREIGN_NPU_STAGES", stages);
    const auto y = LoadAndRun(submodel_.path());
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
  }
}

TEST_F(ForeignFunctionTest, WhatADriverSaysOfArgumentsIsBoundedToo) {
  const std::pair<const char*, const char*> kLies[] = {
      {"many", "function 'layer': the driver says it has 4294967295 arguments"},
      {"rank", "function 'layer', argument 0: the driver says"},
      {"kind", "function 'layer', argument 0: the driver says it is of kind 9"},
      {"precision", "argument 'x': is precision 99 [1,16] as the driver says, not F32[1,16]"},
      {"name", "argument 'x': is 'nnnnnn"}};
  for (const auto& [lie, words] : kLies) {
    const ForeignSwitch driver("FOREIGN_NPU_LIE", lie);
    const absl::Status status = Load(submodel_.path()).status();
    EXPECT_FALSE(status.ok()) << lie;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_EQ(bank_->Totals().resident_bytes, 0u);
  }
  const ForeignSwitch driver("FOREIGN_NPU_LIE", "older");
  EXPECT_TRUE(LoadAndRun(submodel_.path()).ok()) << "the calls before are asked then";
}

// Each run adds its input to a state: the function reads and writes it in place.
class ForeignStateTest : public ForeignFunctionTest {
 protected:
  void SetUp() override {
    ForeignFunctionTest::SetUp();
    using level_zero::GraphPrecision;
    folder_.Write("sum.blob", WriteForeignBlob({ForeignOperation::kSum,
                                                {{"x", false, GraphPrecision::kF32, {1, 4}},
                                                 {"before", false, GraphPrecision::kF32, {1, 4}},
                                                 {"after", true, GraphPrecision::kF32, {1, 4}}}}));
    const auto value = [](const char* name, const char* place) {
      return Json{{"name", name}, {"type", "F32"}, {"dims", {1, 4}}, {"place", place}};
    };
    const Json call = {{"name", "add"},
                       {"function", "sum"},
                       {"arguments",
                        {{{"name", "x"}, {"value", "x"}},
                         {{"name", "before"}, {"value", "total"}},
                         {{"name", "after"}, {"value", "total"}}}}};
    const Json manifest = {{"npubank_manifest", 1},
                           {"name", "accumulate"},
                           {"functions", {{{"name", "sum"}, {"file", "sum.blob"}}}},
                           {"values", {value("x", "input"), value("total", "state")}},
                           {"calls", Json::array({call})}};
    path_ = folder_.Write("accumulate.json", manifest.dump());
  }
  std::string path_;
};

TEST_F(ForeignStateTest, StaysFromRunToRunAndBeginsAsItIsSet) {
  auto group = Load(path_);
  ASSERT_TRUE(group.ok()) << group.status();
  const std::vector<float> x = {1, 2, 3, 4};
  std::memcpy((*group)->Buffer("x").data(), x.data(), 16);
  ASSERT_TRUE((*group)->SetStates({}).ok());
  for (int run = 0; run < 3; ++run) ASSERT_TRUE((*group)->Run(0).ok());
  EXPECT_EQ((*group)->ReadState("total").value(), BytesOf({3, 6, 9, 12}));
  ASSERT_TRUE((*group)->SetStates({{"total", BytesOf({100, 0, 0, 0})}}).ok());
  ASSERT_TRUE((*group)->Run(0).ok());
  EXPECT_EQ((*group)->ReadState("total").value(), BytesOf({101, 2, 3, 4}));
  (*group)->Pause();
  ASSERT_TRUE((*group)->Prepare().ok());
  EXPECT_EQ((*group)->ReadState("total").value(), BytesOf({101, 2, 3, 4})) << "a pause keeps it";
}

TEST_F(ForeignStateTest, IsRefusedByNameWhereItDoesNotFit) {
  auto group = Load(path_);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THAT(std::string((*group)->SetStates({{"sum", ""}}).message()), HasSubstr("no state 'sum'"));
  EXPECT_THAT(std::string((*group)->SetStates({{"total", "12345"}}).message()),
              HasSubstr("state 'total' is F32[1,4], not 5 bytes"));
  EXPECT_EQ((*group)->ReadState("sum").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ForeignStateTest, IsOneForTheSubmodelsOfAGroupAndMustAgree) {
  auto first = ReadManifest(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = *first;
  second.name = "again";
  auto group = SubmodelGroup::Register(npu_, bank_, {*first, second}, "");
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_TRUE((*group)->Prepare().ok());
  ASSERT_TRUE((*group)->SetStates({}).ok());
  const std::vector<float> x = {1, 0, 0, 0};
  std::memcpy((*group)->Buffer("x").data(), x.data(), 16);
  for (size_t submodel : {0, 1, 0}) ASSERT_TRUE((*group)->Run(submodel).ok());
  EXPECT_EQ((*group)->ReadState("total").value(), BytesOf({3, 0, 0, 0}));
  EXPECT_FALSE((*group)->Run(2).ok());
  second.values[1].type = second.values[0].type = TensorType();
  EXPECT_THAT(
      std::string(SubmodelGroup::Register(npu_, bank_, {*first, second}, "").status().message()),
      HasSubstr("state 'total' is F32[] in one submodel and F32[1,4] in another"));
}

// For every N the N-th call fails, once or with all behind it: a Status, or all is well, and the same thing tried again
// works.
class ForeignFaultTest : public ForeignFunctionTest, public ::testing::WithParamInterface<bool> {};

TEST_P(ForeignFaultTest, AnyCallOfALoadAndRunMayFail) {
  const bool forever = GetParam();
  const level_zero::SoftwareNpuExtension& software = *npu_->device()->software();
  uint64_t failures = 0;
  uint64_t calls = 0;
  for (uint64_t n = 1; n < 500; ++n) {
    SCOPED_TRACE(n);
    software.pfnFailCall("", n, forever, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    const auto y = LoadAndRun(submodel_.path());
    software.pfnCountCalls("", &calls);
    software.pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    failures += y.ok() ? 0 : 1;
    if (y.ok()) {
      EXPECT_EQ(*y, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
    } else {
      EXPECT_FALSE(y.status().message().empty());
    }
    EXPECT_EQ(DriverStatistics(software).live_graphs, 0u);
    if (calls < n) break;
    const auto again = LoadAndRun(submodel_.path());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, ForeignSubmodel::Expected(ForeignSubmodel::Input()));
  }
  EXPECT_LT(calls, 500u);
  EXPECT_GT(failures, 20u);
}

INSTANTIATE_TEST_SUITE_P(Every, ForeignFaultTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "forever" : "once"; });

}  // namespace
}  // namespace npubank
