#include "npubank/tools/reports/service_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/bank/files/snapshot.h"

namespace npubank {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorSnapshot Tensor(uint64_t uid, const std::string& owner, uint64_t leases) {
  TensorSnapshot tensor;
  tensor.uid = Uid{uid};
  tensor.name = "layers.0.wq";
  tensor.type = "F16[4]";
  tensor.state = "resident";
  tensor.strategy = "shared";
  tensor.bytes = 8;
  tensor.device_bytes = 4096;
  tensor.leases = leases;
  if (!owner.empty()) tensor.owners = {owner};
  return tensor;
}

// Two clients: one that has what it wanted, one that waits.
service::State Sample() {
  BankSnapshot snapshot;
  snapshot.keeps_unowned = true;
  snapshot.tensors = {Tensor(1, "bank-run, pid 100: prefill", 1), Tensor(2, "", 0)};
  snapshot.owners = {"bank-run, pid 100: prefill"};
  service::State state;
  state.snapshot = EncodeSnapshot(snapshot);
  state.pid = 77;
  state.memory_bytes = 8192;
  state.budget = 1000000;
  state.budget_used = 8192;
  state.evaluations = 2;
  state.clients.push_back({.pid = 100,
                           .uid = 1000,
                           .program = "bank-run",
                           .sources = 1,
                           .owners = {"bank-run, pid 100: prefill"},
                           .leased_segments = 1,
                           .leased_bytes = 4096,
                           .loading = "",
                           .segments = {5}});
  state.segments = {{.number = 5,
                     .name = "layers.0.wq",
                     .bytes = 4096,
                     .memory_bytes = 8192,
                     .tensors = 1,
                     .kept = true}};
  state.clients.push_back({.pid = 101,
                           .uid = 1000,
                           .program = "bad \xff\n",
                           .sources = 0,
                           .owners = {},
                           .leased_segments = 0,
                           .leased_bytes = 0,
                           .loading = "room for layers.1.wq",
                           .segments = {}});
  return state;
}

bool Everybody(uint32_t) { return true; }

TEST(ServiceText, TheTableShowsTheDaemonItsClientsAndWhatTheyWaitForAndTheTensors) {
  const std::string text = ServiceAsText(Sample(), "table", "").value();
  EXPECT_THAT(text, HasSubstr("npubankd, pid 77: 2 clients, 8192 bytes of shared memory; "
                              "budget 1000000, used 8192\n"
                              "evaluations 2, transformations 0, cache hits 0, waits 0, "
                              "evictions 0\n"));
  EXPECT_THAT(text, HasSubstr("pid   uid  program"));
  EXPECT_THAT(text, HasSubstr("room for layers.1.wq"));
  EXPECT_THAT(text, HasSubstr("bad \\377\\n"));
  EXPECT_THAT(text, HasSubstr("0000000000000001"));
  EXPECT_THAT(text, ContainsRegex("5 +4096 +8192 +1 +yes +100 +layers.0.wq"));
}

TEST(ServiceText, JsonHoldsAllOfItAndCsvTheTensors) {
  const auto json = nlohmann::json::parse(ServiceAsText(Sample(), "json", "").value());
  EXPECT_EQ(json["daemon"]["pid"], 77);
  EXPECT_EQ(json["clients"].size(), 2u);
  EXPECT_EQ(json["clients"][1]["waits_for"], "room for layers.1.wq");
  EXPECT_EQ(json["segments"][0]["kept"], true);
  EXPECT_EQ(json["clients"][0]["segments"][0], json["segments"][0]["number"]);
  EXPECT_EQ(json["bank"]["tensors"].size(), 2u);
  EXPECT_EQ(ServiceAsText(Sample(), "csv", "").value().rfind("uid,", 0), 0u);
}

TEST(ServiceText, WhatTheDaemonKeepsForTheNextClientIsNoLeak) {
  EXPECT_THAT(FindServiceLeaks(Sample(), Everybody).value(), IsEmpty());
}

TEST(ServiceText, WhatNoLivingProcessExplainsIsALeak) {
  service::State state = Sample();
  const auto gone = FindServiceLeaks(state, [](uint32_t pid) { return pid != 100; }).value();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].kind, "client");
  EXPECT_EQ(gone[0].what, "pid 100 is gone and has 1 segments, 4096 bytes");

  state.clients.erase(state.clients.begin());
  state.clients[0].loading = "";
  const auto left = FindServiceLeaks(state, Everybody).value();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].kind, "owner");
  EXPECT_EQ(left[0].what, "'bank-run, pid 100: prefill' is no client's");
  EXPECT_EQ(left[1].kind, "lease");

  state = Sample();
  state.audit = {"the device memory counts 1 byte more"};
  EXPECT_EQ(FindServiceLeaks(state, Everybody).value().at(0).kind, "audit");
}

TEST(ServiceText, ASnapshotThatIsNoneIsAnError) {
  service::State state = Sample();
  state.snapshot.resize(10);
  EXPECT_FALSE(ServiceAsText(state, "table", "").ok());
  EXPECT_FALSE(FindServiceLeaks(state, Everybody).ok());
}

TEST(ServiceText, AProcessIsAliveUntilItIsWaitedFor) {
  EXPECT_TRUE(IsAlive(static_cast<uint32_t>(getpid())));
  EXPECT_TRUE(IsAlive(1)) << "another user's";
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsAlive(static_cast<uint32_t>(child)));
  EXPECT_FALSE(IsAlive(0));
}

}  // namespace
}  // namespace npubank
