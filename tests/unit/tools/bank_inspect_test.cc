#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "npubank/bank/files/snapshot.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tools/reports/snapshot_text.h"

namespace npubank {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  tensor.device_bytes = 0;
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

// To the letter: people and scripts read it.
TEST_F(BankInspectTest, ThePlainDumpIsThis) {
  const ProgramResult result = RunProgram({BANK_INSPECT, file_});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  EXPECT_EQ(result.out, R"(uid               state       bytes  strategy  owners           recipe
0000000000abcdef  resident        8  tiled     prefill,kvcache  wq F32[4] -> convert(F16)
0000000000000001  registered      8  -         -                bad \377\n recipe

2 tensors of 2 owners, 16 bytes
device: 0 bytes now, 0 at the peak
saved by sharing: 8 bytes, 0 hits in 0 registrations
live source bytes: 0
)");
}

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

TEST_F(BankInspectTest, PrintsTheSameAsCsv) {
  const ProgramResult result = RunProgram({BANK_INSPECT, file_, "--format", "csv"});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("uid,digest,name,type,state,bytes,"));
  EXPECT_THAT(result.out, HasSubstr("layers.0.wq,F16[4],resident,8,4096,0x0,tiled,0,0,0,0,"
                                    "prefill;kvcache,wq F32[4] -> convert(F16),,,0,0,0\n"));
  EXPECT_THAT(result.out, HasSubstr("\"bad \xff\n name\"")) << "a line break is quoted";
}

TEST_F(BankInspectTest, SortsAndFilters) {
  const std::string sorted = RunProgram({BANK_INSPECT, file_, "--sort", "uid"}).out;
  EXPECT_LT(sorted.find("0000000000000001"), sorted.find("0000000000abcdef"));
  const std::string filtered = RunProgram({BANK_INSPECT, file_, "--filter", "kvcache"}).out;
  EXPECT_THAT(filtered, HasSubstr("0000000000abcdef"));
  EXPECT_THAT(filtered, Not(HasSubstr("0000000000000001")));
  const ProgramResult wrong = RunProgram({BANK_INSPECT, file_, "--sort", "colour"});
  ExpectOneLine(wrong);
  EXPECT_THAT(wrong.error, HasSubstr("device-bytes")) << "names the keys there are";
}

TEST_F(BankInspectTest, AFilterChoosesLinesAndLeavesTheTotalsAlone) {
  const std::string table = RunProgram({BANK_INSPECT, file_, "--filter", "kvcache"}).out;
  EXPECT_THAT(table, HasSubstr("\n1 shown of 2 tensors of 2 owners, 16 bytes\n"));
  const nlohmann::json json = nlohmann::json::parse(
      RunProgram({BANK_INSPECT, file_, "--filter", "kvcache", "--format", "json"}).out, nullptr,
      false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["tensors"].size(), 1u);
  EXPECT_EQ(json["totals"]["unique_tensors"], 2);
  EXPECT_EQ(json["totals"]["unique_bytes"], 16);
}

TEST_F(BankInspectTest, AFilteredDiffShowsTensorsThatHadItOrHaveItNow) {
  BankSnapshot after = Sample();
  after.tensors[0].state = "evicted";
  after.tensors[1].leases = 1;
  const std::string other = folder_.File("after.bank");
  ASSERT_TRUE(WriteSnapshot(after, other).ok());
  for (const char* filter : {"resident", "evicted"}) {
    const std::string out =
        RunProgram({BANK_INSPECT, "diff", file_, other, "--filter", filter}).out;
    EXPECT_THAT(out, ContainsRegex("changed +0000000000abcdef +layers.0.wq +state resident -> "
                                   "evicted\n"));
    EXPECT_THAT(out, Not(HasSubstr("0000000000000001"))) << "it changed, but never had it";
    EXPECT_THAT(out, Not(HasSubstr("total"))) << "there are as many tensors as before";
  }
}

TEST_F(BankInspectTest, DiffShowsWhatCameWentAndChanged) {
  BankSnapshot after = Sample();
  after.tensors[0].state = "evicted";
  after.tensors[0].device_bytes = 0;
  after.tensors[1].uid = Uid{2};
  after.tensors[1].name = "newcomer";
  after.unique_bytes = 24;
  const std::string other = folder_.File("after.bank");
  ASSERT_TRUE(WriteSnapshot(after, other).ok());
  const ProgramResult result = RunProgram({BANK_INSPECT, "diff", file_, other});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  EXPECT_THAT(result.out, ContainsRegex("changed +0000000000abcdef +layers.0.wq +state resident -> "
                                        "evicted, device bytes 4096 -> 0\n"));
  EXPECT_THAT(result.out, ContainsRegex("removed +0000000000000001"));
  EXPECT_THAT(result.out, ContainsRegex("added +0000000000000002 +newcomer"));
  EXPECT_THAT(result.out, ContainsRegex("total .*unique bytes 16 -> 24\n"));
  EXPECT_EQ(RunProgram({BANK_INSPECT, "diff", file_, file_}).out, "") << "nothing changed";
  ExpectOneLine(RunProgram({BANK_INSPECT, "diff", file_}));
}

TEST_F(BankInspectTest, LeaksAreListedAndAreExitStatusTwo) {
  const ProgramResult none = RunProgram({BANK_INSPECT, "leaks", file_});
  EXPECT_EQ(none.exit_status, 0) << none.error;
  EXPECT_EQ(none.out, "");

  BankSnapshot leaking = Sample();
  leaking.tensors[0].owners = {};
  leaking.keeps_unowned = true;
  const std::string kept = folder_.File("kept.bank");
  ASSERT_TRUE(WriteSnapshot(leaking, kept).ok());
  EXPECT_EQ(RunProgram({BANK_INSPECT, "leaks", kept}).exit_status, 0)
      << "a bank that keeps what nobody owns does not leak it";
  leaking.keeps_unowned = false;
  leaking.tensors[1].source_bytes = 16;
  leaking.tensors[1].why_held = "registered, not evaluated yet";
  leaking.live_source_bytes = 20;
  const std::string file = folder_.File("leaking.bank");
  ASSERT_TRUE(WriteSnapshot(leaking, file).ok());
  const ProgramResult table = RunProgram({BANK_INSPECT, "leaks", file});
  EXPECT_EQ(table.exit_status, 2);
  EXPECT_THAT(table.out, ContainsRegex("device +0000000000abcdef +layers.0.wq +4096 device bytes"));
  EXPECT_THAT(table.out, HasSubstr("16 source bytes still held: registered, not evaluated yet"));
  EXPECT_THAT(table.out, HasSubstr("4 source bytes held by somebody else"));
  const ProgramResult json = RunProgram({BANK_INSPECT, "leaks", file, "--format", "json"});
  EXPECT_EQ(json.exit_status, 2);
  EXPECT_EQ(nlohmann::json::parse(json.out, nullptr, false).size(), 3u) << json.out;
  ExpectOneLine(RunProgram({BANK_INSPECT, "leaks", folder_.File("missing")}));
}

nlohmann::json ModelAsJson(const std::string& path) {
  const ProgramResult result = RunProgram({BANK_INSPECT, "model", path, "--format", "json"});
  EXPECT_EQ(result.exit_status, 0) << result.error;
  return nlohmann::json::parse(result.out, nullptr, false);
}

TEST_F(BankInspectTest, ModelListsWhatAFileStoresWithoutAConfigOfAnyNetwork) {
  const std::string header =
      R"({"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},"a\n":{"dtype":"I8","shape":[4],)"
      R"("data_offsets":[0,4]}})";
  const uint64_t length = header.size();
  const std::string file = folder_.Write(
      "any.safetensors", std::string(reinterpret_cast<const char*>(&length), sizeof(length)) +
                             header + std::string(16, 'x'));
  const nlohmann::json json = ModelAsJson(file);
  ASSERT_EQ(json["tensors"].size(), 2u) << json;
  const auto b = std::find_if(json["tensors"].begin(), json["tensors"].end(),
                              [](const nlohmann::json& tensor) { return tensor["name"] == "b"; });
  ASSERT_NE(b, json["tensors"].end());
  EXPECT_EQ(*b, nlohmann::json({{"name", "b"},
                                {"type", "F16"},
                                {"shape", {2, 3}},
                                {"bytes", 12},
                                {"offset", 8 + length + 4},
                                {"file", file}}));
  const ProgramResult table = RunProgram({BANK_INSPECT, "model", file, "--filter", "a"});
  EXPECT_EQ(table.exit_status, 0) << table.error;
  EXPECT_THAT(table.out, ContainsRegex("a.n +I8 +\\[4\\] +4 +"));
  EXPECT_THAT(table.out, HasSubstr("\n1 shown of 2 tensors in 1 file, 16 bytes\n"));
  const ProgramResult csv = RunProgram({BANK_INSPECT, "model", file, "--format", "csv"});
  EXPECT_EQ(csv.out.rfind("name,type,shape,bytes,offset,file\n", 0), 0u) << csv.out;
}

TEST_F(BankInspectTest, ModelListsFoldersShardsAndBlocks) {
  const nlohmann::json whole = ModelAsJson(StoriesFolder());
  EXPECT_EQ(whole["totals"], nlohmann::json({{"tensors", 47}, {"bytes", 260032 * 4}}));
  EXPECT_EQ(whole["files"].size(), 1u);
  const TemporaryFolder shards;
  WriteShardedStories(shards.path());
  const nlohmann::json sharded = ModelAsJson(shards.path());
  EXPECT_EQ(sharded["totals"], whole["totals"]);
  EXPECT_EQ(sharded["files"].size(), 2u);
  const nlohmann::json gguf = ModelAsJson(StoriesGguf());
  const auto find = [&](const std::string& name) {
    for (const nlohmann::json& tensor : gguf["tensors"])
      if (tensor["name"] == name) return tensor;
    return nlohmann::json();
  };
  const nlohmann::json gate = find("blk.0.ffn_gate.weight");
  EXPECT_EQ(gate["type"], "Q4_0");
  EXPECT_EQ(gate["shape"], nlohmann::json({192, 64})) << "in elements";
  EXPECT_EQ(gate["bytes"], 192 * 64 / 32 * 18) << "as they are stored";
  EXPECT_EQ(find("blk.0.attn_norm.weight")["type"], "F32");
}

TEST_F(BankInspectTest, ModelSaysInOneLineWhatIsNoCheckpoint) {
  ExpectOneLine(RunProgram({BANK_INSPECT, "model", folder_.File("missing")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, "model", folder_.path()}));
  ExpectOneLine(RunProgram({BANK_INSPECT, "model", file_}));
  ExpectOneLine(RunProgram({BANK_INSPECT, "model", StoriesFolder(), "--sort", "name"}));
}

TEST_F(BankInspectTest, SaysInOneLineWhatIsWrong) {
  ExpectOneLine(RunProgram({BANK_INSPECT}));
  ExpectOneLine(RunProgram({BANK_INSPECT, file_, file_, file_}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.File("missing")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.path()}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("text", "this is no snapshot")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("empty", "")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, file_, "--format", "xml"}));
  ExpectOneLine(RunProgram({BANK_INSPECT, file_, "--svg", folder_.File("a.svg")}));
  ExpectOneLine(RunProgram({BANK_INSPECT, "leaks", file_, "--filter", "wq"}));
  const std::string good = EncodeSnapshot(Sample());
  ExpectOneLine(RunProgram({BANK_INSPECT, folder_.Write("half", good.substr(0, good.size() / 2))}));
}

}  // namespace
}  // namespace npubank
