#include "npubank/lazy_tensor/formats/model/rope.h"

#include <cmath>
#include <numbers>

namespace npubank {
namespace {

double Llama3(double frequency, const RopeScaling& scaling) {
  // How often the pair turns fully within the original context.
  const double turns = scaling.original_context * frequency / (2 * std::numbers::pi);
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double keep =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - keep) * frequency / scaling.factor + keep * frequency;
}

double Scale(double frequency, size_t pair, const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      return frequency;
    case RopeScaling::Kind::kLinear:
      return frequency / scaling.factor;
    case RopeScaling::Kind::kLlama3:
      return Llama3(frequency, scaling);
    case RopeScaling::Kind::kLongRope:
      return frequency / scaling.divisors[pair];
  }
  return frequency;
}

}  // namespace

std::vector<float> RopeFrequencies(int64_t head_dim, double theta, const RopeScaling& scaling) {
  std::vector<float> frequencies(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    frequencies[i] = static_cast<float>(Scale(std::pow(theta, exponent), i, scaling));
  }
  return frequencies;
}

}  // namespace npubank
