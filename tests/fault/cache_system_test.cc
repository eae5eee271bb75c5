// The cache file and the system under it: any of its calls may fail, and other processes save as
// well.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/testing.h"
#include "npubank/lazy_tensor/base/files/file_lock.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/support/system/system_calls.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

class CacheSystemTest : public ::testing::Test {
 protected:
  static std::function<absl::Status(uint64_t, absl::Span<std::byte>)> Fill(uint64_t value) {
    return [value](uint64_t, absl::Span<std::byte> out) {
      std::memset(out.data(), static_cast<int>(value), out.size());
      return absl::OkStatus();
    };
  }

  // As a process that has evaluated one tensor does.
  absl::Status AddAndSave(uint64_t number) {
    const auto cache = CacheFile::Open({.path = path_});
    NPUBANK_RETURN_IF_ERROR(cache->Add(Digest{number, number}, 5000, Fill(number)));
    return cache->Save();
  }

  uint64_t GoodEntries() const {
    const auto cache = CacheFile::Open({.path = path_, .verify_at_open = true});
    EXPECT_TRUE(cache->Report().problems.empty()) << cache->Report().problems.front();
    return cache->Report().entries;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      files.push_back(file.path().filename().string());
    }
    return files;
  }

  static size_t OpenFiles() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }

  // Loads `weights` with the cache and saves; whatever fails, the load does not.
  absl::Status LoadAndSave(const TestWeights& weights) {
    const auto bank_of = [](std::shared_ptr<CacheFile> cache) {
      return Bank::Create(std::make_shared<HostMemory>(), {.cache = std::move(cache)});
    };
    const LeakGuard guard({});
    const auto cache = CacheFile::Open({.path = path_});
    const auto bank = bank_of(cache);
    Owner owner = bank->AddOwner("prefill", {.index = weights.Index()});
    const std::vector<LazyTensor> tensors = weights.Submodel();
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(bank->Register(owner, tensors[i], TestWeights::Name(i)).ok());
    }
    const absl::Status loaded = bank->EvaluateAndAllocate(owner);
    EXPECT_TRUE(loaded.ok()) << loaded;
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::vector<std::byte> bytes(weights.Expected(i).size());
      EXPECT_TRUE(bank->Read(tensors[i].uid(), 0, absl::MakeSpan(bytes)).ok());
      EXPECT_EQ(bytes, weights.Expected(i)) << i;
    }
    owner.Release();
    EXPECT_TRUE(bank->Snapshot().tensors.empty());
    return cache->Save();
  }

  // With the cache of `old` weights there, loads new ones; `arm` makes a call fail.
  template <typename Arm>
  bool LoadsWhatever(Arm arm) {
    const TestWeights old(1);
    const TestWeights fresh(1, /*variant=*/1);
    EXPECT_TRUE(LoadAndSave(old).ok());
    const uint64_t entries = GoodEntries();
    const size_t open_files = OpenFiles();
    bool happened = false;
    (void)fresh.Submodel();  // what file it is, is known: the calls that fail are the cache's
    {
      const auto armed = arm(happened);
      (void)LoadAndSave(fresh);
    }
    EXPECT_EQ(OpenFiles(), open_files) << "a file was left open";
    EXPECT_EQ(Files(), std::vector<std::string>{"weights.cache"}) << "and nothing beside it";
    EXPECT_GE(GoodEntries(), entries) << "the old entries are there";
    EXPECT_TRUE(LoadAndSave(fresh).ok()) << "the next time";
    std::filesystem::remove(path_);
    return happened;
  }

  // Runs `body` in a process of its own.
  static pid_t Fork(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    return child;
  }
  static int Join(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("weights.cache");
};

TEST_F(CacheSystemTest, WhateverCallFailsTheLoadDoesNotAndTheOldFileIsThere) {
  for (const SystemCall call : {SystemCall::kOpen, SystemCall::kOpenUnnamed, SystemCall::kSync,
                                SystemCall::kLink, SystemCall::kRename, SystemCall::kLock}) {
    for (const bool forever : {false, true}) {
      uint64_t nth = 1;
      for (;; ++nth) {
        SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), ", number ", nth,
                                  forever ? " and all after it" : ""));
        const bool happened = LoadsWhatever([&](bool& failed) {
          return std::make_unique<SystemCalls>(
              [&, seen = uint64_t{0}](SystemCall made, const char* path) mutable {
                const bool ours = path == nullptr || absl::StartsWith(path, folder_.path());
                if (made != call || !ours) return 0;
                ++seen;
                const bool fails = forever ? seen >= nth : seen == nth;
                failed |= fails;
                return fails ? EIO : 0;
              });
        });
        if (!happened || HasFailure()) break;
      }
      EXPECT_GT(nth, 1u) << "such a call is made";
    }
  }
}

TEST_F(CacheSystemTest, WhateverReadOrWriteFailsTheLoadDoesNotAndTheOldFileIsThere) {
  for (const FileFault::Call call : {FileFault::kRead, FileFault::kWrite}) {
    for (const int error : {EIO, ENOSPC}) {
      uint64_t nth = 1;
      for (;; ++nth) {
        SCOPED_TRACE(absl::StrCat(call == FileFault::kRead ? "read " : "write ", nth));
        struct Armed {
          Armed(FileFault::Call which, uint64_t n, int code, bool& failed)
              : fault(which, n, code), happened(failed) {}
          ~Armed() { happened = fault.happened(); }
          FileFault fault;
          bool& happened;
        };
        const bool happened = LoadsWhatever(
            [&](bool& failed) { return std::make_unique<Armed>(call, nth, error, failed); });
        if (!happened || HasFailure()) break;
      }
      EXPECT_GT(nth, 1u) << "such a call is made";
    }
  }
}

// The second process comes when the first has read the old file and is about to put its own in its
// place. Were there no lock, the second would save in between and the first would rename over it.
TEST_F(CacheSystemTest, TwoProcessesThatSaveAtTheSameMomentLoseNothing) {
  int renaming[2];
  int came[2];
  ASSERT_EQ(pipe(renaming), 0);
  ASSERT_EQ(pipe(came), 0);
  const pid_t first = Fork([&] {
    close(came[1]);
    const SystemCalls hook([&](SystemCall call, const char*) {
      if (call != SystemCall::kRename) return 0;
      char byte = 0;
      (void)!write(renaming[1], &byte, 1);
      (void)!read(came[0], &byte, 1);  // nothing comes from one that ends without a lock
      return 0;
    });
    return AddAndSave(1).ok();
  });
  const pid_t second = Fork([&] {
    char byte = 0;
    (void)!read(renaming[0], &byte, 1);
    const SystemCalls hook([&](SystemCall call, const char*) {
      if (call == SystemCall::kLock) (void)!write(came[1], &byte, 1);
      return 0;
    });
    return AddAndSave(2).ok();
  });
  for (const int end : {renaming[0], renaming[1], came[0], came[1]}) close(end);
  EXPECT_EQ(Join(first), 0);
  EXPECT_EQ(Join(second), 0);
  EXPECT_EQ(GoodEntries(), 2u);
  EXPECT_EQ(Files(), std::vector<std::string>{"weights.cache"});
}

TEST_F(CacheSystemTest, ManyProcessesThatSaveAtOnceLoseNothing) {
  constexpr uint64_t kProcesses = 6;
  constexpr uint64_t kSaves = 4;
  std::vector<pid_t> children;
  for (uint64_t process = 0; process < kProcesses; ++process) {
    children.push_back(Fork([&] {
      for (uint64_t i = 0; i < kSaves; ++i) {
        if (!AddAndSave(process * kSaves + i).ok()) return false;
      }
      return true;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(Join(child), 0);
  EXPECT_EQ(GoodEntries(), kProcesses * kSaves);
  EXPECT_EQ(Files(), std::vector<std::string>{"weights.cache"});
}

TEST_F(CacheSystemTest, AProcessThatIsKilledWhileItSavesIsInNobodysWay) {
  // Just before the new file gets a name, and just before it gets the cache's.
  for (const auto& [call, left] : {std::pair(SystemCall::kLink, 2u), {SystemCall::kRename, 3u}}) {
    ASSERT_TRUE(AddAndSave(1).ok());
    const pid_t child = Fork([&, at = call] {
      const SystemCalls hook([&](SystemCall made, const char*) {
        if (made == at) raise(SIGKILL);
        return 0;
      });
      return AddAndSave(2).ok();
    });
    EXPECT_TRUE(WIFSIGNALED(Join(child)));
    EXPECT_EQ(Files().size(), left) << "the cache, the lock, and what already had a name";
    EXPECT_EQ(GoodEntries(), 1u);
    ASSERT_TRUE(AddAndSave(3).ok());
    EXPECT_EQ(GoodEntries(), 2u);
    EXPECT_FALSE(std::filesystem::exists(path_ + ".lock"));
    std::filesystem::remove(path_);
  }
}

// Another process has the lock and does not let go.
TEST_F(CacheSystemTest, ASaveThatWaitsSaysSoAndGivesUp) {
  ASSERT_TRUE(AddAndSave(1).ok());
  std::vector<std::string> told;
  const auto cache =
      CacheFile::Open({.path = path_,
                       .save_patience = std::chrono::milliseconds(1),
                       .on_wait = [&](absl::string_view message) { told.emplace_back(message); }});
  ASSERT_TRUE(cache->Add(Digest{2, 2}, 5000, Fill(2)).ok());
  {
    const auto lock = FileLock::Acquire(path_ + ".lock", {});
    ASSERT_TRUE(lock.ok()) << lock.status();
    const absl::Status status = cache->Save();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), path_ + ".lock")) << status;
  }
  EXPECT_EQ(told,
            std::vector<std::string>{"waiting for another process that saves '" + path_ + "'"});
  EXPECT_EQ(GoodEntries(), 1u) << "the old file is as it was";
  EXPECT_TRUE(AddAndSave(2).ok());
  EXPECT_EQ(GoodEntries(), 2u);
}

// Who saves through the link and who saves the file itself have one lock.
TEST_F(CacheSystemTest, ACacheThatIsALinkStaysOneAndItsFileIsReplaced) {
  ASSERT_TRUE(AddAndSave(1).ok());
  const std::string file = folder_.File("elsewhere");
  std::filesystem::rename(path_, file);
  std::filesystem::create_symlink("elsewhere", path_);
  ASSERT_TRUE(AddAndSave(2).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(GoodEntries(), 2u);
  const auto cache =
      CacheFile::Open({.path = path_, .save_patience = std::chrono::milliseconds(0)});
  ASSERT_TRUE(cache->Add(Digest{3, 3}, 5000, Fill(3)).ok());
  const auto lock = FileLock::Acquire(file + ".lock", {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(cache->Save()));
}

}  // namespace
}  // namespace npubank
