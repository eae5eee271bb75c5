#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bank/snapshot.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tools/snapshot_text.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

BankSnapshot Sample() {
  BankSnapshot snapshot;
  TensorSnapshot tensor;
  tensor.uid = Uid{0xabcdef};
  tensor.name = "layers.0.wq";
  tensor.type = "F16[4]";
  tensor.state = "resident";
  tensor.recipe = "wq F32[4] -> convert(F16)";
  tensor.strategy = "tiled";
  tensor.bytes = 8;
  tensor.device_bytes = 4096;
  tensor.owners = {"prefill", "kvcache"};
  snapshot.tensors.push_back(tensor);
  tensor.uid = Uid{1};
  tensor.state = "registered";
  tensor.strategy = "";
  tensor.owners = {};
  tensor.name = "bad \xff\n name";
  tensor.recipe = "bad \xff\n recipe";
  snapshot.tensors.push_back(tensor);
  snapshot.owners = {"prefill", "kvcache"};
  snapshot.unique_bytes = 16;
  snapshot.shared_bytes_saved = 8;
  return snapshot;
}

class BankInspectTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteSnapshot(Sample(), file_).ok()); }

  static void ExpectOneLine(const ProgramResult& result) {
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.error.rfind("error: ", 0), 0u) << result.error;
    EXPECT_EQ(result.error.find('\n'), result.error.size() - 1) << result.error;
  }

  TemporaryFolder folder_;
  std::string file_ = folder_.File("run.bank");
};

TEST_F(BankInspectTest, PrintsALinePerUidAndTheTotals) {
  const ProgramResult result = RunProgram({BANK_INSPECT, file_});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("0000000000abcdef  resident        8  tiled     "
                                    "prefill,kvcache  wq F32[4] -> convert(F16)\n"));
  EXPECT_THAT(result.out, HasSubstr("2 tensors of 2 owners, 16 bytes"));
  EXPECT_THAT(result.out, HasSubstr("bad \\377\\n recipe")) << "what cannot be printed is escaped";
}

TEST_F(BankInspectTest, PrintsTheSameAsJson) {
  const ProgramResult result = RunProgram({BANK_INSPECT, file_, "--format", "json"});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  ASSERT_EQ(json["tensors"].size(), 2u);
  EXPECT_EQ(json["tensors"][0]["uid"], "0000000000abcdef");
  EXPECT_EQ(json["tensors"][0]["owners"], nlohmann::json({"prefill", "kvcache"}));
  EXPECT_EQ(json["tensors"][0]["recipe"], "wq F32[4] -> convert(F16)");
  EXPECT_EQ(json["totals"]["unique_bytes"], 16);
  EXPECT_EQ(json["totals"]["shared_bytes_saved"], 8);
}

TEST_F(BankInspectTest, SaysInOneLineWhatIsWrong) {
  ExpectOneLine(RunProgram({BANK_INSPECT}));
  ExpectOneLine(RunProgram({BANK_INSPECT, file_, file_, file_}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.File("missing")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.path()}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("text", "this is no snapshot")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("empty", "")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, file_, "--format", "xml"}));
  const std::string good = EncodeSnapshot(Sample());
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("half", good.substr(0, good.size() / 2))}));
}

}  // namespace
}  // namespace npubank
