// A daemon and its client under a system whose calls fail, one after the other, once and for ever: the
// model is loaded all the same, by the service or without it, and nothing stays open.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/system/socket_faults.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/service/restart_fixture.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

class ServiceFaultTest : public ServiceTest {
 protected:
  // Whether the call was made at all.
  bool LoadWith(SocketFault::Call call, uint64_t nth, int error, bool forever,
                const TestWeights& weights) {
    StartDaemon({.keep_unowned = true});
    server_.reset();
    const TemporaryFolder folder;
    const std::string path = folder.File("private/socket");
    const auto socket = ServiceSocket::Listen(path).value();
    server_ = Server::Start(socket->TakeListener(), daemon_, memory_, {}).value();
    bool happened = false;
    {
      const SocketFault fault(call, nth, error, forever);
      absl::StatusOr<std::shared_ptr<BankClient>> client = BankClient::Connect(path);
      TestProcess process(client.ok() ? *client : nullptr);
      ExpectBytes(process.Load(weights), weights);
      happened = fault.happened();
      // What did not come from there was said.
      if (client.ok() && process.bank->Totals().service_hits == 0) {
        EXPECT_FALSE((*client)->notices().empty());
      }
    }
    TestProcess next(NewClient());
    ExpectBytes(next.Load(weights), weights);
    EXPECT_EQ(next.bank->Totals().service_hits, weights.size()) << "the next one is served";
    return happened;
  }
};

TEST_F(ServiceFaultTest, WhicheverCallFailsTheModelIsLoadedAndTheNextOneIsServed) {
  const TestWeights weights(2);
  const struct {
    SocketFault::Call call;
    const char* name;
    int error;
  } kCalls[] = {{SocketFault::kSend, "sendmsg", EIO},
                {SocketFault::kSend, "sendmsg", ETOOMANYREFS},
                {SocketFault::kReceive, "recvmsg", EIO},
                {SocketFault::kSocket, "socket", EMFILE},
                {SocketFault::kConnect, "connect", ECONNREFUSED},
                {SocketFault::kAccept, "accept4", EMFILE},
                {SocketFault::kGetOption, "getsockopt", EINVAL},
                {SocketFault::kSetOption, "setsockopt", ENOBUFS},
                {SocketFault::kAsk, "ioctl", EIO},
                {SocketFault::kMemoryFile, "memfd_create", EMFILE},
                {SocketFault::kControl, "fcntl", EMFILE},
                {SocketFault::kMap, "mmap", ENOMEM}};
  server_.reset();
  const size_t before = OpenFiles();
  for (const auto& [call, name, error] : kCalls) {
    for (const bool forever : {false, true}) {
      // It is accepted never, and greeted for as long as a client's patience lasts.
      if (call == SocketFault::kAccept && forever && Repetitions(1, /*quick=*/0) == 0) continue;
      uint64_t nth = 1;
      for (; nth < 100; ++nth) {
        SCOPED_TRACE(absl::StrCat(name, " ", nth, forever ? " for ever" : " once"));
        if (!LoadWith(call, nth, error, forever, weights)) break;
        if (HasFailure()) return;
      }
      EXPECT_GT(nth, 1u) << name << " was never called";
      EXPECT_LT(nth, 100u);
    }
  }
  server_.reset();
  daemon_->Trim();
  EXPECT_EQ(OpenFiles(), before);
}

class RestartFaultTest : public ServiceRestartTest {
 protected:
  // Whether the call was made at all.
  bool ReconnectWith(SocketFault::Call call, uint64_t nth, int error) {
    Kill();
    manager_.files.clear();
    Prepare();
    Open();
    TestProcess process(Connect());
    const auto model = process.Load(weights_);
    Kill();
    Prepare();
    bool happened = false;
    {
      const SocketFault fault(call, nth, error);
      Open();
      EXPECT_TRUE(Eventually([&] { return LeasedSegments() == 1; })) << "it is tried again";
      happened = fault.happened();
    }
    EXPECT_EQ(daemon_->Totals().evaluations, 0u);
    ExpectBytes(model, weights_);
    return happened;
  }
};

TEST_F(RestartFaultTest,
       WhicheverCallFailsOnTheWayToTheNextDaemonItIsLeasedAgainAndNobodyLosesAByte) {
  const struct {
    SocketFault::Call call;
    const char* name;
    int error;
  } kCalls[] = {{SocketFault::kSend, "sendmsg", EIO},
                {SocketFault::kReceive, "recvmsg", EIO},
                {SocketFault::kConnect, "connect", ECONNREFUSED},
                {SocketFault::kGetOption, "getsockopt", EINVAL},
                {SocketFault::kAsk, "ioctl", EIO},
                {SocketFault::kControl, "fcntl", EMFILE}};
  for (const auto& [call, name, error] : kCalls) {
    uint64_t nth = 1;
    for (; nth < 30; ++nth) {
      SCOPED_TRACE(absl::StrCat(name, " ", nth));
      if (!ReconnectWith(call, nth, error)) break;
      if (HasFailure()) return;
    }
    EXPECT_GT(nth, 1u) << name << " was never called";
    EXPECT_LT(nth, 30u);
  }
}

}  // namespace
}  // namespace npubank::service
