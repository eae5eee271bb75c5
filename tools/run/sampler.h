// Sampler: which token comes next, of a model's logits.
//
//   Sampler sampler({.temperature = 0.8, .top_p = 0.95, .seed = 7});
//   const int32_t next = sampler.Pick(logits);
//
// Temperature 0 takes the likeliest, the first of equals. Otherwise probabilities are those of logits / temperature;
// of the likeliest tokens as many as reach top_p together stay, one of them is drawn. The same seed draws the same
// from the same logits, on every machine. Threads: one at a time. Cost: O(n), and the sorting of what stays.
#ifndef NPUBANK_TOOLS_RUN_SAMPLER_H_
#define NPUBANK_TOOLS_RUN_SAMPLER_H_

#include <cstdint>
#include <random>

#include "absl/types/span.h"

namespace npubank {

struct SamplerOptions {
  double temperature = 0;  // 0 or more
  double top_p = 1;        // over 0, up to 1
  uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}

  // Of logits that are not empty; what is not a number is never drawn while there is one.
  int32_t Pick(absl::Span<const float> logits);

 private:
  const SamplerOptions options_;
  std::mt19937_64 random_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_SAMPLER_H_
