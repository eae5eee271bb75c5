// What a daemon leaves with its service manager, and what the next one makes of it.
#include "npubank/bank/service/daemon/kept_segments.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/bank/files/snapshot.h"
#include "npubank/tests/support/gate.h"
#include "npubank/tests/unit/service/service_fixture.h"
#include "npubank/tests/unit/service/test_manager.h"

namespace npubank::service {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class KeptSegmentsTest : public ServiceTest {
 protected:
  void SetUp() override { Restart(); }
  void TearDown() override {
    ServiceTest::TearDown();
    if (server_ == nullptr) kept_.reset();
  }
  // The daemon is killed: it says nothing, and its manager starts another.
  void Restart(uint64_t budget = ~uint64_t{0}) {
    if (kept_ != nullptr) kept_->Rest();
    server_.reset();
    daemon_.reset();
    kept_ = std::make_shared<KeptSegments>(std::make_unique<TestStore>(manager_));
    memory_ = SharedMemory::Create({.gone = [kept = kept_](const Segment& of) {
                kept->Forget(of);
              }}).value();
    daemon_ = Bank::Create(memory_, {.budget_bytes = budget, .keep_unowned = true});
    kept_->TakeBack(manager_.HandOver(), *memory_, *daemon_);
    server_ = Server::Start(FileDescriptor(), daemon_, memory_, {.kept = kept_}).value();
  }
  // A client that loads them, and whose bytes are right; what it had of the daemon.
  std::vector<uint64_t> LoadAndCheck(const TestWeights& weights) {
    TestProcess process(NewClient());
    const auto model = process.Load(weights);
    ExpectBytes(model, weights);
    EXPECT_EQ(process.bank->Totals().service_hits, weights.size());
    return Inodes(model);
  }
  // Of what one wrote in place of the index, another sealed one.
  void PutIndex(const std::string& bytes) {
    const auto segment = Segment::Create("index").value();
    ASSERT_TRUE(segment
                    ->Write(0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()),
                                                   bytes.size()))
                    .ok());
    ASSERT_TRUE(segment->Seal((bytes.size() + 4095) / 4096 * 4096).ok());
    manager_.files[manager_.IndexName()] =
        FileDescriptor(fcntl(segment->descriptor(), F_DUPFD_CLOEXEC, 0));
  }
  KeptIndex Index() const {
    std::string bytes(1 << 20, '\0');
    const ssize_t got =
        pread(manager_.files.at(manager_.IndexName()).get(), bytes.data(), bytes.size(), 0);
    EXPECT_GT(got, 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return KeptIndex::Decode(bytes).value();
  }

  TestManager manager_;
  std::shared_ptr<KeptSegments> kept_;
};

TEST_F(KeptSegmentsTest, ARestartedDaemonHasWhatWasHandedOutAndMakesNothing) {
  const TestWeights weights(3);
  TestProcess stays(NewClient());
  const auto model = stays.Load(weights);
  const std::vector<uint64_t> before = Inodes(model);
  Restart();
  EXPECT_EQ(kept_->adopted(), weights.size());
  EXPECT_EQ(LoadAndCheck(weights), before) << "the very same memory";
  EXPECT_EQ(daemon_->Totals().evaluations, 0u);
  for (const TensorSnapshot& tensor : daemon_->Snapshot().tensors) {
    EXPECT_EQ(tensor.origin, "adopted");
  }
  EXPECT_TRUE(daemon_->Audit().clean()) << daemon_->Audit().ToString();
  ExpectBytes(model, weights);
  EXPECT_THAT(kept_->problems(), IsEmpty());
}

TEST_F(KeptSegmentsTest, HoweverOftenItIsRestartedNothingIsMadeTwiceAndNothingStaysBehind) {
  const TestWeights first(2);
  const TestWeights second(2, /*variant=*/1);
  const std::vector<uint64_t> before = LoadAndCheck(first);
  for (int round = 0; round < 3; ++round) {
    Restart();
    EXPECT_EQ(LoadAndCheck(first), before);
    LoadAndCheck(second);
    EXPECT_EQ(daemon_->Totals().evaluations, round == 0 ? second.size() : 0);
  }
  // Each segment, and one index.
  EXPECT_EQ(manager_.files.size(), memory_->Segments().size() + 1);
}

TEST_F(KeptSegmentsTest, NobodyHasItBeforeItIsKept) {
  const TestWeights weights(1);
  Gate gate;
  manager_.on_barrier = [&] { gate.Pass(); };
  std::atomic<bool> loaded = false;
  std::thread client([&] {
    LoadAndCheck(weights);
    loaded = true;
  });
  gate.AwaitArrival();
  EXPECT_FALSE(loaded);
  EXPECT_EQ(LeasedSegments(), 0u);
  EXPECT_EQ(Index().tensors.size(), weights.size());
  EXPECT_EQ(manager_.files.size(), 2u) << "a segment and the index";
  gate.Open();
  client.join();
  manager_.on_barrier = nullptr;
}

TEST_F(KeptSegmentsTest, WhatLeavesTheBankLeavesTheStore) {
  LoadAndCheck(TestWeights(2));
  ASSERT_TRUE(Eventually([&] { return server_->Describe().clients.empty(); }));
  daemon_->Trim();
  EXPECT_THAT(manager_.files, SizeIs(1)) << "an index of what is not there any more";
  Restart();
  EXPECT_EQ(kept_->adopted(), 0u);
  EXPECT_EQ(memory_->DriverBytes().value(), 0u);
  EXPECT_THAT(kept_->problems(), IsEmpty());
}

TEST_F(KeptSegmentsTest, WhicheverCallOfTheManagerFailsNobodyLosesALoadAndItIsTriedAgain) {
  const TestWeights weights(2);
  const TestWeights more(2, /*variant=*/1);
  for (const bool forever : {false, true}) {
    for (int nth = 1; nth < 20; ++nth) {
      SCOPED_TRACE(nth);
      manager_ = TestManager();
      manager_.failing_call = nth;
      manager_.forever = forever;
      Restart();
      LoadAndCheck(weights);
      LoadAndCheck(more);
      const bool happened = manager_.calls >= nth;
      EXPECT_EQ(kept_->problems().empty(), !happened);
      LoadAndCheck(weights);
      LoadAndCheck(more);
      Restart();
      if (!forever) {
        EXPECT_EQ(kept_->adopted(), weights.size() + more.size()) << "it was tried again";
      }
      manager_.failing_call = 0;
      LoadAndCheck(weights);
      LoadAndCheck(more);
      Restart();
      LoadAndCheck(weights);
      LoadAndCheck(more);
      EXPECT_EQ(daemon_->Totals().evaluations, 0u);
      if (!happened) break;
    }
  }
}

TEST_F(KeptSegmentsTest, OneIndexIsKeptHoweverMuchIsAddedToIt) {
  for (int variant = 0; variant < 4; ++variant) LoadAndCheck(TestWeights(1, variant));
  EXPECT_EQ(manager_.files.size(), memory_->Segments().size() + 1);
  EXPECT_EQ(Index().segments.size(), memory_->Segments().size());
}

TEST_F(KeptSegmentsTest, ASegmentWhoseIndexIsRefusedIsNotLeftThere) {
  manager_.failing_call = 2;  // after the segment
  LoadAndCheck(TestWeights(1));
  EXPECT_THAT(kept_->problems(), SizeIs(1));
  EXPECT_THAT(manager_.files, IsEmpty());
}

TEST_F(KeptSegmentsTest, AManagerThatDoesNotAnswerIsNotToldAnythingMore) {
  manager_.failure = absl::DeadlineExceededError("it sleeps");
  manager_.failing_call = 1;
  LoadAndCheck(TestWeights(1));
  EXPECT_THAT(kept_->problems(), ElementsAre(HasSubstr("it sleeps")));
  const int calls = manager_.calls;
  LoadAndCheck(TestWeights(2, /*variant=*/1));
  EXPECT_EQ(manager_.calls, calls);
}

TEST_F(KeptSegmentsTest, WhatDoesNotFitAnyMoreGoesBack) {
  const TestWeights weights(2);
  LoadAndCheck(weights);
  Restart(/*budget=*/4096);
  EXPECT_EQ(kept_->adopted(), 1u);
  EXPECT_THAT(kept_->problems(), Contains(HasSubstr("budget of 4096")));
  Restart(/*budget=*/0);
  EXPECT_EQ(kept_->adopted(), 0u);
  EXPECT_EQ(memory_->DriverBytes().value(), 0u);
  EXPECT_THAT(manager_.files, SizeIs(1)) << "the index";
}

// Whoever put it there: it is not believed.
TEST_F(KeptSegmentsTest, WhatIsNotAsTheIndexSaysIsNotTaken) {
  const TestWeights weights(2);
  LoadAndCheck(weights);
  const KeptIndex good = Index();
  ASSERT_EQ(good.segments.size(), 1u);
  const std::function<void(KeptIndex&)> kChanges[] = {
      [](KeptIndex& index) { index.tensors[1].hash.low ^= 1; },
      [](KeptIndex& index) { std::swap(index.tensors[0].offset, index.tensors[1].offset); },
      [](KeptIndex& index) { index.segments[0].bytes += 4096; },
      [](KeptIndex& index) { index.segments[0].number += 1; },
  };
  for (const auto& change : kChanges) {
    KeptIndex index = good;
    change(index);
    PutIndex(index.Encode());
    const std::vector<NamedDescriptor> before = manager_.HandOver();
    Restart();
    EXPECT_EQ(kept_->adopted(), 0u);
    LoadAndCheck(weights);
    manager_.files.clear();
    for (const NamedDescriptor& of : before) {
      manager_.files[of.name] = FileDescriptor(fcntl(of.file.get(), F_DUPFD_CLOEXEC, 0));
    }
  }
}

TEST_F(KeptSegmentsTest, WhatWasMadeOfAFileBeforeItChangedIsNobodysAnyMore) {
  const TestWeights weights(2);
  LoadAndCheck(weights);
  KeptIndex index = Index();
  index.tensors[0].tensor.stamp.low ^= 1;
  PutIndex(index.Encode());
  Restart();
  TestProcess process(NewClient());
  ExpectBytes(process.Load(weights), weights);
  EXPECT_EQ(process.bank->Totals().service_hits, 0u);
  EXPECT_THAT(process.client->notices(), ElementsAre(HasSubstr("before the file was changed")));
}

TEST_F(KeptSegmentsTest, OtherDescriptorsThanItsOwnAreGivenBackUnused) {
  const TestWeights weights(2);
  LoadAndCheck(weights);
  const std::string segment = "s1";
  ASSERT_TRUE(manager_.files.contains(segment));
  FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  TemporaryFolder folder;
  const std::pair<const char*, FileDescriptor> kOthers[] = {
      {"s1", std::move(unsealed)},
      {"s1", FileDescriptor::Open(weights.path(), O_RDONLY)},
      {"s1", FileDescriptor::Open("/", O_RDONLY | O_DIRECTORY)},
      {"s1", FileDescriptor::Open("/dev/null", O_RDWR)},
      {"i1", FileDescriptor::Open(weights.path(), O_RDONLY)},
      {"i99", FileDescriptor::Open("/dev/null", O_RDWR)},
      {"s99999999999999999999", FileDescriptor::Open("/dev/null", O_RDWR)},
      {"", FileDescriptor::Open("/dev/null", O_RDWR)},
      {"stored", FileDescriptor::Open("/dev/null", O_RDWR)}};
  const std::vector<NamedDescriptor> good = manager_.HandOver();
  for (const auto& [name, file] : kOthers) {
    SCOPED_TRACE(name);
    manager_.files.clear();
    for (const NamedDescriptor& of : good) {
      manager_.files[of.name] = FileDescriptor(fcntl(of.file.get(), F_DUPFD_CLOEXEC, 0));
    }
    manager_.files[name] = FileDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    Restart();
    LoadAndCheck(weights);
    Restart();
    LoadAndCheck(weights);
    EXPECT_EQ(daemon_->Totals().evaluations, 0u);
    EXPECT_EQ(manager_.files.size(), memory_->Segments().size() + 1);
  }
}

// Whoever left it open could change it later.
TEST_F(KeptSegmentsTest, TheSameBytesInMemoryThatCanBeChangedAreNotTaken) {
  const TestWeights weights(2);
  LoadAndCheck(weights);
  std::vector<char> bytes(1 << 20);
  const ssize_t size = pread(manager_.files.at("s1").get(), bytes.data(), bytes.size(), 0);
  ASSERT_GT(size, 0);
  FileDescriptor open(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(pwrite(open.get(), bytes.data(), static_cast<size_t>(size), 0), size);
  manager_.files["s1"] = std::move(open);
  Restart();
  EXPECT_EQ(kept_->adopted(), 0u);
  EXPECT_THAT(kept_->problems(), ElementsAre(HasSubstr("not sealed")));
  LoadAndCheck(weights);
}

TEST_F(KeptSegmentsTest, WhatAnotherVersionKeptIsNotUsed) {
  LoadAndCheck(TestWeights(1));
  PutIndex(Index().Encode(kResultRevision + 1));
  Restart();
  EXPECT_EQ(kept_->adopted(), 0u);
  EXPECT_THAT(kept_->problems(), ElementsAre(HasSubstr("another version's daemon")));
  EXPECT_THAT(manager_.files, IsEmpty());
}

TEST(KeptIndexTest, IsReadAsItWasWrittenAndCutOrChangedIsAnErrorOrAnotherIndex) {
  KeptIndex index{.number = 7, .segments = {{3, 8192}, {4, 4096}}, .tensors = {}};
  const TensorType type =
      TensorType::Create(ElementType::kF16, Shape::Create({3, 5}).value()).value();
  index.tensors.push_back(
      {.tensor = {{1, 2}, {3, 4}, type, "wq"}, .segment = 0, .offset = 4096, .hash = {5, 6}});
  const std::string bytes = index.Encode();
  const auto again = KeptIndex::Decode(bytes + std::string(100, '\0'));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Encode(), bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    (void)KeptIndex::Decode(bytes.substr(0, i));
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const auto read = KeptIndex::Decode(changed);
      if (!read.ok()) continue;
      for (const KeptIndex::Tensor& tensor : read->tensors) {
        ASSERT_LT(tensor.segment, read->segments.size());
        EXPECT_LE(tensor.offset + tensor.tensor.type.bytes(),
                  read->segments[tensor.segment].bytes);
      }
    }
  }
}

}  // namespace
}  // namespace npubank::service
