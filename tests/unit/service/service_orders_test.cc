// Two models, three processes and a daemon, in any order of what they can do: after each step everybody
// has the bytes he leases, no tensor was made twice, the books agree, and the daemon leases out what
// the processes have, and nothing else.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

constexpr int kProcesses = 3;
constexpr int kModels = 2;
constexpr int kSteps = 25;

// A model on a process: known, loaded, or neither.
struct Place {
  std::optional<TestProcess::Submodel> model;
  bool loaded() const { return model.has_value() && !model->leases.empty(); }
};

struct Process {
  std::unique_ptr<TestProcess> process;  // null: not there
  Place places[kModels];
};

class ServiceOrdersTest : public ServiceTest {
 protected:
  void Step(std::mt19937_64& random, std::vector<Process>& processes) {
    Process& one = processes[random() % kProcesses];
    const size_t number = random() % kModels;
    Place& place = one.places[number];
    const uint64_t what = random() % 100;
    if (one.process == nullptr) {
      one.process = std::make_unique<TestProcess>(NewClient());
    } else if (what < 45) {
      LoadOrWake(*one.process, place, models_[number]);
    } else if (what < 65) {
      if (place.model) Sleep(*one.process, place);
    } else if (what < 75) {
      place.model.reset();
    } else if (what < 85) {
      for (Place& of : one.places) of.model.reset();
      one.process.reset();
    } else if (what < 92) {
      one.process->bank->Evict(1);
    } else if (what < 97) {
      daemon_->Trim();
    } else {
      Restart();
    }
  }
  static void LoadOrWake(TestProcess& process, Place& place, const TestWeights& weights) {
    if (!place.model) {
      place.model = process.Load(weights);
      return;
    }
    auto leases = process.bank->Load(place.model->owner);
    ASSERT_TRUE(leases.ok()) << leases.status();
    place.model->leases = *std::move(leases);
  }
  static void Sleep(TestProcess& process, Place& place) {
    place.model->leases.clear();
    ASSERT_TRUE(process.bank->Sleep(place.model->owner).ok());
  }
  // The daemon's end: its clients go on with what they have, and cannot come back (they have no path).
  void Restart() { StartDaemon({.keep_unowned = true}); }

  void Check(const std::vector<Process>& processes) {
    for (const Process& one : processes) {
      if (one.process == nullptr) continue;
      EXPECT_TRUE(one.process->bank->Audit().clean()) << one.process->bank->Audit().ToString();
      for (int i = 0; i < kModels; ++i)
        if (one.places[i].loaded()) ExpectBytes(*one.places[i].model, models_[i]);
    }
    EXPECT_TRUE(daemon_->Audit().clean()) << daemon_->Audit().ToString();
    // A lease that was let go of is under way still.
    EXPECT_TRUE(Eventually([&] { return LeasedBytes() <= ImportedOf(processes); }))
        << LeasedBytes() << " bytes are leased, of " << ImportedOf(processes);
  }
  // Of the segments that are leased, each once for each client.
  uint64_t LeasedBytes() {
    uint64_t leased = 0;
    for (const ClientState& client : server_->Describe().clients) leased += client.leased_bytes;
    return leased;
  }
  // The most that the segments of what processes import may have: small tensors lie on pages of their own.
  static uint64_t ImportedOf(const std::vector<Process>& processes) {
    uint64_t pages = 0;
    for (const Process& one : processes) {
      if (one.process != nullptr && one.process->memory->Usage().imported_bytes > 0)
        pages += kModels * 2 * kLayers;
    }
    return pages * 4096;
  }

  static constexpr int kLayers = 2;
  const TestWeights models_[kModels] = {TestWeights(kLayers), TestWeights(kLayers, /*variant=*/1)};
};

TEST_F(ServiceOrdersTest, WhateverTheyDoInWhateverOrderEverybodyHasHisBytesAndNobodyMore) {
  const uint64_t seed = PrintedSeed();
  for (int round = 0; round < Repetitions(100); ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 random(seed + static_cast<uint64_t>(round));
    std::vector<Process> processes(kProcesses);
    for (int step = 0; step < kSteps && !HasFailure(); ++step) {
      Step(random, processes);
      Check(processes);
    }
    for (Process& one : processes) {
      for (Place& place : one.places) place.model.reset();
      one.process.reset();
    }
    ASSERT_TRUE(Eventually([&] { return server_->Describe().clients.empty(); }));
    EXPECT_TRUE(daemon_->Snapshot().owners.empty());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace npubank::service
