// Files that are complete or not there, and as readable as any other the user writes.
#include "npubank/lazy_tensor/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 0777;
}

// The process's mask for new files, put back at the end.
class Mask {
 public:
  explicit Mask(mode_t mask) : before_(umask(mask)) {}
  ~Mask() { umask(before_); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;

 private:
  const mode_t before_;
};

class AtomicFileTest : public ::testing::Test {
 protected:
  size_t FilesInFolder() const {
    const std::filesystem::directory_iterator files(folder_.path());
    return std::distance(begin(files), end(files));
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("result");
};

TEST_F(AtomicFileTest, ItIsThereWhenItIsCommittedAndNotBefore) {
  {
    AtomicFile file = AtomicFile::Create(path_).value();
    ASSERT_TRUE(file.Append("head").ok());
    ASSERT_TRUE(file.WriteAt(6, "tail").ok());
    ASSERT_TRUE(file.WriteAt(0, "HEAD").ok());
    EXPECT_EQ(file.size(), 10u);
    EXPECT_FALSE(std::filesystem::exists(path_));
    ASSERT_TRUE(file.Commit().ok());
  }
  EXPECT_EQ(ReadWholeFile(path_, 10).value(), std::string("HEAD\0\0tail", 10));
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(AtomicFileTest, DroppedItLeavesNothing) {
  {
    AtomicFile first = AtomicFile::Create(path_).value();
    AtomicFile second = std::move(first);
    ASSERT_TRUE(second.Append("half").ok());
  }
  EXPECT_EQ(FilesInFolder(), 0u);
}

TEST_F(AtomicFileTest, ManyThreadsMayCreateAndEveryFileHasTheModeTheMaskAsksFor) {
  const Mask mask(027);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string path = absl::StrCat(path_, thread);
        AtomicFile file = AtomicFile::Create(path).value();
        ASSERT_TRUE(file.Commit().ok());
        EXPECT_EQ(ModeOf(path), 0640u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(umask(027), 027u) << "it is the process's: nobody may change it, not even for a moment";
}

TEST_F(AtomicFileTest, TwoWritersOfOnePathDoNotDisturbEachOther) {
  std::vector<AtomicFile> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(AtomicFile::Create(path_).value());
    ASSERT_TRUE(files.back().Append(absl::StrCat("writer ", i)).ok());
  }
  EXPECT_EQ(FilesInFolder(), files.size());
  for (AtomicFile& file : files) ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(ReadWholeFile(path_, 100).value(), "writer 19") << "the last one wins";
}

TEST_F(AtomicFileTest, WhatAnotherProcessLeftUnderATemporaryNameIsNotTouched) {
  // A process with our number, in another container or long gone, would have taken these.
  std::string name;
  {
    const AtomicFile file = AtomicFile::Create(path_).value();
    name = std::filesystem::directory_iterator(folder_.path())->path().string();
  }
  const size_t last = name.rfind('.') + 1;
  const int number = std::stoi(name.substr(last));
  for (int i = 1; i <= 3; ++i) {
    folder_.Write(
        std::filesystem::path(absl::StrCat(name.substr(0, last), number + i)).filename().string(),
        "theirs");
  }
  AtomicFile file = AtomicFile::Create(path_).value();
  ASSERT_TRUE(file.Append("ours").ok());
  EXPECT_EQ(FilesInFolder(), 4u);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(ReadWholeFile(absl::StrCat(name.substr(0, last), number + i), 100).value(), "theirs");
  }
}

TEST_F(AtomicFileTest, AFolderThatIsNotThereIsNotFoundAndNamed) {
  const auto file = AtomicFile::Create(folder_.File("missing/result"));
  EXPECT_TRUE(absl::IsNotFound(file.status())) << file.status();
  EXPECT_NE(file.status().message().find("missing/result"), std::string::npos);
}

}  // namespace
}  // namespace npubank
