// Every order in which real sessions on the software NPU are loaded, run, paused, put to sleep,
// woken and dropped: up to three, of one model and of two.
//
// Breadth first: from every state that some order leads to, each step of each session is taken, by
// the shortest order that leads there. After it the driver's own counts, the source accounting and
// the audit are compared with a model of a few lines, and a run's logits with those of a session
// that had the device to itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/audit.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

constexpr int kSessions = 3;
constexpr int kModels = 2;
// Tokens, span and logits: what host and device talk through, a page each.
constexpr uint64_t kTalkBytes = 3 * 4096;
const std::string kSteps = "LRPSWD";  // load, run, pause, sleep, wake, drop

CheckpointShape SmallShape(uint64_t seed) {
  CheckpointShape shape = TinyShape();
  shape.layers = 1;
  shape.seed = seed;
  return shape;
}

// What one session has, as the model sees it.
struct Has {
  bool loaded = false;
  bool awake = false;  // its weights are leased
  bool arena = false;  // and all else that running needs
  bool cache = false;
  bool asleep = false;  // and not merely paused
  auto operator<=>(const Has&) const = default;
};

struct State {
  Has sessions[kSessions];
  bool resident[kModels] = {};  // the weights of each model
  auto operator<=>(const State&) const = default;
};

CheckpointShape Quantized(CheckpointShape shape) {
  shape.format = CheckpointFormat::kAwq;
  return shape;
}

struct Step {
  int session = 0;
  char what = 0;
};
using Order = std::vector<Step>;

class SessionOrdersTest : public NpuTest {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    for (int model = 0; model < kModels; ++model) {
      Compiled& compiled = compiled_.emplace_back(model == 0 ? SmallShape(1) : Quantized(SmallShape(2)));
      auto checkpoint = Checkpoint::Open(compiled.files.folder()).value();
      for (const int64_t chunk : {4, 1}) {
        CompileOptions options;
        options.name = chunk == 1 ? "kvcache" : "prefill";
        options.chunk = chunk;
        options.context = 16;
        // One model's weights are transformed as a whole, the other's have parts.
        options.weights = model == 0 ? WeightFormat::kF16 : WeightFormat::kPacked;
        compiled.blobs.push_back(Compile(*checkpoint, options).value());
      }
      const auto alone = Load(model);
      compiled.weight_bytes = Driver().live_bytes;
      compiled.logits = Run(*alone);
      compiled.arena_bytes = RoundedUp(alone->arena_bytes());
      compiled.cache_bytes = RoundedUp(alone->cache_bytes());
      ASSERT_EQ(Driver().live_bytes,
                compiled.weight_bytes + compiled.arena_bytes + compiled.cache_bytes + kTalkBytes);
    }
    ASSERT_NE(compiled_[0].logits, compiled_[1].logits);
  }

  static uint64_t RoundedUp(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  std::unique_ptr<Session> Load(int model) {
    const std::string folder = compiled_[model].files.folder();
    auto session = Session::Load(place_.npu, place_.bank, compiled_[model].blobs,
                                 Checkpoint::Open(folder).value()->index(), {});
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  static std::vector<float> Run(Session& session) {
    session.Rewind();
    const auto logits = session.Feed({1, 5, 9, 2, 7});
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  }

  static bool MeansSomething(const State& state, const Step& step) {
    return state.sessions[step.session].loaded != (step.what == 'L');
  }

  void Take(const Step& step, std::unique_ptr<Session>* sessions) {
    std::unique_ptr<Session>& session = sessions[step.session];
    const int model = models_[step.session];
    switch (step.what) {
      case 'L':
        session = Load(model);
        return;
      case 'R':
        ASSERT_EQ(Run(*session), compiled_[model].logits);
        return;
      case 'P':
        session->Pause();
        return;
      case 'S':
        ASSERT_TRUE(session->Sleep().ok());
        return;
      case 'W':
        ASSERT_TRUE(session->Wake().ok());
        return;
      default:
        session.reset();
    }
  }

  State After(State state, const Step& step) const {
    Has& session = state.sessions[step.session];
    const int model = models_[step.session];
    switch (step.what) {
      case 'R':
        session.arena = session.cache = true;
        [[fallthrough]];
      case 'L':
      case 'W':
        session.loaded = session.awake = state.resident[model] = true;
        session.asleep = false;
        return state;
      case 'P':
        session.awake = session.arena = false;
        return state;
      case 'S':
        session = {.loaded = true, .asleep = true};
        state.resident[model] =
            AnySession(state, model, [](const Has& has) { return !has.asleep; });
        return state;
      default:
        session = Has();
        state.resident[model] &= AnySession(state, model, [](const Has&) { return true; });
        return state;
    }
  }

  template <typename Predicate>
  bool AnySession(const State& state, int model, Predicate predicate) const {
    bool any = false;
    for (int i = 0; i < Sessions(); ++i)
      any |= models_[i] == model && state.sessions[i].loaded && predicate(state.sessions[i]);
    return any;
  }

  void Check(const State& state) {
    uint64_t weights = 0;
    uint64_t other = 0;
    uint64_t running = 0;
    for (int model = 0; model < kModels; ++model)
      weights += state.resident[model] ? compiled_[model].weight_bytes : 0;
    for (int i = 0; i < Sessions(); ++i) {
      const Compiled& compiled = compiled_[models_[i]];
      other += state.sessions[i].arena ? compiled.arena_bytes : 0;
      other += state.sessions[i].cache ? compiled.cache_bytes : 0;
      running += state.sessions[i].arena ? 1 : 0;
    }
    ASSERT_EQ(Driver().live_bytes, weights + other + running * kTalkBytes);
    ASSERT_EQ(Driver().live_queues, running);
    ASSERT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    const AuditReport audit = place_.bank->Audit(other);
    ASSERT_TRUE(audit.clean()) << audit.ToString();
  }

  // From nothing: the order, checked after its last step.
  void Replay(const Order& order, const State& expected) {
    std::unique_ptr<Session> sessions[kSessions];
    std::string so_far;
    for (const Step& step : order) {
      absl::StrAppend(&so_far, step.session, std::string(1, step.what), " ");
      Take(step, sessions);
      ASSERT_FALSE(HasFailure()) << "in " << so_far;
    }
    Check(expected);
    ASSERT_FALSE(HasFailure()) << "after " << so_far;
  }

  void Explore(const std::vector<int>& models) {
    models_ = models;
    std::vector<std::pair<State, Order>> found = {{State(), {}}};
    std::set<State> known = {State()};
    size_t steps = 0;
    for (size_t at = 0; at < found.size(); ++at) {
      for (int session = 0; session < Sessions(); ++session) {
        for (const char what : kSteps) {
          const auto [state, order] = found[at];
          const Step step = {session, what};
          if (!MeansSomething(state, step)) continue;
          Order longer = order;
          longer.push_back(step);
          const State next = After(state, step);
          ASSERT_NO_FATAL_FAILURE(Replay(longer, next));
          ++steps;
          if (known.insert(next).second) found.emplace_back(next, std::move(longer));
        }
      }
    }
    std::printf("%zu states, %zu steps\n", found.size(), steps);
  }

  struct Compiled {
    explicit Compiled(const CheckpointShape& shape) : files(shape) {}
    TestModel files;
    std::vector<std::string> blobs;
    std::vector<float> logits;
    uint64_t weight_bytes = 0;
    uint64_t arena_bytes = 0;
    uint64_t cache_bytes = 0;
  };
  int Sessions() const { return static_cast<int>(models_.size()); }

  std::deque<Compiled> compiled_;
  std::vector<int> models_;
};

// Two of one model and one of another; those with fewer sessions are among them.
TEST_F(SessionOrdersTest, OfThreeOfTwoModels) { Explore({0, 0, 1}); }

}  // namespace
}  // namespace npubank
