#include "npubank/lazy_tensor/sources/source_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/tests/support/weights/fake_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using testing::FakeSource;

TensorType Floats(int64_t count) {
  return *TensorType::Create(ElementType::kF32, *Shape::Create({count}));
}

// What a test wants of the next openings.
struct Script {
  std::atomic<int> opened{0};
  int fail_at = 0;  // this opening and all after it; 0: none
  uint64_t identity = 1;
  bool null = false;
};

class ScriptedOpener final : public SourceOpener {
 public:
  explicit ScriptedOpener(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  absl::StatusOr<std::shared_ptr<Source>> Open() override {
    const int number = ++script_->opened;
    if (script_->fail_at > 0 && number >= script_->fail_at) {
      return absl::PermissionDeniedError("scripted: as asked");
    }
    if (script_->null) return std::shared_ptr<Source>();
    return std::make_shared<FakeSource>(std::vector<std::byte>(64), Digest{1, script_->identity});
  }

 private:
  std::shared_ptr<Script> script_;
};

class SourceIndexTest : public ::testing::Test {
 protected:
  uint32_t AddFile() { return index_->AddFile(std::make_unique<ScriptedOpener>(script_)).value(); }

  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::shared_ptr<SourceIndex> index_ = std::make_shared<SourceIndex>("the model");
};

TEST_F(SourceIndexTest, FindsByNameAndListsAllInTheOrderTheyWereAdded) {
  const uint32_t file = AddFile();
  ASSERT_TRUE(index_->Add({"b", Floats(4), file, 0}).ok());
  ASSERT_TRUE(index_->Add({"a", Floats(8), file, 16}).ok());
  ASSERT_NE(index_->Find("a"), nullptr);
  EXPECT_EQ(index_->Find("a")->offset, 16u);
  EXPECT_EQ(index_->Find("c"), nullptr);
  ASSERT_EQ(index_->tensors().size(), 2u);
  EXPECT_EQ(index_->tensors()[0].name, "b");
  EXPECT_EQ(index_->file(file).size, 64u);
  const absl::Status missing = index_->Get("c").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "tensor 'c' is not in the model");
}

TEST_F(SourceIndexTest, WhatAHeaderGetsWrongIsRefusedByName) {
  const uint32_t file = AddFile();
  ASSERT_TRUE(index_->Add({"a", Floats(16), file, 0}).ok());
  const auto refused = [&](StoredTensor tensor) {
    const size_t before = index_->tensors().size();
    const absl::Status status = index_->Add(std::move(tensor));
    EXPECT_EQ(index_->tensors().size(), before) << "nothing is added of what is refused";
    return status.code() == absl::StatusCode::kInvalidArgument &&
           status.message().find('\'') != absl::string_view::npos;
  };
  EXPECT_TRUE(refused({"a", Floats(1), file, 0})) << "twice";
  EXPECT_TRUE(refused({"b", Floats(17), file, 0})) << "beyond the end";
  EXPECT_TRUE(refused({"b", Floats(1), file, 61}));
  EXPECT_TRUE(refused({"b", Floats(1), file, UINT64_MAX})) << "the end wraps";
  EXPECT_TRUE(refused({"b", Floats(1), 7, 0})) << "no such file";
  EXPECT_EQ(index_->Open(7).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SourceIndexTest, AFileIsOpenedOnceForAllWhileSomebodyHoldsItAndAgainAfterwards) {
  const uint32_t file = AddFile();
  EXPECT_EQ(script_->opened, 1) << "to learn what it is";
  {
    const auto one = index_->Open(file).value();
    EXPECT_EQ(index_->Open(file).value(), one);
    EXPECT_EQ(script_->opened, 2);
  }
  (void)index_->Open(file).value();
  (void)index_->Open(file).value();
  EXPECT_EQ(script_->opened, 4) << "nobody held it in between";
  EXPECT_EQ(index_->opens(), 4u);
}

TEST_F(SourceIndexTest, AUseKeepsFilesOpenThatWereOpenedBeforeItOrMeanwhile) {
  std::weak_ptr<Source> open;
  {
    const SourceIndex::Use use(index_);
    const uint32_t file = AddFile();
    open = index_->Open(file).value();
    { const SourceIndex::Use second(index_); }
    EXPECT_FALSE(open.expired()) << "one use is left";
    EXPECT_EQ(script_->opened, 1);
  }
  EXPECT_TRUE(open.expired()) << "the last use closes";
  const auto held = index_->Open(0).value();
  const SourceIndex::Use use(index_);
  open = held;
  EXPECT_EQ(index_->Open(0).value(), held);
}

TEST_F(SourceIndexTest, AFileThatIsAnotherWhenItIsOpenedAgainIsDataLoss) {
  const uint32_t file = AddFile();
  script_->identity = 2;
  const absl::Status status = index_->Open(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("load the model again"), absl::string_view::npos) << status;
  script_->identity = 1;
  EXPECT_TRUE(index_->Open(file).ok()) << "it is itself again";
}

TEST_F(SourceIndexTest, WhereThereIsNoOpenerTheFileIsRefused) {
  EXPECT_EQ(index_->AddFile(nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(index_->AddFile(SourceOpener::Held(nullptr)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(index_->file_count(), 0u);
}

TEST_F(SourceIndexTest, AnOpenerThatGivesNothingIsAnError) {
  script_->null = true;
  EXPECT_FALSE(index_->AddFile(std::make_unique<ScriptedOpener>(script_)).ok());
  EXPECT_EQ(index_->file_count(), 0u);
  script_->null = false;
  const uint32_t file = AddFile();
  script_->null = true;
  EXPECT_FALSE(index_->Open(file).ok());
}

// The N-th opening fails, for every N, once and forever: the error is the opener's, and who asks
// again gets the file.
TEST_F(SourceIndexTest, AFailedOpeningIsPassedOnAndCanBeRepeated) {
  for (int n = 1; n <= 4; ++n) {
    script_ = std::make_shared<Script>();
    index_ = std::make_shared<SourceIndex>("the model");
    script_->fail_at = n;
    int failures = 0;
    const auto persist = [&](auto step) {
      if (step().ok()) return;
      ++failures;
      EXPECT_EQ(step().status().code(), absl::StatusCode::kPermissionDenied) << "forever";
      script_->fail_at = 0;
      EXPECT_TRUE(step().ok());
    };
    persist([&] { return index_->AddFile(std::make_unique<ScriptedOpener>(script_)); });
    EXPECT_EQ(index_->file_count(), 1u);
    for (int i = 0; i < 3; ++i) persist([&] { return index_->Open(0); });
    EXPECT_EQ(failures, 1) << n;
  }
}

// Of several threads that want a closed file one opens it; the others wait and share.
TEST_F(SourceIndexTest, ManyThreadsOpenAClosedFileOnce) {
  const uint32_t file = AddFile();
  for (int round = 0; round < 200; ++round) {
    const uint64_t before = index_->opens();
    const SourceIndex::Use use(index_);
    std::vector<std::shared_ptr<Source>> sources(4);
    std::vector<std::thread> threads;
    for (auto& source : sources) {
      threads.emplace_back([&] { source = index_->Open(file).value(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& source : sources) EXPECT_EQ(source, sources.front());
    EXPECT_EQ(index_->opens(), before + 1);
  }
}

}  // namespace
}  // namespace npubank
