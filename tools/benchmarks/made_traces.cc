// The traces that are made, not read.
#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "npubank/tools/benchmarks/allocation_trace.h"

namespace npubank {
namespace {

// Writes a trace down while it is made up.
class TraceMaker {
 public:
  explicit TraceMaker(uint32_t seed) : random_(seed) {}

  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  uint64_t Allocate(uint64_t bytes) {
    trace_.steps.push_back({.allocate = true, .id = next_, .bytes = bytes});
    live_[next_] = bytes;
    live_bytes_ += bytes;
    trace_.peak_live_bytes = std::max(trace_.peak_live_bytes, live_bytes_);
    return next_++;
  }
  void Free(uint64_t id) {
    trace_.steps.push_back({.allocate = false, .id = id, .bytes = live_.at(id)});
    live_bytes_ -= live_.at(id);
    live_.erase(id);
  }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    std::shuffle(items.begin(), items.end(), random_);
  }
  uint64_t live_bytes() const { return live_bytes_; }
  AllocationTrace Finish() {
    while (!live_.empty()) Free(live_.begin()->first);
    return std::move(trace_);
  }

 private:
  std::mt19937 random_;
  AllocationTrace trace_;
  std::map<uint64_t, uint64_t> live_;
  uint64_t next_ = 0;
  uint64_t live_bytes_ = 0;
};

struct Model {
  static constexpr uint64_t kGone = ~uint64_t{0};
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> ids;  // of each, kGone where it is not on the device
};

// Shaped as a transformer is, with dimensions that are multiples of 32 and some bytes more.
Model MakeModel(TraceMaker& maker, uint64_t most_hidden) {
  const uint64_t hidden = 32 * (3 + maker.Below(most_hidden / 32 - 2));
  const uint64_t inner = hidden * 2 + 32 * maker.Below(hidden / 16);
  const uint64_t cached = hidden / (1 + maker.Below(4));
  const uint64_t element = uint64_t{1} << maker.Below(3);
  const uint64_t layers = 4 + maker.Below(20);
  Model model;
  const auto add = [&](uint64_t bytes) { model.sizes.push_back(bytes + maker.Below(3) * 97); };
  add((1000 + maker.Below(16000)) * hidden * element);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    for (const uint64_t rows : {hidden, cached, cached, hidden, inner, inner, inner})
      add(rows * hidden * element);
    for (int norm = 0; norm < 2; ++norm) add(hidden * sizeof(float));
  }
  model.ids.assign(model.sizes.size(), Model::kGone);
  return model;
}

void Arrive(TraceMaker& maker, Model& model) {
  for (size_t i = 0; i < model.ids.size(); ++i)
    if (model.ids[i] == Model::kGone) model.ids[i] = maker.Allocate(model.sizes[i]);
}

// `percent` of its tensors stay.
void Leave(TraceMaker& maker, Model& model, uint64_t percent) {
  std::vector<uint64_t*> order;
  for (uint64_t& id : model.ids) order.push_back(&id);
  const uint64_t kind = maker.Below(3);
  if (kind == 1) std::reverse(order.begin(), order.end());
  if (kind == 2) maker.Shuffle(order);
  for (uint64_t* id : order) {
    if (*id == Model::kGone || maker.Below(100) < percent) continue;
    maker.Free(std::exchange(*id, Model::kGone));
  }
}

void Run(TraceMaker& maker, uint64_t most_bytes) {
  std::vector<uint64_t> activations;
  for (uint64_t left = maker.Below(12); left > 0; --left) {
    activations.push_back(maker.Allocate(64 + maker.Below(most_bytes)));
    if (maker.Below(3) > 0) continue;
    std::swap(activations[maker.Below(activations.size())], activations.back());
    maker.Free(activations.back());
    activations.pop_back();
  }
  for (const uint64_t id : activations) maker.Free(id);
}

}  // namespace

AllocationTrace AllocationTrace::ModelSwitches(uint32_t seed) {
  TraceMaker maker(seed);
  const uint64_t most_hidden = maker.Below(2) == 0 ? 640 : 2048;
  std::vector<Model> models;
  for (uint64_t count = 3 + maker.Below(4); count > 0; --count)
    models.push_back(MakeModel(maker, most_hidden));
  for (int turn = 0; turn < 60; ++turn) {
    Model& next = models[maker.Below(models.size())];
    for (Model& other : models)
      if (&other != &next && maker.Below(2) == 0) Leave(maker, other, maker.Below(3) == 0 ? 30 : 0);
    Arrive(maker, next);
    Run(maker, most_hidden << 12);
  }
  return maker.Finish();
}

AllocationTrace AllocationTrace::Adversarial(uint32_t seed) {
  TraceMaker maker(seed);
  const uint64_t most_live = (64 + maker.Below(448)) << 20;
  std::vector<uint64_t> live;
  for (int phase = 0; phase < 12; ++phase) {
    const uint64_t least = 10 + maker.Below(8);
    const uint64_t kinds = 3 + maker.Below(22 - least);
    while (true) {
      const uint64_t power = uint64_t{1} << (least + maker.Below(kinds));
      const uint64_t bytes = power + maker.Below(power);
      if (maker.live_bytes() + bytes > most_live) break;
      live.push_back(maker.Allocate(bytes));
    }
    maker.Shuffle(live);
    const uint64_t stay = live.size() * maker.Below(60) / 100;
    for (; live.size() > stay; live.pop_back()) maker.Free(live.back());
  }
  return maker.Finish();
}

}  // namespace npubank
