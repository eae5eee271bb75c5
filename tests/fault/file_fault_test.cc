// Files under a system whose calls fail: locks, and drafts where a file system has no unnamed files.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/files/file_lock.h"
#include "npubank/tests/support/system/system_calls.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

class FileFaultTest : public ::testing::Test {
 protected:
  size_t FilesInFolder() const {
    const std::filesystem::directory_iterator files(folder_.path());
    return std::distance(begin(files), end(files));
  }
  static size_t OpenFiles() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("result");
};

using FileLockTest = FileFaultTest;

TEST_F(FileLockTest, OneHasItAndItsFileGoesWithIt) {
  {
    const auto lock = FileLock::Acquire(path_, {});
    ASSERT_TRUE(lock.ok()) << lock.status();
    int told = 0;
    const auto second = FileLock::Acquire(path_, {.limit = {}, .on_wait = [&] { ++told; }});
    EXPECT_TRUE(absl::IsDeadlineExceeded(second.status())) << second.status();
    EXPECT_EQ(told, 0) << "without patience nobody waits";
    const auto patient = FileLock::Acquire(
        path_, {.limit = std::chrono::milliseconds(5), .on_wait = [&] { ++told; }});
    EXPECT_TRUE(absl::IsDeadlineExceeded(patient.status())) << patient.status();
    EXPECT_EQ(told, 1) << "once, however often it tries";
  }
  EXPECT_EQ(FilesInFolder(), 0u);
  EXPECT_TRUE(FileLock::Acquire(path_, {.limit = {}}).ok());
}

TEST_F(FileLockTest, WhateverCallFailsItIsAnErrorAndNeverALoop) {
  for (const SystemCall call : {SystemCall::kOpen, SystemCall::kStat, SystemCall::kLock}) {
    const size_t open_files = OpenFiles();
    {
      const SystemCalls fails([&](SystemCall made, const char*) { return made == call ? EIO : 0; });
      const auto lock = FileLock::Acquire(path_, {});
      EXPECT_TRUE(absl::IsUnavailable(lock.status())) << lock.status();
    }
    EXPECT_EQ(OpenFiles(), open_files);
    EXPECT_TRUE(FileLock::Acquire(path_, {.limit = {}}).ok()) << "the next time";
  }
}

TEST_F(FileLockTest, WhatIsNoFileIsNotLockedAndNotRemoved) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(FileLock::Acquire(path_, {}).status()));
  const std::string link = folder_.File("link");
  std::filesystem::create_symlink(folder_.Write("theirs", "x"), link);
  EXPECT_FALSE(FileLock::Acquire(link, {}).ok()) << "nobody can point it at another file";
  EXPECT_EQ(FilesInFolder(), 3u);
}

class AtomicFileFaultTest : public FileFaultTest {
 protected:
  absl::Status WriteNew() const {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(path_);
    if (!file.ok()) return file.status();
    const absl::Status status = file->Append("new");
    return status.ok() ? file->Commit() : status;
  }
};

TEST_F(AtomicFileFaultTest, WhereFilesCannotBeUnnamedTheDraftHasANameOfItsOwn) {
  const SystemCalls named([](SystemCall call, const char*) {
    return call == SystemCall::kOpenUnnamed ? EOPNOTSUPP : 0;
  });
  {
    const AtomicFile dropped = AtomicFile::Create(path_).value();
    EXPECT_EQ(FilesInFolder(), 1u);
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_EQ(FilesInFolder(), 0u);
  ASSERT_TRUE(WriteNew().ok());
  EXPECT_EQ(ReadWholeFile(path_, 10).value(), "new");
  EXPECT_EQ(FilesInFolder(), 1u);
}

// A name that outlives a power cut must not outlive the bytes behind it.
TEST_F(AtomicFileFaultTest, BytesAreOnTheDiskBeforeTheirNameIs) {
  for (const int error : {0, EOPNOTSUPP}) {
    std::vector<SystemCall> made;
    const SystemCalls calls([&](SystemCall call, const char*) {
      made.push_back(call);
      return call == SystemCall::kOpenUnnamed ? error : 0;
    });
    ASSERT_TRUE(WriteNew().ok());
    const auto sync = std::find(made.begin(), made.end(), SystemCall::kSync);
    const auto name = std::find(made.begin(), made.end(), SystemCall::kRename);
    ASSERT_NE(name, made.end());
    EXPECT_LT(sync, name);
  }
}

// A process with our number, in another container or long gone, would have taken these names.
TEST_F(AtomicFileFaultTest, WhatAnotherProcessLeftUnderATemporaryNameIsNotTouched) {
  for (const int error : {0, EOPNOTSUPP}) {
    std::string name;
    {
      const SystemCalls named([&](SystemCall call, const char*) {
        if (call == SystemCall::kRename)
          name = std::filesystem::directory_iterator(folder_.path())->path();
        return call == SystemCall::kOpenUnnamed ? error : 0;
      });
      ASSERT_TRUE(WriteNew().ok());
      std::filesystem::remove(path_);
    }
    const size_t last = name.rfind('.') + 1;
    const int number = std::stoi(name.substr(last));
    std::vector<std::string> theirs;
    for (int i = 1; i <= 3; ++i) {
      const std::filesystem::path taken = absl::StrCat(name.substr(0, last), number + i);
      theirs.push_back(folder_.Write(taken.filename().string(), "theirs"));
    }
    const SystemCalls named(
        [&](SystemCall call, const char*) { return call == SystemCall::kOpenUnnamed ? error : 0; });
    ASSERT_TRUE(WriteNew().ok());
    EXPECT_EQ(ReadWholeFile(path_, 10).value(), "new");
    for (const std::string& path : theirs) {
      EXPECT_EQ(ReadWholeFile(path, 100).value(), "theirs");
      std::filesystem::remove(path);
    }
    std::filesystem::remove(path_);
    EXPECT_EQ(FilesInFolder(), 0u);
  }
}

TEST_F(AtomicFileFaultTest, WhateverCallFailsTheOldFileIsThereAndNothingElse) {
  for (const SystemCall call : {SystemCall::kOpen, SystemCall::kOpenUnnamed, SystemCall::kSync,
                                SystemCall::kLink, SystemCall::kRename}) {
    for (const bool forever : {false, true}) {
      for (int nth = 1;; ++nth) {
        SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), ", number ", nth));
        folder_.Write("result", "old");
        const size_t open_files = OpenFiles();
        bool happened = false;
        absl::Status status;
        {
          int seen = 0;
          const SystemCalls fails([&](SystemCall made, const char*) {
            if (made != call) return 0;
            ++seen;
            const bool now = forever ? seen >= nth : seen == nth;
            happened |= now;
            return now ? EIO : 0;
          });
          status = WriteNew();
        }
        const std::string expected = status.ok() ? "new" : "old";
        EXPECT_EQ(ReadWholeFile(path_, 10).value(), expected) << status;
        EXPECT_EQ(FilesInFolder(), 1u);
        EXPECT_EQ(OpenFiles(), open_files);
        EXPECT_TRUE(WriteNew().ok()) << "the next time";
        if (!happened || HasFailure()) {
          EXPECT_GT(nth, 1) << "such a call is made";
          break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace npubank
