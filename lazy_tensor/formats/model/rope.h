// Rope: how far each pair of a head's dimensions turns per position.
//
//   RopeScaling scaling{.kind = RopeScaling::Kind::kLinear, .factor = 4};
//   std::vector<float> radians = RopeFrequencies(/*head_dim=*/128, /*theta=*/10000, scaling);
//
// frequency[i] = theta^(-2i / head_dim) (Su et al., RoFormer, 2021), then scaled. "linear" divides
// every frequency by `factor` (position interpolation). "llama3" divides the slow ones, keeps the
// fast ones and blends in between, as in Meta's Llama 3.1 release: slow means a wavelength over
// original_context / low_freq_factor, fast one under original_context / high_freq_factor.
// "longrope" divides each frequency by a divisor of its own (Ding et al., LongRoPE, 2024).
// Computed in double, rounded once. Pure.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_ROPE_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_ROPE_H_

#include <cstdint>
#include <vector>

namespace npubank {

struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3, kLongRope };
  Kind kind = Kind::kNone;
  double factor = 1;
  // kLlama3 only.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
  // kLongRope only: one for each pair.
  std::vector<double> divisors = {};
};

// head_dim / 2 frequencies. Requires an even head_dim, theta > 0, factor > 0, and for kLlama3
// 0 < low_freq_factor < high_freq_factor; for kLongRope head_dim / 2 divisors > 0.
std::vector<float> RopeFrequencies(int64_t head_dim, double theta, const RopeScaling& scaling);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_ROPE_H_
