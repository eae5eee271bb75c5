// What a service says to its manager arrives, and a manager that is not there, refuses or hangs costs an error,
// once the patience with it, and never the service.
#include "npubank/tools/service/notify_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience(100);

class NotifySocketTest : public ::testing::Test {
 protected:
  // A manager that listens, and reads nothing by itself.
  FileDescriptor Listen(int type = SOCK_DGRAM) const {
    FileDescriptor manager(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (type != SOCK_DGRAM) {
      EXPECT_EQ(listen(manager.get(), 1), 0);
    }
    return manager;
  }
  // The next message, whose descriptor, if there was one, is `came`.
  static std::string Read(const FileDescriptor& manager, FileDescriptor& came) {
    char bytes[256];
    iovec part = {bytes, sizeof(bytes)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(manager.get(), &header, MSG_CMSG_CLOEXEC);
    EXPECT_GT(got, 0);
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&header)) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(rights), sizeof(int));
      came = FileDescriptor(value);
    }
    return std::string(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("notify");
};

TEST_F(NotifySocketTest, WhatIsSaidArrivesWithItsDescriptor) {
  const FileDescriptor manager = Listen();
  NotifySocket socket(path_, kPatience);
  ASSERT_TRUE(socket.Send("READY=1").ok());
  const FileDescriptor file = FileDescriptor::Open(folder_.Write("file", "bytes"), O_RDONLY);
  ASSERT_TRUE(socket.Send("FDSTORE=1\nFDNAME=s1", file.get()).ok());
  FileDescriptor came;
  EXPECT_EQ(Read(manager, came), "READY=1");
  EXPECT_FALSE(came.is_open());
  EXPECT_EQ(Read(manager, came), "FDSTORE=1\nFDNAME=s1");
  struct stat sent = {}, received = {};
  ASSERT_EQ(fstat(file.get(), &sent), 0);
  ASSERT_EQ(fstat(came.get(), &received), 0);
  EXPECT_EQ(received.st_ino, sent.st_ino);
}

TEST_F(NotifySocketTest, ABarrierReturnsWhenTheManagerHasGotSoFar) {
  const FileDescriptor manager = Listen();
  NotifySocket socket(path_);
  std::thread reads([&] {
    FileDescriptor came;
    EXPECT_EQ(Read(manager, came), "BARRIER=1");
    EXPECT_TRUE(came.is_open());
  });
  EXPECT_TRUE(socket.Barrier().ok());
  reads.join();
}

TEST_F(NotifySocketTest, AManagerThatIsNotThereOrIsNoManagerIsAnErrorAtOnce) {
  const auto why = [](const std::string& name) {
    NotifySocket socket(name, kPatience);
    const absl::Status status = socket.Send("READY=1");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << name;
    EXPECT_EQ(socket.Barrier().code(), absl::StatusCode::kUnavailable) << name;
    return std::string(status.message());
  };
  EXPECT_THAT(why(path_), HasSubstr("No such file"));
  EXPECT_THAT(why("@npubank, where nobody listens"), HasSubstr("refused"));
  EXPECT_THAT(why(folder_.Write("file", "no socket")), HasSubstr("refused"));
  EXPECT_THAT(why("/" + std::string(200, 'x')), HasSubstr("no name of a socket"));
  EXPECT_THAT(why("relative"), HasSubstr("no name of a socket"));
  EXPECT_THAT(why("/"), HasSubstr("no name of a socket"));
  { const FileDescriptor closed = Listen(); }
  EXPECT_THAT(why(path_), HasSubstr("refused"));
  unlink(path_.c_str());
  const FileDescriptor other = Listen(SOCK_STREAM);
  EXPECT_THAT(why(path_), HasSubstr("wrong type"));
}

TEST_F(NotifySocketTest, AManagerThatHangsCostsThePatienceOnceAndIsNotToldAnythingMore) {
  const FileDescriptor manager = Listen();
  NotifySocket socket(path_, kPatience);
  const auto start = std::chrono::steady_clock::now();
  absl::Status status;
  for (int i = 0; i < 100000 && status.ok(); ++i) status = socket.Send("STATUS=its queue is full");
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_GE(std::chrono::steady_clock::now() - start, kPatience);
  const auto told = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(absl::IsDeadlineExceeded(socket.Send("STATUS=again")));
  EXPECT_TRUE(absl::IsDeadlineExceeded(socket.Barrier()));
  EXPECT_LT(std::chrono::steady_clock::now() - told, 20 * kPatience) << "not 101 times";
}

TEST_F(NotifySocketTest, ABarrierThatNobodyAnswersComesBack) {
  const FileDescriptor manager = Listen();
  NotifySocket socket(path_, kPatience);
  EXPECT_TRUE(absl::IsDeadlineExceeded(socket.Barrier()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(socket.Send("READY=1")));
}

TEST_F(NotifySocketTest, WhereNoManagerIsNamedThereIsNone) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_EQ(NotifySocket::FromEnvironment(), nullptr);
  setenv("NOTIFY_SOCKET", "", 1);
  EXPECT_EQ(NotifySocket::FromEnvironment(), nullptr);
  setenv("NOTIFY_SOCKET", "@somewhere", 1);
  EXPECT_NE(NotifySocket::FromEnvironment(), nullptr);
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace npubank
