// A daemon dies and another one comes: what its clients have stays theirs, and the new daemon knows of it as
// soon as it is there, without anybody loading anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/tests/unit/service/restart_fixture.h"

namespace npubank::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ServiceRestartTest, WhoHasItLeasesItOfTheNextDaemonWithoutAskingForAnything) {
  TestProcess process(Connect());
  auto model = process.Load(weights_);
  for (int round = 0; round < 3; ++round) {
    Restart();
    ASSERT_TRUE(Eventually([&] { return LeasedSegments() == 1; }));
    EXPECT_EQ(daemon_->Totals().evaluations, 0u);
    EXPECT_EQ(daemon_->Snapshot().owners.size(), 1u);
    EXPECT_EQ(daemon_->Trim(), 0u) << "somebody has it";
    ExpectBytes(model, weights_);
  }
  EXPECT_THAT(process.client->notices(), IsEmpty());
  // And so it is given back to the one who counts it.
  model = {};
  EXPECT_TRUE(Eventually([&] { return LeasedSegments() == 0; }));
  EXPECT_THAT(daemon_->Snapshot().owners, IsEmpty());
}

TEST_F(ServiceRestartTest, TheNextDaemonDoesNotGiveAwayTheRoomOfWhatAClientHas) {
  TestProcess process(Connect());
  auto model = process.Load(weights_);
  Restart(/*budget=*/memory_->Usage().held_bytes);
  ASSERT_TRUE(Eventually([&] { return LeasedSegments() == 1; }));
  {
    TestProcess second(Connect());
    ExpectBytes(second.Load(others_), others_);
    EXPECT_EQ(second.bank->Totals().service_hits, 0u);
    EXPECT_THAT(second.client->notices(), ElementsAre(HasSubstr("budget of")));
  }
  model = {};
  ASSERT_TRUE(Eventually([&] { return LeasedSegments() == 0; }));
  TestProcess third(Connect());
  ExpectBytes(third.Load(others_), others_);
  EXPECT_EQ(third.bank->Totals().service_hits, others_.size()) << "now there is room";
}

TEST_F(ServiceRestartTest, WhatTheNextDaemonHasNotIsNotMadeAndNobodyLosesAByte) {
  TestProcess process(Connect());
  const auto model = process.Load(weights_);
  manager_.files.clear();
  Restart();
  ASSERT_TRUE(process.client->GetState().ok()) << "it has connected";
  EXPECT_EQ(LeasedSegments(), 0u);
  EXPECT_EQ(daemon_->Totals().evaluations, 0u);
  EXPECT_EQ(daemon_->Totals().unique_tensors, 0u);
  ExpectBytes(model, weights_);
  EXPECT_THAT(process.client->notices(), IsEmpty());
}

TEST_F(ServiceRestartTest, OtherMemoryOfTheSameTensorsIsNotLeasedBesideOnesOwn) {
  TestProcess process(Connect());
  const auto model = process.Load(weights_);
  Kill();
  manager_.files.clear();
  Prepare();
  server_ = Server::Start(FileDescriptor(), daemon_, memory_, {.kept = kept_}).value();
  TestProcess second(NewClient());
  const auto made_again = second.Load(weights_);
  EXPECT_EQ(second.bank->Totals().service_hits, weights_.size());
  const auto before = std::move(server_);
  Open();
  ASSERT_TRUE(process.client->GetState().ok()) << "it has connected";
  EXPECT_TRUE(Eventually([&] { return LeasedSegments() == 0; }));
  ExpectBytes(model, weights_);
  ExpectBytes(made_again, weights_);
}

TEST_F(ServiceRestartTest, WhoHasNothingOfItDoesNotLookForTheNextOne) {
  TestProcess process(Connect());
  { const auto model = process.Load(weights_); }
  Restart();
  TestProcess witness(Connect());
  const auto model = witness.Load(weights_);
  Restart();
  ASSERT_TRUE(Eventually([&] { return LeasedSegments() == 1; })) << "the witness is back";
  EXPECT_EQ(server_->Describe().clients.size(), 1u);
  ExpectBytes(process.Load(weights_), weights_);
  EXPECT_EQ(server_->Describe().clients.size(), 2u) << "by its next load, as before";
}

TEST_F(ServiceRestartTest, AClientEndsAtOnceAlsoWhereNoDaemonComesBack) {
  auto process = std::make_unique<TestProcess>(Connect());
  auto model = process->Load(weights_);
  Kill();
  const auto start = std::chrono::steady_clock::now();
  model = {};
  process.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  Prepare();
}

TEST_F(ServiceRestartTest, ADaemonThatDoesNotFitIsSaidAndTheNextOneIsUsed) {
  TestProcess process(Connect());
  const auto model = process.Load(weights_);
  Kill();
  {
    // Who greets with another protocol.
    const auto other = ServiceSocket::Listen(path_).value();
    const FileDescriptor listener = other->TakeListener();
    Channel channel(FileDescriptor(accept(listener.get(), nullptr, nullptr)));
    ASSERT_TRUE(channel.Receive().ok());
    ASSERT_TRUE(channel.Send(Encode(Hello{.protocol = 77, .program = "other"})).ok());
    EXPECT_TRUE(Eventually([&] { return !process.client->notices().empty(); }));
  }
  EXPECT_THAT(process.client->notices(), ElementsAre(HasSubstr("protocol 77")));
  Prepare();
  Open();
  EXPECT_TRUE(Eventually([&] { return LeasedSegments() == 1; }));
  ExpectBytes(model, weights_);
}

}  // namespace
}  // namespace npubank::service
