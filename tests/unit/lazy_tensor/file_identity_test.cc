#include "npubank/lazy_tensor/sources/file_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

class FileIdentityTest : public ::testing::Test {
 protected:
  // The same inode, size and mtime as before, whatever the bytes are.
  void Write(const std::string& bytes) {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    SetTime(1);
  }
  void SetTime(int64_t seconds) {
    const struct timespec times[] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  Digest Identity() const { return Source::OpenFile(path_).value()->identity(); }

  void SetUp() override { SetTime(1); }

  const TemporaryFolder folder_;
  const std::string first_ = std::string(300000, 'a');
  const std::string path_ = folder_.Write("model.safetensors", first_);
};

TEST_F(FileIdentityTest, AnotherFileWithTheSameInodeSizeAndTimeIsAnotherSource) {
  const Digest identity = Identity();
  EXPECT_EQ(Identity(), identity);
  Write(std::string(first_.size(), 'b'));
  const Digest other = Identity();
  EXPECT_NE(other, identity);
  EXPECT_EQ(Identity(), other) << "whenever it is opened";
  Write(std::string(first_.size(), 'c'));
  EXPECT_NE(Identity(), identity);
  EXPECT_NE(Identity(), other);
  Write(first_);
  EXPECT_EQ(Identity(), identity) << "it is the first again";
}

TEST_F(FileIdentityTest, ADifferenceInAnyWindowIsSeen) {
  const Digest identity = Identity();
  for (const size_t at : {size_t{0}, size_t{4095}, first_.size() - 1, first_.size() - 4096}) {
    std::string other = first_;
    other[at] = 'x';
    Write(other);
    EXPECT_NE(Identity(), identity) << at;
  }
}

TEST_F(FileIdentityTest, WhatOnlyChangesTheInodesTimeChangesNothing) {
  const Digest identity = Identity();
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(Identity(), identity);
  const std::string link = folder_.path() + "/link.safetensors";
  ASSERT_EQ(::link(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(Identity(), identity);
  EXPECT_EQ(Source::OpenFile(link).value()->identity(), identity);
}

TEST_F(FileIdentityTest, SmallAndEmptyFilesHaveIdentitiesToo) {
  for (const std::string bytes : {"", "x", "four"}) {
    const std::string path = folder_.Write("small" + bytes, bytes);
    const auto source = Source::OpenFile(path);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(Source::OpenFile(path).value()->identity(), (*source)->identity());
  }
}

}  // namespace
}  // namespace npubank
