// The compiler's memory plan, from the blob to the device: the runtime allocates what the plan says
// and nothing more, and no way to plan changes a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "npubank/compiler_stub/compile.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/compiler_stub/views/plan_view.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/session.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPage = 4096;  // of the software NPU

uint64_t InPages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

class PlanTest : public NpuTest {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    auto checkpoint = Checkpoint::Open(model_.folder());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
  }
  void TearDown() override {
    checkpoint_ = nullptr;
    NpuTest::TearDown();
  }

  // Prefill of 8 positions and kvcache, but for what `options` says.
  std::vector<std::string> CompileBoth(CompileOptions options = {}) const {
    std::vector<std::string> blobs;
    options.context = 64;
    options.weights = WeightFormat::kF32;
    for (const auto& [name, chunk] : {std::pair("prefill", 8), {"kvcache", 1}}) {
      options.name = name;
      options.chunk = chunk;
      auto blob = Compile(*checkpoint_, options);
      EXPECT_TRUE(blob.ok()) << blob.status();
      blobs.push_back(*blob);
    }
    return blobs;
  }

  std::unique_ptr<Session> Load(const std::vector<std::string>& blobs) const {
    auto session = Session::Load(place_.npu, place_.bank, blobs, checkpoint_->index(), {});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  // All logits of a prompt and some tokens after it.
  static std::vector<float> Speak(Session& session, std::vector<int32_t> prompt) {
    std::vector<float> all;
    for (int i = 0; i < 5; ++i) {
      auto logits = session.Feed(prompt);
      EXPECT_TRUE(logits.ok()) << logits.status();
      all.insert(all.end(), logits->begin(), logits->end());
      prompt = {Argmax(*logits)};
    }
    return all;
  }
  static std::vector<int32_t> Prompt() { return {1, 17, 99, 4, 56, 23, 8, 77, 31, 12, 64}; }

  TestModel model_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

TEST_F(PlanTest, TheArenaIsThePlansBytesAndTheDriverCountsNoMore) {
  const std::vector<std::string> blobs = CompileBoth();
  uint64_t planned = 0;
  for (const std::string& bytes : blobs) {
    const SubmodelBlob blob = *ReadSubmodelBlob(bytes);
    const PlanView view = ViewPlan(blob);
    EXPECT_TRUE(Validate(view.problem, view.offsets).ok());
    EXPECT_EQ(static_cast<uint64_t>(view.bytes), blob.arena_bytes);
    planned = std::max(planned, blob.arena_bytes);
  }
  const std::unique_ptr<Session> session = Load(blobs);
  EXPECT_EQ(session->arena_bytes(), planned);
  EXPECT_EQ(session->device_bytes(), 0u) << "before it is needed";

  const uint64_t before = Driver().live_bytes;
  software_->pfnResetPeak();
  ASSERT_TRUE(session->Prepare().ok());
  // What the host talks through: tokens and span share no page with anything, nor do logits.
  const uint64_t talk = 2 * InPages(8 * sizeof(int32_t)) + InPages(128 * sizeof(float));
  const uint64_t cache = InPages(session->cache_bytes());
  EXPECT_EQ(Driver().live_bytes - before - talk - cache, InPages(planned));
  EXPECT_EQ(session->device_bytes(), InPages(planned) + cache);

  Speak(*session, Prompt());
  EXPECT_EQ(Driver().peak_bytes - before - talk - cache, InPages(planned))
      << "nothing while running";
}

TEST_F(PlanTest, NoWayToPlanChangesABitOfTheLogits) {
  CompileOptions apart;
  apart.reuse = false;
  const std::vector<float> expected = Speak(*Load(CompileBoth(apart)), Prompt());
  const uint64_t most = Load(CompileBoth(apart))->arena_bytes();
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    for (Schedule schedule : {Schedule::kSerial, Schedule::kParallel}) {
      for (bool reuse : {true, false}) {
        CompileOptions options;
        options.attention = attention;
        options.schedule = schedule;
        options.reuse = reuse;
        const std::unique_ptr<Session> session = Load(CompileBoth(options));
        if (reuse) {
          EXPECT_LT(session->arena_bytes(), most);
        }
        const std::vector<float> logits = Speak(*session, Prompt());
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0)
            << "attention " << static_cast<int>(attention) << " schedule "
            << static_cast<int>(schedule) << " reuse " << reuse;
      }
    }
  }
}

// Two conversations on one bank: the same weights, a queue and a workspace each.
TEST_F(PlanTest, TwoSessionsRunOnTwoQueuesAtOnceAndSayWhatTheySayAlone) {
  CompileOptions options;
  options.schedule = Schedule::kParallel;
  const std::vector<std::string> blobs = CompileBoth(options);
  const std::vector<int32_t> prompts[] = {Prompt(), {1, 90, 2, 44}};
  std::vector<float> alone[2];
  for (int i = 0; i < 2; ++i) alone[i] = Speak(*Load(blobs), prompts[i]);

  const std::unique_ptr<Session> sessions[] = {Load(blobs), Load(blobs)};
  EXPECT_EQ(place_.bank->Totals().unique_tensors,
            sessions[0]->submodels()[0].description().weights.size());
  for (int round = 0; round < 10; ++round) {
    std::vector<float> together[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      sessions[i]->Rewind();
      threads.emplace_back([&, i] { together[i] = Speak(*sessions[i], prompts[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(together[i], alone[i]) << "session " << i;
  }
}

const std::string kBankInspect = NPUBANK_BIN "/bank-inspect";

TEST_F(PlanTest, BankInspectShowsThePlanOfASavedBlob) {
  const std::string blobs = model_.file("blobs");
  const ProgramResult run =
      RunProgram({NPUBANK_BIN "/bank-run", "--device", "software", "--model", model_.folder(),
                  "--tokens", "1", "--prompt-ids", "1,2", "--schedule", "parallel", "--attention",
                  "perhead", "--save-blobs", blobs});
  ASSERT_EQ(run.exit_status, 0) << run.error;
  const ProgramResult result =
      RunProgram({kBankInspect, "plan", blobs + "/prefill.npbs", "--svg", blobs + "/prefill.svg"});
  ASSERT_EQ(result.exit_status, 0) << result.error;
  for (const char* part : {"prefill: ", "arena", "scratch of block x3", "sum of values",
                           "lower bound", "ratio", "serial", "parallel", "1.0000"})
    EXPECT_THAT(result.out, HasSubstr(part));
  const std::string svg = ReadWholeFile(blobs + "/prefill.svg");
  EXPECT_THAT(svg, HasSubstr("arena of prefill"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  const ProgramResult scratch = RunProgram({kBankInspect, "plan", blobs + "/kvcache.npbs", "--svg",
                                            blobs + "/block.svg", "--function", "block"});
  ASSERT_EQ(scratch.exit_status, 0) << scratch.error;
  EXPECT_THAT(ReadWholeFile(blobs + "/block.svg"), HasSubstr("scratch of kvcache, block"));
}

TEST_F(PlanTest, ABadBlobOrPlaceForItsPictureGetsOneClearLine) {
  const std::string blob = model_.file("prefill.npbs");
  WriteWholeFile(blob, CompileBoth()[0]);
  const auto refused = [&](std::vector<std::string> more, const std::string& what) {
    std::vector<std::string> arguments = {kBankInspect, "plan"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_THAT(result.error, HasSubstr(what));
    EXPECT_EQ(result.out, "");
  };
  refused({blob, "--svg", model_.file("nowhere") + "/a.svg"}, "nowhere/a.svg");
  refused({blob, "--svg", model_.file("a.svg"), "--function", "none"}, "no function 'none'");
  refused({blob, "--function", "nope"}, "no function 'nope'");
  refused({blob, "--format", "json"}, "--format");
  refused({model_.file("none.npbs")}, "none.npbs");
  refused({model_.file("config.json")}, "config.json");
  const std::string bytes = ReadWholeFile(blob);
  WriteWholeFile(blob, bytes.substr(0, bytes.size() / 2));
  refused({blob}, "prefill.npbs");
  std::string broken = bytes;
  for (size_t i = 16; i < 200; ++i) broken[i] = static_cast<char>(~broken[i]);
  WriteWholeFile(blob, broken);
  refused({blob}, "prefill.npbs");
}

}  // namespace
}  // namespace npubank
