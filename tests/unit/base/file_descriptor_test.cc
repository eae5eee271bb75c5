#include "npubank/lazy_tensor/base/files/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

absl::Span<std::byte> BytesOf(std::string& text) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size());
}

class FileDescriptorTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string path_ = folder_.Write("file", "0123456789");
};

TEST_F(FileDescriptorTest, ClosesWhatItHoldsOnce) {
  int number = -1;
  {
    const FileDescriptor file = FileDescriptor::Open(path_, O_RDONLY);
    ASSERT_TRUE(file.is_open());
    number = file.get();
    EXPECT_TRUE(IsOpen(number));
    EXPECT_NE(fcntl(number, F_GETFD) & FD_CLOEXEC, 0) << "a program it starts does not get it";
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST_F(FileDescriptorTest, MovingLeavesOneHolder) {
  FileDescriptor first = FileDescriptor::Open(path_, O_RDONLY);
  const int number = first.get();
  FileDescriptor second = std::move(first);
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), number);
  FileDescriptor third = FileDescriptor::Open(path_, O_RDONLY);
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(IsOpen(replaced)) << "what it held before is closed";
  EXPECT_EQ(third.get(), number);
  FileDescriptor& itself = third;
  third = std::move(itself);
  EXPECT_TRUE(IsOpen(number));
  third.Close();
  third.Close();
  EXPECT_FALSE(IsOpen(number));
}

TEST_F(FileDescriptorTest, ThatCannotBeOpenedIsClosedWithErrno) {
  const FileDescriptor file = FileDescriptor::Open(folder_.File("none"), O_RDONLY);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(file.is_open());
}

TEST_F(FileDescriptorTest, ReadsAllOrToTheEndOfTheFile) {
  const FileDescriptor file = FileDescriptor::Open(path_, O_RDONLY);
  std::string bytes(4, '-');
  EXPECT_EQ(ReadAt(file, path_, 3, BytesOf(bytes)).value(), 4u);
  EXPECT_EQ(bytes, "3456");
  EXPECT_EQ(ReadAt(file, path_, 8, BytesOf(bytes)).value(), 2u);
  EXPECT_EQ(bytes, "8956");
  EXPECT_EQ(ReadAt(file, path_, 10, BytesOf(bytes)).value(), 0u);
}

TEST_F(FileDescriptorTest, GoesOnAfterASignalAndAfterAPart) {
  const FileDescriptor file = FileDescriptor::Open(path_, O_RDWR);
  std::string bytes(10, '-');
  {
    const FileFault interrupted(FileFault::kRead, 1, EINTR);
    EXPECT_EQ(ReadAt(file, path_, 0, BytesOf(bytes)).value(), 10u);
    EXPECT_TRUE(interrupted.happened());
  }
  EXPECT_EQ(bytes, "0123456789");
  const ShortTransfers transfers(3);
  const FileFault interrupted(FileFault::kWrite, 2, EINTR);
  EXPECT_TRUE(WriteAt(file, path_, 5, "abcdefghij").ok());
  EXPECT_TRUE(interrupted.happened());
  bytes.resize(15);
  EXPECT_EQ(ReadAt(file, path_, 0, BytesOf(bytes)).value(), 15u);
  EXPECT_EQ(bytes, "01234abcdefghij");
}

TEST_F(FileDescriptorTest, ErrorsSayWhatAndOfWhichFile) {
  const FileDescriptor file = FileDescriptor::Open(path_, O_RDWR);
  std::string bytes(4, '-');
  {
    const FileFault fault(FileFault::kRead, 1, EIO);
    const absl::Status status = ReadAt(file, path_, 0, BytesOf(bytes)).status();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(status.message(), "cannot read '" + path_ + "': Input/output error");
  }
  const FileFault fault(FileFault::kWrite, 1, ENOSPC);
  const absl::Status status = WriteAt(file, path_, 0, "abc");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "cannot write '" + path_ + "': No space left on device");
}

TEST(SystemError, TellsApartWhatACallerCanActOn) {
  const auto code = [](int error) { return SystemError(error, "cannot open", "x").code(); };
  for (int error : {ENOENT, ENOTDIR}) EXPECT_EQ(code(error), absl::StatusCode::kNotFound);
  for (int error : {EACCES, EPERM, EROFS}) {
    EXPECT_EQ(code(error), absl::StatusCode::kPermissionDenied);
  }
  for (int error : {ENOSPC, EDQUOT, EFBIG}) {
    EXPECT_EQ(code(error), absl::StatusCode::kResourceExhausted);
  }
  for (int error : {EIO, EMFILE, ELOOP}) EXPECT_EQ(code(error), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace npubank
