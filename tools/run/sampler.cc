#include "npubank/tools/run/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "npubank/runtime/session.h"

namespace npubank {

int32_t Sampler::Pick(absl::Span<const float> logits) {
  const int32_t best = Argmax(logits);
  if (options_.temperature <= 0 || !std::isfinite(logits[best])) return best;
  std::vector<std::pair<double, int32_t>> weights;  // and whose
  weights.reserve(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp((logits[i] - logits[best]) / options_.temperature);
    if (!(weight > 0)) continue;
    weights.emplace_back(weight, static_cast<int32_t>(i));
    total += weight;
  }
  if (options_.top_p < 1) {
    std::sort(weights.begin(), weights.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && kept < options_.top_p * total) kept += weights[count++].first;
    weights.resize(std::max<size_t>(count, 1));
    total = std::max(kept, weights[0].first);
  }
  // From the bits themselves: the library's distributions differ between systems.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (const auto& [weight, token] : weights) {
    left -= weight;
    if (left < 0) return token;
  }
  return weights.back().second;
}

}  // namespace npubank
