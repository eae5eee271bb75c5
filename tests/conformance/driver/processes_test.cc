// Two processes and one driver each: buffers exported by one and imported by the other in every
// order, with one of them killed at any moment; and children of fork.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

constexpr size_t kBytes = 3 * 4096;
constexpr size_t kManyBytes = size_t{16} << 20;
constexpr char kSocketVariable[] = "NPUBANK_TEST_PEER_SOCKET";

// What the exporter and then the importer wrote.
constexpr uint8_t kFirst = 0x11;
constexpr uint8_t kSecond = 0x22;

bool AllBytesAre(const uint8_t* bytes, uint8_t value) {
  for (size_t i = 0; i < kBytes; ++i)
    if (bytes[i] != value) return false;
  return true;
}

// One byte and, with it, a descriptor or -1.
bool Send(int socket, char word, int fd) {
  iovec text = {&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

bool Receive(int socket, char* word, int* fd) {
  iovec text = {word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  *fd = -1;
  if (header != nullptr) std::memcpy(fd, CMSG_DATA(header), sizeof(*fd));
  return true;
}

// One side of the exchange: a buffer of its own, or one that it imported. Steps are words:
//   'a' allocate and write kFirst   'x' export   'i' import   'c' check kFirst   'w' write kSecond
//   'f' free
// or a file in memory, of which it pins the pages and its device reads them into a buffer:
//   'p' pin   'd' read   'c' check kFirst   's' check kSecond   'f' free   'u' unpin
//   'n' whether pinning and reading the whole file copies nothing
class SharingTest : public DriverTest {
 protected:
  // False when the step failed. `fd` is what comes along with it, and what goes back.
  bool Step(char word, int* fd) {
    switch (word) {
      case 'a':
        return Allocate();
      case 'x':
        return Export(fd);
      case 'i':
        return Import(*fd);
      case 'c':
        return AllBytesAre(memory_, kFirst);
      case 's':
        return AllBytesAre(memory_, kSecond);
      case 'p':
        return Pin(*fd);
      case 'd':
        return Copy(memory_, pinned_, kBytes) == ZE_RESULT_SUCCESS;
      case 'u':
        return zeMemFree(context_, pinned_) == ZE_RESULT_SUCCESS && munmap(pinned_, kBytes) == 0;
      case 'n':
        return SwitchImportsOn() && ImportsWithoutACopy(*fd, kManyBytes, PROT_READ, kReadOnly);
      case 'w':
        std::memset(memory_, kSecond, kBytes);
        return true;
      case 'f':
        return zeMemFree(context_, memory_) == ZE_RESULT_SUCCESS;
      default:
        return false;
    }
  }

  bool Allocate() {
    const ze_external_memory_export_desc_t desc = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                                   nullptr, ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    void* memory = nullptr;
    if (TryAllocate(ZE_MEMORY_TYPE_DEVICE, kBytes, &memory, 0, 0, &desc) != ZE_RESULT_SUCCESS)
      return false;
    memory_ = static_cast<uint8_t*>(memory);
    std::memset(memory_, kFirst, kBytes);
    return true;
  }
  bool Export(int* fd) {
    ze_external_memory_export_fd_t exported = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD, nullptr,
                                               ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF, -1};
    ze_memory_allocation_properties_t properties = {};
    properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
    properties.pNext = &exported;
    const ze_result_t result = zeMemGetAllocProperties(context_, memory_, &properties, nullptr);
    *fd = exported.fd;
    return result == ZE_RESULT_SUCCESS;
  }
  bool Import(int fd) {
    const ze_external_memory_import_fd_t import = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                                   nullptr, ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
                                                   fd};
    void* memory = nullptr;
    if (TryAllocate(ZE_MEMORY_TYPE_DEVICE, kBytes, &memory, 0, 0, &import) != ZE_RESULT_SUCCESS)
      return false;
    memory_ = static_cast<uint8_t*>(memory);
    return true;
  }

  bool SwitchImportsOn() {
    if (IsSoftwareNpu()) SetSwitches({{"NPUBANK_NPU_IMPORT", "1"}});
    return HasExtension("ZE_extension_external_memmap_sysmem");
  }
  bool Pin(int fd) {
    if (!SwitchImportsOn()) return false;
    pinned_ = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    memory_ = Device(kBytes);
    void* out = nullptr;
    return ImportPages(pinned_, kBytes, kReadOnly, &out) == ZE_RESULT_SUCCESS && out == pinned_;
  }

  uint8_t* memory_ = nullptr;
  void* pinned_ = nullptr;
};

// The other process: this program with the one test that serves.
class Peer {
 public:
  Peer() {
    int sockets[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    socket_ = sockets[0];
    const std::string number = std::to_string(sockets[1]);
    process_ = fork();
    if (process_ == 0) {
      close(sockets[0]);
      setenv(kSocketVariable, number.c_str(), 1);
      // What it has to say goes with its exit code.
      const int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(quiet, STDOUT_FILENO);
      execl("/proc/self/exe", "peer", "--gtest_filter=SharingTest.ThePeerServes", "--gtest_brief=1",
            static_cast<char*>(nullptr));
      _exit(127);
    }
    close(sockets[1]);
  }
  ~Peer() {
    Kill();
    close(socket_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // False when the step failed there, or nobody is there.
  bool Step(char word, int* fd) {
    char answer = 0;
    return Send(socket_, word, *fd) && Receive(socket_, &answer, fd) && answer == 'y';
  }
  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  // Ends as it would by itself; its exit code.
  int Leave() {
    shutdown(socket_, SHUT_WR);
    int status = -1;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int socket_ = -1;
  pid_t process_ = -1;
};

TEST_F(SharingTest, ThePeerServes) {
  const char* const number = std::getenv(kSocketVariable);
  if (number == nullptr) GTEST_SKIP() << "the other process of the tests below";
  const int socket = std::atoi(number);
  char word = 0;
  int fd = -1;
  while (Receive(socket, &word, &fd)) {
    const int came = fd;
    const bool done = Step(word, &fd);
    if (!Send(socket, done ? 'y' : 'n', word == 'x' ? fd : -1)) break;
    if (came >= 0) close(came);
    if (word == 'x') close(fd);
  }
  close(socket);
}

// All orders in which two sequences of steps can be mixed.
void Mix(const std::string& first, const std::string& second, const std::string& before,
         std::vector<std::string>* orders) {
  if (first.empty() && second.empty()) orders->push_back(before);
  if (!first.empty()) Mix(first.substr(1), second, before + first[0], orders);
  if (!second.empty()) Mix(first, second.substr(1), before + second[0], orders);
}

// Upper case: the exporter's. 'E' ends it. The importer must not notice what becomes of it.
TEST_F(SharingTest, AnImportIsWholeWhateverBecomesOfItsExporterAndWhen) {
  for (const bool killed : {false, true}) {
    std::vector<std::string> orders;
    Mix(killed ? "E" : "FE", "icwf", "", &orders);
    if (killed) Mix("FE", "icwf", "", &orders);
    for (const std::string& order : orders) {
      SCOPED_TRACE(order + (killed ? ", killed" : ""));
      Peer exporter;
      int fd = -1;
      ASSERT_TRUE(exporter.Step('a', &fd));
      ASSERT_TRUE(exporter.Step('x', &fd));
      ASSERT_GE(fd, 0);
      int none = -1;
      for (const char step : order) {
        if (step == 'F') {
          EXPECT_TRUE(exporter.Step('f', &none));
        } else if (step == 'E') {
          if (killed) exporter.Kill();
          const int code = killed ? 0 : exporter.Leave();
          EXPECT_EQ(code, 0);
        } else {
          EXPECT_TRUE(Step(step, &fd)) << step;
        }
      }
      close(fd);
    }
  }
}

TEST_F(SharingTest, AnExporterKeepsItsMemoryWhateverBecomesOfItsImporterAndWhen) {
  const std::string steps = "icwf";
  for (size_t killed_after = 0; killed_after <= steps.size(); ++killed_after) {
    SCOPED_TRACE(killed_after);
    ASSERT_TRUE(Allocate());
    int fd = -1;
    ASSERT_TRUE(Export(&fd));
    Peer importer;
    for (const char step : steps.substr(0, killed_after)) {
      int sent = step == 'i' ? fd : -1;
      EXPECT_TRUE(importer.Step(step, &sent)) << step;
    }
    importer.Kill();
    EXPECT_TRUE(AllBytesAre(memory_, killed_after >= 3 ? kSecond : kFirst));
    close(fd);
    ASSERT_TRUE(Export(&fd)) << "once more";
    close(fd);
    EXPECT_EQ(zeMemFree(context_, memory_), ZE_RESULT_SUCCESS);
  }
}

TEST_F(SharingTest, WritesOfOneProcessAreSeenByTheOther) {
  Peer exporter;
  int fd = -1;
  ASSERT_TRUE(exporter.Step('a', &fd));
  ASSERT_TRUE(exporter.Step('x', &fd));
  ASSERT_TRUE(Import(fd));
  close(fd);
  int none = -1;
  ASSERT_TRUE(exporter.Step('w', &none));
  EXPECT_TRUE(AllBytesAre(memory_, kSecond));
  std::memset(memory_, kFirst, kBytes);
  EXPECT_TRUE(exporter.Step('c', &none));
  ASSERT_TRUE(exporter.Step('f', &none));
  EXPECT_EQ(exporter.Leave(), 0);
  EXPECT_EQ(zeMemFree(context_, memory_), ZE_RESULT_SUCCESS);
}

// A file in memory of which every process has a descriptor.
int NewMemoryFile(size_t bytes) {
  const int fd = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}

TEST_F(SharingTest, ASealedFileInMemoryIsOneMemoryForTheDevicesOfTwoProcesses) {
  if (!SwitchImportsOn()) GTEST_SKIP() << "this driver does not import system memory";
  int fd = NewMemoryFile(kBytes);
  void* const written = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::memset(written, kFirst, kBytes);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  Peer peer;
  int none = -1;
  int sent = fd;
  ASSERT_TRUE(peer.Step('p', &sent));
  ASSERT_TRUE(Step('p', &fd));
  for (const char step : {'d', 'c'}) {
    EXPECT_TRUE(peer.Step(step, &none)) << step;
    EXPECT_TRUE(Step(step, &none)) << step;
  }
  std::memset(written, kSecond, kBytes);
  munmap(written, kBytes);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0) << "pins for reading do not stand in the way";
  for (const char step : {'d', 's', 'f', 'u'}) {
    EXPECT_TRUE(peer.Step(step, &none)) << step;
    EXPECT_TRUE(Step(step, &none)) << step;
  }
  EXPECT_EQ(peer.Leave(), 0);
  close(fd);
}

TEST_F(SharingTest, WhatTwoProcessesImportIsInMemoryOnce) {
  if (!SwitchImportsOn()) GTEST_SKIP() << "this driver does not import system memory";
  int fd = NewMemoryFile(kManyBytes);
  void* const written = mmap(nullptr, kManyBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::memset(written, kFirst, kManyBytes);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(written, kManyBytes, kReadOnly, &out), ZE_RESULT_SUCCESS);
  Peer peer;
  int sent = fd;
  EXPECT_TRUE(peer.Step('n', &sent));
  EXPECT_EQ(peer.Leave(), 0);
  Free(out);
  munmap(written, kManyBytes);
  close(fd);
}

using ForkTest = DriverTest;

// The exit code of a child that runs `body`; 99 when it hangs.
template <class Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, [](int) { _exit(99); });
    alarm(20);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A real driver allows no fork with a live context; here a child may clean up.
TEST_F(ForkTest, AChildThatDestroysWhatItInheritedDoesNotHang) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  const std::vector<ze_event_handle_t> events = NewEvents(1);
  const ze_command_list_handle_t list = NewWaitingList(events[0]);
  const ze_fence_handle_t fence = NewFence();
  uint8_t* const memory = Device(4096);
  memory[0] = 1;
  ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);  // in flight while the child is made
  const int code = InChild([&] {
    if (zeFenceHostSynchronize(fence, kForever) != ZE_RESULT_ERROR_INVALID_NULL_HANDLE) return 1;
    if (zeFenceDestroy(fence) != ZE_RESULT_SUCCESS) return 2;
    if (zeCommandListDestroy(list) != ZE_RESULT_SUCCESS) return 3;
    if (zeEventDestroy(events[0]) != ZE_RESULT_SUCCESS) return 4;
    if (zeCommandQueueDestroy(queue_) != ZE_RESULT_SUCCESS) return 5;
    memory[0] = 2;
    if (zeMemFree(context_, memory) != ZE_RESULT_SUCCESS) return 6;
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(memory[0], 1) << "the parent's memory is its own";
  ASSERT_EQ(zeEventHostSignal(events[0]), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
  Free(memory);
}

// Only a child has the parent's shared anonymous memory.
TEST_F(ForkTest, SharedAnonymousMemoryThatIsImportedIsTheChildsToo) {
  if (IsSoftwareNpu()) SetSwitches({{"NPUBANK_NPU_IMPORT", "1"}});
  if (!HasExtension("ZE_extension_external_memmap_sysmem"))
    GTEST_SKIP() << "this driver does not import system memory";
  void* const shared =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint8_t* const device = Device(kBytes);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(shared, kBytes, 0, &out), ZE_RESULT_SUCCESS);
  std::memset(device, kFirst, kBytes);
  ASSERT_EQ(Copy(out, device, kBytes), ZE_RESULT_SUCCESS);
  EXPECT_EQ(InChild([&] {
              if (!AllBytesAre(static_cast<uint8_t*>(shared), kFirst)) return 1;
              std::memset(shared, kSecond, kBytes);
              return 0;
            }),
            0);
  ASSERT_EQ(Copy(device, out, kBytes), ZE_RESULT_SUCCESS);
  EXPECT_TRUE(AllBytesAre(device, kSecond));
  Free(out);
  Free(device);
  munmap(shared, kBytes);
}

TEST_F(ForkTest, HiddenMemoryFreedInAChildIsStillTheParents) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  uint8_t* const hidden = Device(4096);
  uint8_t* const host = Host(4096);
  std::memset(host, 7, 4096);
  ASSERT_EQ(Copy(hidden, host, 4096), ZE_RESULT_SUCCESS);
  EXPECT_EQ(InChild([&] { return zeMemFree(context_, hidden) == ZE_RESULT_SUCCESS ? 0 : 1; }), 0);
  std::memset(host, 0, 4096);
  ASSERT_EQ(Copy(host, hidden, 4096), ZE_RESULT_SUCCESS);
  EXPECT_EQ(host[4095], 7);
  Free(hidden);
  Free(host);
}

TEST_F(ForkTest, NoRoomForAThreadIsOutOfHostMemory) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  const ze_command_queue_desc_t desc = {
      ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 0, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
      ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  pthread_attr_t usual;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  pthread_attr_t huge = usual;
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 46), 0);  // no system has room for it
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ze_command_queue_handle_t queue = nullptr;
  const ze_result_t result = zeCommandQueueCreate(context_, device_, &desc, &queue);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(result, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  ASSERT_EQ(zeCommandQueueCreate(context_, device_, &desc, &queue), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(queue), ZE_RESULT_SUCCESS);
}

}  // namespace
}  // namespace npubank
