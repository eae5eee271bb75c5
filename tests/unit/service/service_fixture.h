// ServiceTest: a daemon within the test's own process, and clients of it, each with a bank and a device
// memory of its own, as processes have them; they differ from processes in their pid only.
#ifndef NPUBANK_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_
#define NPUBANK_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/bank/service/daemon/server.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/tests/support/importing_memory.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank::service {

struct TestProcess {
  std::shared_ptr<BankClient> client;
  std::shared_ptr<DeviceMemory> memory;
  std::shared_ptr<Bank> bank;

  explicit TestProcess(std::shared_ptr<BankClient> from,
                       std::shared_ptr<DeviceMemory> on = std::make_shared<ImportingMemory>())
      : client(std::move(from)), memory(std::move(on)) {
    bank = Bank::Create(memory, {.upstream = client});
  }

  // A submodel and its leases.
  struct Submodel {
    Owner owner;
    std::vector<Lease> leases;
  };
  Owner Register(const TestWeights& weights) {
    Owner owner = bank->AddOwner("submodel", {.index = weights.Index()});
    const std::vector<LazyTensor> tensors = weights.Submodel();
    for (size_t i = 0; i < tensors.size(); ++i)
      EXPECT_TRUE(bank->Register(owner, tensors[i], TestWeights::Name(i)).ok());
    return owner;
  }
  Submodel Load(const TestWeights& weights) {
    Submodel loaded{Register(weights), {}};
    absl::StatusOr<std::vector<Lease>> leases = bank->Load(loaded.owner);
    EXPECT_TRUE(leases.ok()) << leases.status();
    if (leases.ok()) loaded.leases = *std::move(leases);
    return loaded;
  }
};

inline void ExpectBytes(const TestProcess::Submodel& model, const TestWeights& weights) {
  ASSERT_EQ(model.leases.size(), weights.size());
  for (size_t i = 0; i < model.leases.size(); ++i) {
    const Lease& lease = model.leases[i];
    EXPECT_EQ(HostBytesAt(lease.address(), lease.type().bytes()), weights.Expected(i)) << i;
  }
}

// The file that each tensor lies in, as the system numbers it.
inline std::vector<uint64_t> Inodes(const TestProcess::Submodel& model) {
  std::vector<uint64_t> inodes;
  for (const Lease& lease : model.leases) {
    struct stat facts = {};
    EXPECT_NE(lease.file(), nullptr);
    if (lease.file() != nullptr && fstat(lease.file()->descriptor, &facts) != 0) ADD_FAILURE();
    inodes.push_back(facts.st_ino);
  }
  return inodes;
}

// Until `holds`, or for as long as a test may wait for another thread.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { StartDaemon({.keep_unowned = true}); }
  void TearDown() override {
    server_.reset();
    if (daemon_ == nullptr) return;
    EXPECT_TRUE(daemon_->Audit().clean()) << daemon_->Audit().ToString();
    daemon_->Trim();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u) << "something is still leased, or owned";
  }

  void StartDaemon(const BankOptions& options) {
    server_.reset();
    memory_ = SharedMemory::Create({}).value();
    daemon_ = Bank::Create(memory_, options);
    server_ = Server::Start(FileDescriptor(), daemon_, memory_, {}).value();
  }
  // The other end of a connection to the daemon.
  Channel NewChannel() {
    auto [ours, theirs] = Channel::Pair().value();
    EXPECT_TRUE(server_->Add(std::move(ours)).ok());
    return std::move(theirs);
  }
  std::shared_ptr<BankClient> NewClient() {
    auto client = BankClient::Over(NewChannel());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  uint64_t LeasedSegments() {
    uint64_t leased = 0;
    for (const ClientState& client : server_->Describe().clients) leased += client.leased_segments;
    return leased;
  }

  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<Bank> daemon_;
  std::unique_ptr<Server> server_;
};

}  // namespace npubank::service

#endif  // NPUBANK_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_
