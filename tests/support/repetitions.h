// How often a random suite repeats, and from which seed it starts.
//
//   const uint64_t seed = PrintedSeed();
//   for (int round = 0; round < Repetitions(1000); ++round) Try(seed + round);
//
// The quick suite runs a tenth of the repetitions, or as many as `quick` says; `tests/run full` (NPUBANK_FULL=1), all.
// A seed is new in each run and printed as NPUBANK_SEED=n: set that to see the same run again.
#ifndef NPUBANK_TESTS_SUPPORT_REPETITIONS_H_
#define NPUBANK_TESTS_SUPPORT_REPETITIONS_H_

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace npubank {

inline int Repetitions(int all, int quick) {
  const char* const full = std::getenv("NPUBANK_FULL");
  const bool runs_all = full != nullptr && std::strcmp(full, "1") == 0;
  return runs_all ? all : quick;
}
inline int Repetitions(int all) { return Repetitions(all, std::max(1, all / 10)); }

// Printed at once, so that a run that crashes has said it too.
inline uint64_t PrintedSeed() {
  const char* const given = std::getenv("NPUBANK_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : uint64_t{std::random_device{}()};
  std::printf("NPUBANK_SEED=%" PRIu64 "\n", seed);
  std::fflush(stdout);
  return seed;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_REPETITIONS_H_
