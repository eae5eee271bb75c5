// Problem: what must lie in one block of memory, and when.
//
//   Problem problem;
//   problem.buffers.push_back({.id = "q", .lower = 2, .upper = 6, .size = 4096});
//   problem.buffers.push_back({.id = "k", .lower = 3, .upper = 7, .size = 1024});
//   NPUBANK_ASSIGN_OR_RETURN(Plan plan, PlanMemory(problem, {}));    // planner.h
//   NPUBANK_RETURN_IF_ERROR(Validate(problem, plan.offsets));        // validator.h
//
// Time counts operations: a buffer written by operation 2 and read last by operation 5 lives in
// [2, 6). An operation's inputs and outputs are therefore alive together. Two buffers may overlap in
// memory only if they never live at the same time and are not a pair in `parallel`.
//
//      bytes ^
//            |      +-----k-----+          k may use the bytes of a dead buffer,
//            |   +------q----+  |          never those of q
//            +---+--+--------+--+---> operations
//                2  3        6  7
//
// A buffer may hold many values of a graph, one after the other or as views (lifetimes.h); `values`
// names them for reports and pictures and has no influence on the plan.
//
// Threads: plain data. Units: bytes.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_PROBLEM_H_
#define NPUBANK_COMPILER_STUB_PLANNER_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "npubank/compiler_stub/planner/bit_matrix.h"

namespace npubank {

struct Buffer {
  std::string id;
  int64_t lower = 0;       // first moment of its life
  int64_t upper = 0;       // the moment after its last: lower < upper
  uint64_t size = 0;       // 0 is allowed and never in the way
  uint64_t alignment = 1;  // a power of two; of the offset in the block
  std::string kind = {};  // colours pictures: "conv", "matmul", ...
  std::vector<std::string> values = {};
};

// Pairs of buffers that may be alive together when independent operations run side by side, although
// the order of operations keeps them apart. A bit for each pair of buffers, so memory grows with
// their square: CheckProblem refuses more than kMaxParallelBuffers.
//
//   problem.parallel = ParallelPairs(buffers);
//   problem.parallel.Add(2, 5);   // numbers of two of them
class ParallelPairs {
 public:
  ParallelPairs() = default;  // none, whatever the number of buffers
  explicit ParallelPairs(int buffers) : pairs_(buffers) {}

  void Add(int a, int b) {
    pairs_.Set(a, b);
    pairs_.Set(b, a);
  }
  // Every pair of which a number is `first` or more.
  void AddAllFrom(int first) {
    for (int a = 0; a < pairs_.size(); ++a) {
      pairs_.SetRange(a, a < first ? first : 0, pairs_.size());
    }
  }
  bool Contains(int a, int b) const { return pairs_.size() > 0 && pairs_.Get(a, b); }
  // All that are in a pair with `a`, ascending; `a` itself, which is in nobody's way, may be there.
  template <typename Visit>
  void ForEach(int a, Visit visit) const {
    if (pairs_.size() > 0) pairs_.ForEach(a, visit);
  }

  int buffers() const { return pairs_.size(); }  // 0: none has been added

 private:
  BitMatrix pairs_;
};

struct Problem {
  std::vector<Buffer> buffers;
  // The block must not be larger; without it the smallest block is searched for.
  std::optional<uint64_t> capacity;
  ParallelPairs parallel;
};

inline constexpr int64_t kMaxBuffers = 1 << 20;
inline constexpr int64_t kMaxParallelBuffers = 1 << 15;  // 128 MiB of pairs
inline constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;

// InvalidArgument naming the first buffer that is not as described above, or when the sizes
// together do not fit into 63 bits. Everything else in this room may be called with a problem that
// passed.
absl::Status CheckProblem(const Problem& problem);

// The bytes alive at the busiest moment: no plan can be smaller. Looks at lifetimes only (the bound
// of a parallel schedule is in antichain.h). Where `moment` is not null, it is the busiest one.
// O(n log n).
uint64_t LiveLowerBound(const Problem& problem, int64_t* moment = nullptr);

// What no reuse at all would take.
uint64_t SumOfSizes(const Problem& problem);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_PROBLEM_H_
