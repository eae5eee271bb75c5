// Who gets nothing of npubankd: another user, and whoever shows it a file of a file system in user space,
// which may never answer. Both are real here, where the test may make them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/tests/integration/service/service_programs.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

class ServiceRightsTest : public ServiceProgramsTest {
 protected:
  // As somebody else, who may do what everybody may.
  static std::vector<std::string> AsNobody(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/sbin/runuser", "-u", "nobody", "--"});
    return command;
  }
};

TEST_F(ServiceRightsTest, AnotherUserIsKeptOutByTheFolderAndThenByTheDaemon) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may be another user";
  const std::string program = NPUBANK_BIN "/bank-inspect";
  if (RunProgram(AsNobody({program, "--help"})).exit_status != 0) {
    GTEST_SKIP() << "another user cannot run " << program;
  }
  StartDaemon();
  const auto inspect = [&] { return RunProgram(AsNobody({program, "--service", socket_})); };
  ProgramResult result = inspect();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.error, HasSubstr("Permission denied"));
  // With the doors open it is the daemon that asks who he is.
  for (const std::string& open : {folder_.path(), folder_.File("service"), socket_}) {
    ASSERT_EQ(chmod(open.c_str(), 0777), 0) << open;
  }
  result = inspect();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.error, HasSubstr("serves user 0"));
  EXPECT_EQ(RunProgram({program, "--service", socket_}).exit_status, 0) << "its own user is served";
}

// A file system of one file, which can be opened and after that does not answer any more.
class SilentFileSystem {
 public:
  // Not mounted where this user or this machine has no such thing: then error() says why.
  explicit SilentFileSystem(const std::string& folder) : folder_(folder) {
    mkdir(folder.c_str(), 0700);
    device_ = FileDescriptor::Open("/dev/fuse", O_RDWR);
    if (!device_.is_open()) {
      error_ = absl::StrCat("/dev/fuse: ", std::strerror(errno));
      return;
    }
    const std::string options =
        absl::StrCat("fd=", device_.get(), ",rootmode=40000,user_id=0,group_id=0");
    if (mount("silent", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
      error_ = absl::StrCat("mounting: ", std::strerror(errno));
      return;
    }
    server_ = std::thread([this] { Serve(); });
  }
  ~SilentFileSystem() {
    if (!server_.joinable()) return;
    umount2(folder_.c_str(), MNT_DETACH);
    file = FileDescriptor();  // with the last file the server reads its end
    server_.join();
  }

  const std::string& error() const { return error_; }
  void Open() { file = FileDescriptor::Open(folder_ + "/weights", O_RDONLY); }

  FileDescriptor file;

 private:
  template <typename Answer>
  void Say(uint64_t request, const Answer& answer) const {
    struct {
      fuse_out_header header;
      Answer body;
    } message = {};
    message.header.len = sizeof(fuse_out_header) + sizeof(Answer);
    message.header.unique = request;
    message.body = answer;
    EXPECT_EQ(write(device_.get(), &message, message.header.len), message.header.len);
  }
  static fuse_attr FileFacts() {
    fuse_attr facts = {};
    facts.ino = 2;
    facts.size = 1 << 20;
    facts.mode = S_IFREG | 0444;
    facts.nlink = 1;
    return facts;
  }
  void Serve() const {
    alignas(fuse_in_header) char bytes[FUSE_MIN_READ_BUFFER + 4096];
    while (read(device_.get(), bytes, sizeof(bytes)) > 0) {
      fuse_in_header request = {};
      std::memcpy(&request, bytes, sizeof(request));
      switch (request.opcode) {
        case FUSE_INIT: {
          fuse_init_out answer = {};
          answer.major = FUSE_KERNEL_VERSION;
          answer.minor = 31;
          answer.max_write = 4096;
          Say(request.unique, answer);
          break;
        }
        case FUSE_LOOKUP: {
          fuse_entry_out answer = {};
          answer.nodeid = 2;
          answer.attr = FileFacts();
          Say(request.unique, answer);
          break;
        }
        case FUSE_OPEN: {
          fuse_open_out answer = {};  // its last field has another name in each kernel's header
          answer.fh = 1;
          Say(request.unique, answer);
          break;
        }
        case FUSE_FLUSH: {
          const fuse_out_header done = {sizeof(fuse_out_header), -ENOSYS, request.unique};
          EXPECT_EQ(write(device_.get(), &done, sizeof(done)), sizeof(done));
          break;
        }
        default:  // what size it has, what is in it: he keeps whoever asks waiting
          break;
      }
    }
  }

  const std::string folder_;
  FileDescriptor device_;
  std::string error_;
  std::thread server_;
};

TEST_F(ServiceRightsTest, AFileThatNeverAnswersIsRefusedUntouchedAndKeepsNobodyWaiting) {
  SilentFileSystem silent(folder_.File("silent"));
  if (!silent.error().empty()) GTEST_SKIP() << "no file system in user space: " << silent.error();
  silent.Open();
  ASSERT_TRUE(silent.file.is_open()) << std::strerror(errno);
  StartDaemon();
  auto channel = service::Channel::Connect(socket_).value();
  ASSERT_TRUE(channel.Send(Encode(service::Hello{.program = "test"})).ok());
  ASSERT_TRUE(channel.Receive().ok());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(
      channel.Send(Encode(service::OpenSources{.names = {"weights"}}), {silent.file.get()}).ok());
  const auto packet = channel.Receive();
  ASSERT_TRUE(packet.ok()) << packet.status();
  const auto answer = service::Decode(packet->bytes);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto* failed = std::get_if<service::Failed>(&*answer);
  ASSERT_NE(failed, nullptr) << NameOf(*answer);
  EXPECT_THAT(failed->status.message(), HasSubstr("file system in user space"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << "it does not hang";
}

}  // namespace
}  // namespace npubank
