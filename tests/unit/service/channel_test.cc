// Channels: messages arrive whole and with their files, and what is wrong with one costs no descriptor.
#include "npubank/bank/service/wire/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "npubank/tests/support/temporary_folder.h"

namespace npubank::service {
namespace {

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

FileDescriptor NewFile() { return FileDescriptor(memfd_create("a file", MFD_CLOEXEC)); }

// Whatever bytes, and descriptors, as anybody may send them.
void SendRaw(int socket, const std::string& bytes, const std::vector<int>& descriptors) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ASSERT_GE(sendmsg(socket, &header, 0), 0) << std::strerror(errno);
}

std::string Announcing(uint64_t bytes) {
  std::string message = "NPBMEMFD";
  message.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  return message;
}

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = Channel::Pair();
    ASSERT_TRUE(pair.ok()) << pair.status();
    a_ = std::move(pair->first);
    b_ = std::move(pair->second);
  }
  Channel a_;
  Channel b_;
};

TEST_F(ChannelTest, AMessageArrivesWholeWithTheFilesThatCameWithIt) {
  const FileDescriptor file = NewFile();
  ASSERT_TRUE(a_.Send("hello", {file.get(), file.get()}).ok());
  const auto packet = b_.Receive();
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->bytes, "hello");
  ASSERT_EQ(packet->descriptors.size(), 2u);
  struct stat sent;
  struct stat arrived;
  ASSERT_EQ(fstat(file.get(), &sent), 0);
  ASSERT_EQ(fstat(packet->descriptors[1].get(), &arrived), 0);
  EXPECT_EQ(sent.st_ino, arrived.st_ino);
  EXPECT_EQ(fcntl(packet->descriptors[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(ChannelTest, AMessageOfManyMegabytesArrivesToo) {
  std::string large(5 << 20, 'x');
  large.back() = 'y';
  const FileDescriptor file = NewFile();
  const std::vector<int> most(Channel::kMostDescriptors, file.get());
  ASSERT_TRUE(a_.Send(large, most).ok());
  const auto packet = b_.Receive();
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->bytes, large);
  EXPECT_EQ(packet->descriptors.size(), Channel::kMostDescriptors);
}

TEST_F(ChannelTest, WhatCannotBeSentIsRefusedBeforeAnythingIs) {
  EXPECT_TRUE(absl::IsInvalidArgument(a_.Send("")));
  EXPECT_TRUE(absl::IsInvalidArgument(a_.Send(std::string(Channel::kMostBytes + 1, 'x'))));
  EXPECT_TRUE(absl::IsInvalidArgument(
      a_.Send("x", std::vector<int>(Channel::kMostDescriptors + 1, b_.descriptor()))));
  ASSERT_TRUE(a_.Send("after").ok());
  EXPECT_EQ(b_.Receive()->bytes, "after");
}

TEST_F(ChannelTest, AnEndThatIsGoneIsNoticedByBothSides) {
  b_ = Channel();
  EXPECT_TRUE(absl::IsUnavailable(a_.Receive().status()));
  EXPECT_TRUE(absl::IsUnavailable(a_.Send("x")));
}

TEST_F(ChannelTest, WhateverIsWrongWithAMessageNoneOfItsFilesStaysOpen) {
  const FileDescriptor plain = NewFile();
  const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 1000), 0);
  const FileDescriptor sealed(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 1000), 0);
  ASSERT_EQ(
      fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
      0);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const FileDescriptor read_end(pipe_ends[0]);
  const FileDescriptor write_end(pipe_ends[1]);
  const struct {
    const char* what;
    std::string bytes;
    std::vector<int> descriptors;
  } kWrong[] = {
      {"too large for one piece", std::string(Channel::kPacketBytes + 1, 'x'), {plain.get()}},
      {"announced, and not there", Announcing(1000), {}},
      {"announced, and not sealed", Announcing(1000), {unsealed.get()}},
      {"announced, and a pipe", Announcing(1000), {plain.get(), read_end.get()}},
      {"announced with another size", Announcing(999), {sealed.get()}},
      {"announced beyond all limits", Announcing(~uint64_t{0}), {sealed.get()}},
  };
  for (const auto& wrong : kWrong) {
    SetUp();
    const size_t before = OpenFiles();
    ASSERT_NO_FATAL_FAILURE(SendRaw(a_.descriptor(), wrong.bytes, wrong.descriptors));
    const auto packet = b_.Receive();
    EXPECT_TRUE(absl::IsInvalidArgument(packet.status())) << wrong.what << ": " << packet.status();
    EXPECT_EQ(OpenFiles(), before) << wrong.what;
  }
  SetUp();
  const size_t before = OpenFiles();
  SendRaw(a_.descriptor(), "", {plain.get()});  // reads as an end
  EXPECT_TRUE(absl::IsUnavailable(b_.Receive().status()));
  EXPECT_EQ(OpenFiles(), before);
}

TEST_F(ChannelTest, AReceiverAtItsLimitOfFilesRefusesTheMessageAndKeepsNothing) {
  const FileDescriptor file = NewFile();
  const std::vector<int> many(100, file.get());
  ASSERT_TRUE(a_.Send("many", many).ok());
  const size_t before = OpenFiles();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto packet = b_.Receive();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(packet.status())) << packet.status();
  EXPECT_EQ(OpenFiles(), before);
}

TEST_F(ChannelTest, WhoReadsNothingGetsOneMessageWithFilesAndNoMore) {
  Channel impatient(FileDescriptor(dup(a_.descriptor())), std::chrono::milliseconds(30));
  const FileDescriptor file = NewFile();
  ASSERT_TRUE(impatient.Send("first", {file.get()}).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(impatient.Send("second", {file.get()})));
  ASSERT_TRUE(b_.Receive().ok());
  EXPECT_TRUE(impatient.Send("third", {file.get()}).ok()) << "it has read";
}

TEST_F(ChannelTest, WhoReadsNothingDoesNotBlockItsSenderForEver) {
  Channel impatient(FileDescriptor(dup(a_.descriptor())), std::chrono::milliseconds(30));
  const std::string message(Channel::kPacketBytes, 'x');
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = impatient.Send(message);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST(ChannelConnectTest, AQueueThatIsFullIsWaitedForNoLongerThanWasSaid) {
  const TemporaryFolder folder;
  const std::string path = folder.File("socket");
  const FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  std::vector<Channel> waiting;  // of which nobody is ever accepted
  for (int i = 0; i < 10; ++i) {
    auto channel = Channel::Connect(path, std::chrono::milliseconds(50));
    if (channel.ok()) {
      waiting.push_back(*std::move(channel));
      continue;
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(channel.status())) << channel.status();
    EXPECT_GT(waiting.size(), 0u);
    return;
  }
  FAIL() << "the queue has no end";
}

}  // namespace
}  // namespace npubank::service
