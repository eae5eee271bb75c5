// Files that are complete or not there, and as readable as any other the user writes.
#include "npubank/lazy_tensor/base/files/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/system/file_faults.h"
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

// Beside a string that is written in the same places.
TEST_F(AtomicFileTest, WhatIsWrittenDirectlyIsWhatIsRead) {
  constexpr uint64_t kPage = AtomicFile::kDirectAlignment;
  struct alignas(kPage) Room {
    char bytes[8 * kPage];
  };
  const auto room = std::make_unique<Room>();
  std::mt19937_64 random(PrintedSeed());
  for (int round = 0; round < Repetitions(100); ++round) {
    AtomicFile file = AtomicFile::Create(path_).value();
    file.WriteDirectly();
    std::string expected;
    for (int write = 0; write < 20; ++write) {
      std::fill(std::begin(room->bytes), std::end(room->bytes), static_cast<char>(random()));
      const uint64_t skip = random() % 2 * (random() % 100);  // aligned, and not
      const uint64_t offset = random() % 8 * kPage + random() % 2 * (random() % 100);
      const absl::string_view bytes(room->bytes + skip, 1 + random() % (7 * kPage));
      ASSERT_EQ(file.WriteAt(offset, bytes), absl::OkStatus());
      if (expected.size() < offset + bytes.size()) expected.resize(offset + bytes.size());
      expected.replace(offset, bytes.size(), bytes.data(), bytes.size());
      std::string found(expected.size(), 'x');
      const auto out = absl::MakeSpan(reinterpret_cast<std::byte*>(found.data()), found.size());
      ASSERT_EQ(file.ReadAt(0, out), absl::OkStatus());
      ASSERT_TRUE(found == expected) << "write " << write;
      ASSERT_EQ(file.size(), expected.size());
    }
    ASSERT_EQ(file.Commit(), absl::OkStatus());
    ASSERT_TRUE(ReadWholeFile(path_, 1 << 20).value() == expected);
  }
}

// Whichever write fails once: the other way takes the bytes, or, where there is none or it is that which fails, an error
// comes, and the same again works.
TEST_F(AtomicFileTest, AWriteThatFailsOnItsWayToTheDiskIsMadeAgainOrAnError) {
  constexpr uint64_t kPage = AtomicFile::kDirectAlignment;
  struct alignas(kPage) Room {
    char bytes[3 * kPage];
  };
  const auto room = std::make_unique<Room>();
  const absl::string_view bytes(room->bytes, 2 * kPage + 100);
  int errors = 0;
  for (uint64_t nth = 1; nth <= 3; ++nth) {
    std::fill(std::begin(room->bytes), std::end(room->bytes), static_cast<char>('0' + nth));
    AtomicFile file = AtomicFile::Create(path_).value();
    file.WriteDirectly();
    {
      const FileFault fault(FileFault::kWrite, nth, EIO);
      const absl::Status status = file.WriteAt(0, bytes);
      if (!status.ok()) {
        ++errors;
        EXPECT_TRUE(fault.happened()) << status;
        EXPECT_EQ(file.size(), 0);
      }
    }
    if (file.size() == 0) {
      ASSERT_EQ(file.WriteAt(0, bytes), absl::OkStatus());
    }
    ASSERT_EQ(file.Commit(), absl::OkStatus());
    EXPECT_TRUE(ReadWholeFile(path_, 1 << 20).value() == bytes) << nth;
  }
  EXPECT_EQ(errors, 1) << "what is left over a page has one way only";
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
  EXPECT_EQ(FilesInFolder(), 0u) << "a draft has no name";
  for (AtomicFile& file : files) ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(ReadWholeFile(path_, 100).value(), "writer 19") << "the last one wins";
}

// As root: `--cache /dev/null` must not make an ordinary file of the device.
TEST_F(AtomicFileTest, WhatIsNoRegularFileIsRefusedAndLeftAlone) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const std::string folder = folder_.File("folder");
  std::filesystem::create_directory(folder);
  const std::string link = folder_.File("link");
  std::filesystem::create_symlink("/dev/null", link);
  for (const std::string& path : {path_, folder, link, std::string("/dev/null")}) {
    const auto file = AtomicFile::Create(path);
    EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << file.status();
    EXPECT_NE(file.status().message().find("is not a regular file"), std::string::npos);
  }
  EXPECT_EQ(FilesInFolder(), 3u);
}

TEST_F(AtomicFileTest, ALinkStaysAndTheFileItNamesIsReplaced) {
  std::filesystem::create_directory(folder_.File("disk"));
  const std::string real = folder_.Write("disk/real", "old");
  std::filesystem::create_symlink("disk/real", folder_.File("second"));
  std::filesystem::create_symlink(folder_.File("second"), path_);
  AtomicFile file = AtomicFile::Create(path_).value();
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.File("second")));
  EXPECT_EQ(ReadWholeFile(real, 10).value(), "new");
}

TEST_F(AtomicFileTest, ALinkToNothingYetMakesTheFile) {
  std::filesystem::create_symlink("real", path_);
  AtomicFile file = AtomicFile::Create(path_).value();
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(ReadWholeFile(folder_.File("real"), 10).value(), "new");
}

TEST_F(AtomicFileTest, LinksInACircleAreAnError) {
  std::filesystem::create_symlink("other", path_);
  std::filesystem::create_symlink("result", folder_.File("other"));
  EXPECT_FALSE(AtomicFile::Create(path_).ok());
}

// What the system itself refuses to open there (protected_symlinks).
TEST_F(AtomicFileTest, ALinkThatSomebodyElsePutIntoAFolderOfEverybodysIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make another's link";
  const std::string folder = folder_.File("everybodys");
  std::filesystem::create_directory(folder);
  const std::string real = folder_.Write("real", "old");
  const std::string link = folder + "/link";
  std::filesystem::create_symlink(real, link);
  ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(AtomicFile::Create(link).ok()) << "in a folder of our own it is";
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  const auto file = AtomicFile::Create(link);
  EXPECT_TRUE(absl::IsPermissionDenied(file.status())) << file.status();
  ASSERT_EQ(lchown(link.c_str(), geteuid(), 12345), 0);
  EXPECT_TRUE(AtomicFile::Create(link).ok());
}

TEST_F(AtomicFileTest, AFolderThatIsNotThereIsNotFoundAndNamed) {
  const auto file = AtomicFile::Create(folder_.File("missing/result"));
  EXPECT_TRUE(absl::IsNotFound(file.status())) << file.status();
  EXPECT_NE(file.status().message().find("missing/result"), std::string::npos);
}

}  // namespace
}  // namespace npubank
