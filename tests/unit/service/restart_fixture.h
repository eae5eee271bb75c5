// ServiceRestartTest: a daemon at a path, whose service manager keeps what was handed out, and the daemon after
// it.
//
//   TestProcess process(Connect());
//   const auto model = process.Load(weights_);
//   Restart();                        // or Kill(); Prepare(); Open();
#ifndef NPUBANK_TESTS_UNIT_SERVICE_RESTART_FIXTURE_H_
#define NPUBANK_TESTS_UNIT_SERVICE_RESTART_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "npubank/bank/service/daemon/kept_segments.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/service/service_fixture.h"
#include "npubank/tests/unit/service/test_manager.h"

namespace npubank::service {

class ServiceRestartTest : public ServiceTest {
 protected:
  void SetUp() override { Restart(); }
  void TearDown() override {
    ServiceTest::TearDown();
    daemon_.reset();
    memory_.reset();
    kept_.reset();
  }
  void Kill() {
    if (kept_ != nullptr) kept_->Rest();
    server_.reset();
    socket_.reset();
    daemon_.reset();
  }
  // Without a door: whoever wants in is brought in by NewClient.
  void Prepare(uint64_t budget = ~uint64_t{0}) {
    kept_ = std::make_shared<KeptSegments>(std::make_unique<TestStore>(manager_));
    memory_ = SharedMemory::Create({.gone = [kept = kept_](const Segment& of) {
                kept->Forget(of);
              }}).value();
    daemon_ = Bank::Create(memory_, {.budget_bytes = budget, .keep_unowned = true});
    kept_->TakeBack(manager_.HandOver(), *memory_, *daemon_);
  }
  void Open() {
    socket_ = ServiceSocket::Listen(path_).value();
    server_ = Server::Start(socket_->TakeListener(), daemon_, memory_, {.kept = kept_}).value();
  }
  void Restart(uint64_t budget = ~uint64_t{0}) {
    Kill();
    Prepare(budget);
    Open();
  }
  std::shared_ptr<BankClient> Connect() { return BankClient::Connect(path_).value(); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("private/socket");
  const TestWeights weights_{2};
  const TestWeights others_{2, /*variant=*/1};
  TestManager manager_;
  std::shared_ptr<KeptSegments> kept_;
  std::unique_ptr<ServiceSocket> socket_;
};

}  // namespace npubank::service

#endif  // NPUBANK_TESTS_UNIT_SERVICE_RESTART_FIXTURE_H_
