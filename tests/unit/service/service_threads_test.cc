// Eight clients at once, each of which loads, sleeps, wakes, lets go and comes back as it likes, while the
// daemon is looked at, trimmed and given other budgets: for a second, and for a minute in the full suite.
// What a race detector is to look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

constexpr int kClients = 8;
constexpr int kModels = 3;

class ServiceThreadsTest : public ServiceTest {
 protected:
  // One client, until it is told to stop.
  void Live(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::unique_ptr<TestProcess> process;
    std::optional<TestProcess::Submodel> model;
    const TestWeights* weights = nullptr;
    while (!stop_ && !HasFailure()) {
      const uint64_t what = random() % 8;
      if (process == nullptr) {
        process = std::make_unique<TestProcess>(NewClient());
      } else if (!model) {
        weights = &models_[random() % kModels];
        model = process->Load(*weights);
        ExpectBytes(*model, *weights);
      } else if (what < 3) {
        model->leases.clear();
        ASSERT_TRUE(process->bank->Sleep(model->owner).ok());
        auto leases = process->bank->Load(model->owner);
        ASSERT_TRUE(leases.ok()) << leases.status();
        model->leases = *std::move(leases);
        ExpectBytes(*model, *weights);
      } else if (what < 6) {
        model.reset();
      } else {
        model.reset();
        process.reset();
      }
      ++turns_;
    }
  }

  const TestWeights models_[kModels] = {TestWeights(3), TestWeights(3, 1), TestWeights(4)};
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> turns_ = 0;
};

TEST_F(ServiceThreadsTest, EightClientsAtOnceHaveTheirBytesAndLeaveNothing) {
  const uint64_t seed = PrintedSeed();
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < kClients; ++i) clients.emplace_back([this, i, seed] { Live(seed + i); });
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(Repetitions(/*all=*/60, /*quick=*/1));
  for (uint64_t turn = 0; std::chrono::steady_clock::now() < end; ++turn) {
    EXPECT_LE(server_->Describe().clients.size(), size_t{2 * kClients})
        << "some are on their way out";
    if (turn % 4 == 0) daemon_->Trim();
    (void)server_->SetBudget(turn % 2 == 0 ? 64 << 10 : uint64_t{1} << 30);
    std::this_thread::yield();
  }
  stop_ = true;
  for (std::thread& client : clients) client.join();
  std::printf("%llu turns\n", static_cast<unsigned long long>(turns_.load()));
  EXPECT_TRUE(Eventually([&] { return server_->Describe().clients.empty(); }));
  EXPECT_TRUE(daemon_->Snapshot().owners.empty());
}

}  // namespace
}  // namespace npubank::service
