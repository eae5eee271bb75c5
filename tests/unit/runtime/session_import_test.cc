// A session whose weights are the pages of a file, and what becomes of it when the file changes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/session.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using Logits = std::vector<float>;

CheckpointShape StoredAsNeeded(uint64_t seed) {
  CheckpointShape shape = PaddedShape();
  shape.element = ElementType::kF16;  // nothing has to be changed on the way: it is imported
  shape.seed = seed;
  return shape;
}

class SessionImportTest : public NpuTest {
 protected:
  SessionImportTest() { strategy_ = MemoryStrategy::kImported; }

  std::unique_ptr<Session> Load() { return Load(model_); }
  std::unique_ptr<Session> Load(const TestModel& model) {
    auto checkpoint = Checkpoint::Open(model.folder());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    CompileOptions compile;
    compile.name = "prefill";
    compile.chunk = 4;
    compile.context = 32;
    const auto blob = Compile(**checkpoint, compile);
    EXPECT_TRUE(blob.ok()) << blob.status();
    auto session = Session::Load(place_.npu, place_.bank, {*blob}, (*checkpoint)->index(), {});
    EXPECT_TRUE(session.ok()) << session.status();
    EXPECT_GT(Driver().live_imports, 0u);
    return session.ok() ? *std::move(session) : nullptr;
  }
  static Logits Feed(Session& session) {
    session.Rewind();
    const auto logits = session.Feed({1, 5, 9, 2, 7});
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? Logits(logits->begin(), logits->end()) : Logits();
  }
  void ExpectDataLoss(Session& session) const {
    const absl::Status status = session.Feed({1, 5}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "model '" + model_.folder())) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), file_)) << status;
  }

  // Keeps the inode. The clock of a file system may stand still for a few milliseconds.
  void Overwrite(const std::string& with, int64_t seconds = 1) const {
    std::ifstream in(with, std::ios::binary);
    std::ofstream(file_, std::ios::in | std::ios::out | std::ios::binary) << in.rdbuf();
    SetTime(seconds);
  }
  void SetTime(int64_t seconds) const {
    const timespec times[] = {{0, UTIME_OMIT}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  }

  const NpuSwitches switches_{{{"NPUBANK_NPU_IMPORT", "1"}}};
  const TestModel model_{StoredAsNeeded(1)};
  const TestModel other_{StoredAsNeeded(2)};
  const std::string file_ = model_.file("model.safetensors");
};

TEST_F(SessionImportTest, AFileTruncatedUnderAModelIsDataLossAndTheModelIsLoadedAgain) {
  auto session = Load();
  const Logits expected = Feed(*session);
  const uint64_t size = std::filesystem::file_size(file_);
  const std::string copy = model_.file("copy");
  std::filesystem::copy_file(file_, copy);
  ASSERT_EQ(truncate(file_.c_str(), 4096), 0);
  ExpectDataLoss(*session);
  session->Pause();
  ExpectDataLoss(*session);
  EXPECT_EQ(session->position(), 5) << "nothing was fed";
  Overwrite(copy);
  ASSERT_EQ(std::filesystem::file_size(file_), size);
  auto again = Load();
  EXPECT_EQ(Feed(*again), expected) << "beside what is left of the first load";
  ExpectDataLoss(*session);
  session.reset();
  EXPECT_EQ(Feed(*again), expected);
}

TEST_F(SessionImportTest, AFileOverwrittenInPlaceIsDataLossAndWhatIsLoadedAgainIsTheNewModel) {
  const Logits expected = Feed(*Load(other_));
  auto session = Load();
  ASSERT_NE(Feed(*session), expected);
  Overwrite(other_.file("model.safetensors"));
  ExpectDataLoss(*session);
  session.reset();
  EXPECT_EQ(Feed(*Load()), expected);
}

TEST_F(SessionImportTest, AFileThatIsAgainWhatItWasIsRunOnAgain) {
  SetTime(1);
  auto session = Load();
  const Logits expected = Feed(*session);
  const std::string copy = model_.file("copy");
  std::filesystem::copy_file(file_, copy);
  Overwrite(other_.file("model.safetensors"), 2);
  ExpectDataLoss(*session);
  Overwrite(copy, 1);
  EXPECT_EQ(Feed(*session), expected);
}

TEST_F(SessionImportTest, AFileThatWasReplacedIsNoChangeForWhoHasTheOldOne) {
  auto session = Load();
  const Logits before = Feed(*session);
  std::filesystem::rename(other_.file("model.safetensors"), file_);
  EXPECT_EQ(Feed(*session), before);
  auto fresh = Load();
  EXPECT_NE(Feed(*fresh), before);
  EXPECT_EQ(Feed(*session), before);
}

TEST_F(SessionImportTest, ASleepLetsAChangedFileGoAndTheWakeNamesIt) {
  auto session = Load();
  Feed(*session);
  Overwrite(other_.file("model.safetensors"));
  ASSERT_TRUE(session->Sleep().ok());
  EXPECT_EQ(Driver().live_imports, 0u);
  const absl::Status status = session->Wake();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), file_)) << status;
}

}  // namespace
}  // namespace npubank
