// One daemon and its clients: what is shared, what goes with whom, and what happens when somebody dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ServiceTest, TwoProcessesHaveTheSamePagesAndTheSecondMakesNothing) {
  const TestWeights weights(4);
  TestProcess first(NewClient());
  const auto of_first = first.Load(weights);
  ExpectBytes(of_first, weights);
  EXPECT_EQ(daemon_->Totals().evaluations, weights.size());
  TestProcess second(NewClient());
  const auto of_second = second.Load(weights);
  ExpectBytes(of_second, weights);
  EXPECT_EQ(Inodes(of_first), Inodes(of_second));
  EXPECT_EQ(daemon_->Totals().evaluations, weights.size()) << "the second found all of it";
  for (const TestProcess* process : {&first, &second}) {
    EXPECT_EQ(process->bank->Totals().service_hits, weights.size());
    EXPECT_EQ(process->bank->Totals().service_bytes, weights.Bytes());
    EXPECT_EQ(process->bank->Totals().transformations, 0u);
    EXPECT_EQ(process->memory->Usage().live_bytes, 0u) << "no memory of its own";
    const AuditReport audit = process->bank->Audit();
    EXPECT_TRUE(audit.clean()) << audit.ToString();
    EXPECT_EQ(audit.imported_bytes_upstream, weights.Bytes()) << "it says what is the daemon's";
    EXPECT_THAT(process->client->notices(), IsEmpty());
  }
}

TEST_F(ServiceTest, ASnapshotSaysWhereTheBytesCameFromAndTheDaemonWhoHasThem) {
  const TestWeights weights(1);
  TestProcess process(NewClient());
  const auto model = process.Load(weights);
  for (const TensorSnapshot& tensor : process.bank->Snapshot().tensors)
    EXPECT_EQ(tensor.origin, "service");
  const absl::StatusOr<State> state = process.client->GetState();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->clients.size(), 1u);
  EXPECT_EQ(state->clients[0].pid, static_cast<uint32_t>(getpid()));
  EXPECT_THAT(state->clients[0].owners, ElementsAre(HasSubstr("loading 'submodel' (")));
  EXPECT_GT(state->clients[0].leased_bytes, weights.Bytes());
  EXPECT_EQ(state->clients[0].sources, 1u);
  EXPECT_EQ(state->evaluations, weights.size());
  EXPECT_THAT(state->audit, IsEmpty());
  const auto snapshot = DecodeSnapshot(state->snapshot);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->tensors.size(), weights.size());
}

TEST_F(ServiceTest, WhatSleepsIsGivenBackAndComesBackWithoutBeingMadeAgain) {
  const TestWeights weights(3);
  TestProcess process(NewClient());
  auto model = process.Load(weights);
  EXPECT_GT(LeasedSegments(), 0u);
  model.leases.clear();
  ASSERT_TRUE(process.bank->Sleep(model.owner).ok());
  EXPECT_TRUE(Eventually([&] { return LeasedSegments() == 0; }));
  absl::StatusOr<std::vector<Lease>> woken = process.bank->Load(model.owner);
  ASSERT_TRUE(woken.ok()) << woken.status();
  model.leases = *std::move(woken);
  ExpectBytes(model, weights);
  EXPECT_EQ(daemon_->Totals().evaluations, weights.size());
}

TEST_F(ServiceTest, AClientThatGoesTakesItsOwnersAndLeasesAndNobodyElses) {
  const TestWeights weights(2);
  TestProcess stays(NewClient());
  const auto kept = stays.Load(weights);
  {
    TestProcess goes(NewClient());
    const auto model = goes.Load(weights);
    EXPECT_EQ(server_->Describe().clients.size(), 2u);
  }
  ASSERT_TRUE(Eventually([&] { return server_->Describe().clients.size() == 1; }));
  ExpectBytes(kept, weights);
  EXPECT_EQ(daemon_->Snapshot().owners.size(), 1u);
}

TEST_F(ServiceTest, WhatNobodyWantsAnyMoreWaitsForTheNextOne) {
  const TestWeights weights(2);
  { TestProcess(NewClient()).Load(weights); }
  ASSERT_TRUE(Eventually([&] { return server_->Describe().clients.empty(); }));
  TestProcess next(NewClient());
  ExpectBytes(next.Load(weights), weights);
  EXPECT_EQ(daemon_->Totals().evaluations, weights.size());
}

TEST_F(ServiceTest, EqualNamesAndShapesOfTwoModelsAreNotTakenForEachOther) {
  const TestWeights a(3);
  const TestWeights b(3, /*variant=*/1);
  TestProcess first(NewClient());
  TestProcess second(NewClient());
  TestProcess third(NewClient());
  ExpectBytes(first.Load(a), a);
  ExpectBytes(second.Load(b), b);
  ExpectBytes(third.Load(b), b);
  ExpectBytes(third.Load(a), a);
}

TEST_F(ServiceTest, HoweverManyAskAtOnceEachTensorIsMadeOnce) {
  constexpr int kProcesses = 8;
  const TestWeights weights(8);
  std::vector<std::unique_ptr<TestProcess>> processes;
  for (int i = 0; i < kProcesses; ++i)
    processes.push_back(std::make_unique<TestProcess>(NewClient()));
  std::vector<TestProcess::Submodel> models(kProcesses);
  std::vector<std::thread> threads;
  for (int i = 0; i < kProcesses; ++i)
    threads.emplace_back([&, i] { models[i] = processes[i]->Load(weights); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& model : models) ExpectBytes(model, weights);
  EXPECT_EQ(daemon_->Totals().evaluations, weights.size());
}

TEST_F(ServiceTest, ADeviceThatCannotImportDoesNotUseItAndSaysSo) {
  const TestWeights weights(1);
  TestProcess process(NewClient(), std::make_shared<HostMemory>());
  ExpectBytes(process.Load(weights), weights);
  EXPECT_EQ(process.bank->Totals().service_hits, 0u);
  EXPECT_THAT(process.client->notices(), ElementsAre(HasSubstr("cannot import")));
  EXPECT_EQ(daemon_->Totals().registrations, 0u) << "it was not even asked";
}

TEST_F(ServiceTest, WhatTheDaemonHasNoRoomForIsMadeHereAndThatIsSaid) {
  StartDaemon({.budget_bytes = 4096, .keep_unowned = true});
  const TestWeights weights(2);
  TestProcess process(NewClient());
  ExpectBytes(process.Load(weights), weights);
  EXPECT_EQ(process.bank->Totals().service_hits, 0u);
  EXPECT_THAT(process.client->notices(), ElementsAre(HasSubstr("budget of 4096")));
  ASSERT_TRUE(process.client->SetBudget(1 << 30).ok());
  TestProcess next(NewClient());
  next.Load(weights);
  EXPECT_EQ(next.bank->Totals().service_hits, weights.size());
}

TEST_F(ServiceTest, TheDaemonsEndTakesNothingFromWhoHasIt) {
  const TestWeights weights(2);
  const TestWeights others(2, /*variant=*/1);
  TestProcess process(NewClient());
  const auto model = process.Load(weights);
  server_.reset();
  daemon_->Trim();
  ExpectBytes(model, weights);
  ExpectBytes(process.Load(others), others);
  EXPECT_THAT(process.client->notices(), ElementsAre(HasSubstr("this process's own")));
}

TEST_F(ServiceTest, ARestartedDaemonIsFoundAgainByTheNextLoad) {
  TemporaryFolder folder;
  const std::string path = folder.File("private/socket");
  const TestWeights weights(2);
  const TestWeights others(2, /*variant=*/1);
  auto socket = ServiceSocket::Listen(path);
  ASSERT_TRUE(socket.ok()) << socket.status();
  server_ = Server::Start((*socket)->TakeListener(), daemon_, memory_, {}).value();
  auto client = BankClient::Connect(path);
  ASSERT_TRUE(client.ok()) << client.status();
  TestProcess process(*client);
  const auto model = process.Load(weights);
  server_.reset();
  socket->reset();
  socket = ServiceSocket::Listen(path);
  ASSERT_TRUE(socket.ok()) << socket.status();
  server_ = Server::Start((*socket)->TakeListener(), daemon_, memory_, {}).value();
  const auto more = process.Load(others);
  ExpectBytes(more, others);
  EXPECT_EQ(process.bank->Totals().service_hits, weights.size() + others.size());
  ExpectBytes(model, weights);
  EXPECT_THAT(process.client->notices(), IsEmpty());
}

TEST_F(ServiceTest, ALoadThatIsCancelledIsCancelledInTheDaemonToo) {
  const TestWeights weights(2);
  TestProcess process(NewClient());
  const Owner owner = process.Register(weights);
  const auto leases = process.bank->Load(
      owner, {.progress = {}, .cancelled = [asked = 0]() mutable { return ++asked > 2; }});
  EXPECT_TRUE(absl::IsCancelled(leases.status())) << leases.status();
  ExpectBytes(process.Load(weights), weights);
  EXPECT_EQ(process.bank->Totals().service_hits, weights.size()) << "the connection is as it was";
}

TEST_F(ServiceTest, MoreSegmentsThanOneMessageCarriesArriveAll) {
  // Each tensor is sealed into a segment of its own by asking for it before the next is loaded.
  const TestWeights weights(150);
  TestProcess first(NewClient());
  const Owner owner = first.bank->AddOwner("one by one", {.index = weights.Index()});
  const std::vector<LazyTensor> tensors = weights.Submodel();
  std::vector<Lease> leases;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto known = first.bank->Register(owner, tensors[i], TestWeights::Name(i));
    ASSERT_TRUE(known.ok());
    auto lease = first.bank->Get(known->uid);
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
  }
  ASSERT_GT(LeasedSegments(), Channel::kMostDescriptors);
  TestProcess second(NewClient());
  ExpectBytes(second.Load(weights), weights);
  EXPECT_EQ(second.bank->Totals().service_hits, weights.size());
}

}  // namespace
}  // namespace npubank::service
