// A desk, without sockets: what a client may ask for, what it must prove, and what costs it its connection.
#include "npubank/bank/service/daemon/desk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

using ::testing::HasSubstr;

class TestHost final : public Desk::Host {
 public:
  State Describe() override { return {}; }
  absl::Status SetBudget(uint64_t) override { return absl::OkStatus(); }
};

class DeskTest : public ::testing::Test {
 protected:
  void SetUp() override { NewDesk(); }
  void TearDown() override {
    desk_.reset();
    bank_->Trim();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  }
  void NewDesk() {
    desk_ = std::make_unique<Desk>(bank_, memory_,
                                   Desk::Client{.pid = 1, .uid = 2, .program = "test"}, host_);
    greeted_ = false;
  }
  absl::StatusOr<Desk::Answer> Say(const Message& message, std::vector<FileDescriptor> files = {}) {
    return desk_->Handle(message, std::move(files), {});
  }
  void Greet() {
    if (std::exchange(greeted_, true)) return;
    ASSERT_TRUE(Say(Hello{}).ok());
  }
  static FileDescriptor OpenFile(const std::string& path, int flags = O_RDONLY) {
    FileDescriptor file = FileDescriptor::Open(path, flags);
    EXPECT_TRUE(file.is_open()) << path;
    return file;
  }
  absl::StatusOr<Desk::Answer> Bring(FileDescriptor file) {
    Greet();
    std::vector<FileDescriptor> files;
    files.push_back(std::move(file));
    return Say(OpenSources{.names = {"a file"}}, std::move(files));
  }
  static Load LoadOf(const TestWeights& weights, uint32_t source) {
    std::vector<RecipePtr> recipes;
    for (const LazyTensor& tensor : weights.Submodel()) recipes.push_back(tensor.recipe());
    Load load{.owner = "submodel", .lists = {}};
    Load::List& list = load.lists.emplace_back();
    list.recipes = EncodeRecipes(recipes).value();
    list.sources = {source};
    for (uint32_t i = 0; i < recipes.size(); ++i) {
      list.roots.push_back(i);
      list.names.push_back(TestWeights::Name(i));
    }
    return load;
  }
  // Why it was answered with a failure; empty where it was not.
  static std::string Why(const absl::StatusOr<Desk::Answer>& answer) {
    if (!answer.ok()) return absl::StrCat("VIOLATION ", answer.status().message());
    const auto* failed = std::get_if<Failed>(&answer->message);
    return failed == nullptr ? "" : std::string(failed->status.message());
  }

  const std::shared_ptr<SharedMemory> memory_ = SharedMemory::Create({}).value();
  const std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {.keep_unowned = true});
  TestHost host_;
  std::unique_ptr<Desk> desk_;
  bool greeted_ = false;
};

TEST_F(DeskTest, WhoShowsTheFileGetsItsTensorsInSealedMemory) {
  const TestWeights weights(2);
  ASSERT_EQ(Why(Bring(OpenFile(weights.path()))), "");
  const auto answer = Say(LoadOf(weights, 0));
  ASSERT_EQ(Why(answer), "");
  const auto* loaded = std::get_if<Loaded>(&answer->message);
  ASSERT_NE(loaded, nullptr);
  ASSERT_EQ(loaded->tensors.size(), weights.size());
  ASSERT_EQ(loaded->segments.size(), answer->descriptors.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const Loaded::Tensor& tensor = loaded->tensors[i];
    std::vector<std::byte> bytes(weights.Expected(i).size());
    ASSERT_TRUE(
        ReadAt(answer->descriptors[tensor.segment], "segment", tensor.offset, absl::MakeSpan(bytes))
            .ok());
    EXPECT_EQ(bytes, weights.Expected(i)) << i;
    EXPECT_EQ(tensor.offset % 4096, 0u);
  }
}

TEST_F(DeskTest, WhoShowsNothingOrAnotherFileGetsNothingAlsoOfWhatIsThere) {
  const TestWeights weights(1);
  const TestWeights other(1, /*variant=*/1);
  ASSERT_EQ(Why(Bring(OpenFile(weights.path()))), "");
  ASSERT_EQ(Why(Say(LoadOf(weights, 0))), "");
  const auto resident = std::move(desk_);  // it stays
  NewDesk();
  Greet();
  EXPECT_THAT(Why(Say(LoadOf(weights, 0))), HasSubstr("was not opened on this connection"));
  // A file of another model: it gets that one's bytes, under that one's digest.
  ASSERT_EQ(Why(Bring(OpenFile(other.path()))), "");
  const auto answer = Say(LoadOf(weights, 0));
  const auto* loaded = answer.ok() ? std::get_if<Loaded>(&answer->message) : nullptr;
  EXPECT_TRUE(loaded == nullptr || loaded->tensors[0].digest != weights.Submodel()[0].digest());
}

TEST_F(DeskTest, ADescriptorThatProvesNothingIsRefusedByName) {
  TemporaryFolder folder;
  const std::string file = folder.Write("weights", "bytes");
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const FileDescriptor write_end(pipe_ends[1]);
  EXPECT_THAT(Why(Bring(OpenFile(file, O_PATH))), HasSubstr("only a name (O_PATH)"));
  EXPECT_THAT(Why(Bring(OpenFile(file, O_WRONLY))), HasSubstr("not opened for reading"));
  EXPECT_THAT(Why(Bring(OpenFile(folder.path()))), HasSubstr("not a regular file"));
  EXPECT_THAT(Why(Bring(FileDescriptor(pipe_ends[0]))), HasSubstr("does not prove"));
  EXPECT_THAT(Why(Bring(FileDescriptor(socket(AF_UNIX, SOCK_STREAM, 0)))),
              HasSubstr("does not prove"));
  EXPECT_THAT(Why(Bring(OpenFile("/dev/zero"))), HasSubstr("not a regular file"));
  EXPECT_EQ(Why(Bring(OpenFile(file))), "") << "and the next one is taken";
}

TEST_F(DeskTest, AFileSystemThatMayNeverAnswerIsNotAskedAnything) {
  const std::string mounts =
      "36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw\n"
      "99 35 0:50 / /home/u/m rw - fuse.sshfs host: rw\n"
      "100 35 0:51 / /d rw shared:2 - fuse d rw\n";
  const auto judge = [&](const std::string& flags, const std::string& mount) {
    return JudgeDescriptor(
        absl::StrCat("pos:\t0\nflags:\t", flags, "\nmnt_id:\t", mount, "\nino:\t1\n"), mounts);
  };
  EXPECT_TRUE(judge("0100000", "36").ok());
  EXPECT_TRUE(judge("0100002", "36").ok());
  EXPECT_THAT(judge("0100000", "99").message(), HasSubstr("fuse.sshfs"));
  EXPECT_THAT(judge("0100000", "100").message(), HasSubstr("may never answer"));
  EXPECT_THAT(judge("0100000", "6").message(),
              HasSubstr("neither this daemon nor its client shows"));
  EXPECT_THAT(judge("0100001", "36").message(), HasSubstr("not opened for reading"));
  EXPECT_THAT(judge("012000000", "36").message(), HasSubstr("O_PATH"));
  EXPECT_FALSE(judge("", "").ok());
  EXPECT_FALSE(JudgeDescriptor("", mounts).ok());
  EXPECT_FALSE(JudgeDescriptor("flags:\t0\n", mounts).ok());
  EXPECT_FALSE(judge("0100000x", "36").ok());
}

// Whether the list of this process's mounts has the one that a file lies on: not beside the root of a chroot.
bool IsOnAListedMount(const FileDescriptor& file) {
  const auto text = [](const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  };
  return JudgeDescriptor(text(absl::StrCat("/proc/self/fdinfo/", file.get())),
                         text("/proc/self/mountinfo"))
      .ok();
}

// As a hardened unit or a container has them: the mounts are copies, with numbers of their own.
TEST(BroughtFileTest, ADaemonWithMountsOfItsOwnIsToldOfTheFilesMountByItsClient) {
  TemporaryFolder folder;
  const std::string path = folder.Write("weights", "bytes");
  FileDescriptor file = FileDescriptor::Open(path, O_RDONLY);
  ASSERT_TRUE(file.is_open());
  if (!IsOnAListedMount(file)) GTEST_SKIP() << "no list of mounts has that of this file";
  enum { kNotAllowed = 10, kTakenWithoutItsClient, kRefused, kTaken };
  const pid_t daemon = fork();
  if (daemon == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(kNotAllowed);
    const auto alone = BroughtFile::Take(FileDescriptor(dup(file.get())), "alone", 0);
    if (!absl::IsPermissionDenied(alone.status())) _exit(kTakenWithoutItsClient);
    const auto told = BroughtFile::Take(FileDescriptor(dup(file.get())), "told",
                                        static_cast<uint32_t>(getppid()));
    _exit(told.ok() && (*told)->size() == 5 ? kTaken : kRefused);
  }
  int status = 0;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) {
    GTEST_SKIP() << "this user may not have mounts of its own";
  }
  EXPECT_EQ(WEXITSTATUS(status), kTaken);
}

// There the list of mounts does not have the one that the root itself is a folder of.
TEST(BroughtFileTest, AFileBesideTheRootOfADaemonInAChrootIsTaken) {
  TemporaryFolder folder;
  folder.Write("weights", "bytes");
  const std::string proc = folder.path() + "/proc";
  ASSERT_EQ(mkdir(proc.c_str(), 0700), 0);
  enum { kNotAllowed = 10, kRefused, kTaken };
  const pid_t daemon = fork();
  if (daemon == 0) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("/proc", proc.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        chroot(folder.path().c_str()) != 0 || chdir("/") != 0) {
      _exit(kNotAllowed);
    }
    const auto taken = BroughtFile::Take(FileDescriptor::Open("/weights", O_RDONLY), "weights", 0);
    _exit(taken.ok() && (*taken)->size() == 5 ? kTaken : kRefused);
  }
  int status = 0;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "this user may not change its root";
  EXPECT_EQ(WEXITSTATUS(status), kTaken);
}

TEST_F(DeskTest, AFileThatChangesWhileItIsHeldIsAnErrorAndNoByte) {
  TestWeights weights(1);
  ASSERT_EQ(Why(Bring(OpenFile(weights.path()))), "");
  const Load load = LoadOf(weights, 0);
  ASSERT_EQ(truncate(weights.path().c_str(), 10), 0);
  EXPECT_NE(Why(Say(load)), "");
}

TEST_F(DeskTest, RecipesThatAreDamagedOrTooMuchAreRefusedAndTheClientStays) {
  const TestWeights weights(1);
  ASSERT_EQ(Why(Bring(OpenFile(weights.path()))), "");
  const struct {
    const char* what;
    std::function<void(Load&)> damage;
  } kDamages[] = {
      {"no bytes", [](Load& load) { load.lists[0].recipes.clear(); }},
      {"cut", [](Load& load) { load.lists[0].recipes.resize(40); }},
      {"a root beyond", [](Load& load) { load.lists[0].roots[0] = 1000; }},
      {"no source", [](Load& load) { load.lists[0].sources.clear(); }},
      {"too many sources", [](Load& load) { load.lists[0].sources.push_back(0); }},
      {"a source beyond", [](Load& load) { load.lists[0].sources[0] = ~0u; }},
  };
  for (const auto& damage : kDamages) {
    Load load = LoadOf(weights, 0);
    damage.damage(load);
    const std::string why = Why(Say(load));
    EXPECT_NE(why, "") << damage.what;
    EXPECT_THAT(why, ::testing::Not(HasSubstr("VIOLATION"))) << damage.what;
  }
  // More than any machine has, in steps of which each is a recipe: from nothing, so no proof is needed.
  const LazyTensor huge =
      LazyTensor::Splat(
          TensorType::Create(ElementType::kF32, Shape::Create({int64_t{1} << 50}).value()).value(),
          0)
          .value();
  Load load{.owner = "x", .lists = {}};
  load.lists.push_back({.recipes = EncodeRecipes({huge.recipe()}).value(),
                        .sources = {},
                        .roots = {0},
                        .names = {"huge"}});
  EXPECT_THAT(Why(Say(load)), HasSubstr("more than"));
  EXPECT_EQ(Why(Say(LoadOf(weights, 0))), "") << "and then one that is in order";
}

TEST_F(DeskTest, WhatBreaksTheRulesCostsTheConnection) {
  const TestWeights weights(1);
  const auto file = [&] { return OpenFile(weights.path()); };
  const auto with_file = [&](const Message& message) {
    std::vector<FileDescriptor> files;
    files.push_back(file());
    return Say(message, std::move(files));
  };
  const std::vector<std::function<absl::StatusOr<Desk::Answer>()>> kBefore = {
      [&] { return Say(GetState{}); }, [&] { return Say(Release{}); },
      [&] { return Say(LoadOf(weights, 0)); }, [&] { return with_file(OpenSources{{"a"}}); },
      [&] { return with_file(Hello{}); }};
  for (size_t i = 0; i < kBefore.size(); ++i) {
    NewDesk();
    EXPECT_THAT(Why(kBefore[i]()), HasSubstr("VIOLATION")) << i;
  }
  const std::vector<std::function<absl::StatusOr<Desk::Answer>()>> kAfter = {
      [&] { return Say(Hello{}); },
      [&] { return Say(Loaded{}); },
      [&] { return Say(Done{}); },
      [&] { return Say(Failed{absl::InternalError("x")}); },
      [&] { return Say(OpenSources{}); },
      [&] { return Say(OpenSources{{"a"}}); },
      [&] {
        return with_file(OpenSources{{"a", "b"}});
      },
      [&] { return with_file(GetState{}); },
      [&] { return Say(More{0}); },
      [&] { return Say(More{252}); },
      [&] {
        return Say(Release{{7}, {1}});
      },
  };
  for (size_t i = 0; i < kAfter.size(); ++i) {
    NewDesk();
    Greet();
    EXPECT_THAT(Why(kAfter[i]()), HasSubstr("VIOLATION")) << i;
  }
}

TEST_F(DeskTest, GivingBackMoreThanWasGrantedBreaksTheRules) {
  const TestWeights weights(1);
  ASSERT_EQ(Why(Bring(OpenFile(weights.path()))), "");
  uint64_t segment = 0;
  for (int i = 0; i < 2; ++i) {
    const auto answer = Say(LoadOf(weights, 0));
    ASSERT_EQ(Why(answer), "");
    segment = std::get<Loaded>(answer->message).segments[0].number;
  }
  EXPECT_EQ(Why(Say(Release{{segment}, {1}})), "");
  EXPECT_EQ(desk_->Describe().leased_segments, 1u) << "it was granted twice";
  EXPECT_EQ(Why(Say(Release{{segment}, {1}})), "");
  EXPECT_EQ(desk_->Describe().leased_segments, 0u);
  EXPECT_TRUE(bank_->Snapshot().owners.empty());
  EXPECT_THAT(Why(Say(Release{{segment}, {1}})), HasSubstr("VIOLATION"));
}

TEST_F(DeskTest, OnesThatDoNotFitTogetherSaySoByName) {
  EXPECT_THAT(Why(Say(Hello{.protocol = 77, .program = ""})), HasSubstr("protocol 77"));
  EXPECT_THAT(Why(Say(Hello{.recipe_codec = 78, .program = ""})), HasSubstr("recipe codec 78"));
  EXPECT_THAT(Why(Say(Hello{.result_revision = 79, .program = ""})),
              HasSubstr("result revision 79"));
}

TEST_F(DeskTest, MoreSourcesThanOneClientMayHaveBreakTheRules) {
  const TestWeights weights(1);
  Greet();
  std::string why;
  for (size_t i = 0; i <= Desk::kMostSources && why.empty(); ++i)
    why = Why(Bring(OpenFile(weights.path())));
  EXPECT_THAT(why, HasSubstr("VIOLATION"));
}

}  // namespace
}  // namespace npubank::service
