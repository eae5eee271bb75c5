// Lifetimes: from a graph to a Problem: which values share one buffer because one is written over
// the other, and from when to when each buffer lives.
//
//   NPUBANK_ASSIGN_OR_RETURN(Lifetimes lifetimes, FindLifetimes(graph, LifetimeOptions()));
//   lifetimes.problem.buffers[lifetimes.buffer_of[v]];  // what value v lies in; planner.h places it
//
// Three ways for values to share a buffer, decided before anything is allocated:
//   views      the output of a reshape or slice lies inside its input, always.
//   fused add  r dies in t = r + s, and s, made by an operation P that can accumulate, is read by
//              that add alone (views between are fine): P adds its result to r's bytes, the add
//              vanishes, and r, s and t are one buffer. Needs every other reader of r to come
//              before P: a value needed later opts out.
//   in place   an operation writes its output over an input that dies there, if both are equally
//              large.
// Values that are read after the end (`kept`) are never written over, nor are external ones.
//
// In a parallel schedule "before" means: is an ancestor of. Then no sharing adds a dependency, and
// any topological order of the operations computes the same.
//
// Cost: linear in the graph for a serial schedule; quadratic in operations and buffers for a parallel
// one, in time and, a bit for each pair, in memory (seconds and 64 MiB for the largest it takes).
// Threads: pure. Errors: those of CheckGraph (graph.h); InvalidArgument for a parallel
// schedule of more than kMaxParallelOps operations (ancestors.h) or kMaxParallelBuffers buffers.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_LIFETIMES_H_
#define NPUBANK_COMPILER_STUB_PLANNER_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/planner/graph.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

enum class Schedule {
  kSerial,    // operations run one after the other, in the graph's order
  kParallel,  // operations without a path between them may run at the same time
};

struct LifetimeOptions {
  bool in_place = true;
  bool fused_add = true;
  Schedule schedule = Schedule::kSerial;
};

// `producer` adds its result to value `addend`; operation `add` does not run, its output is the
// sum.
struct FusedAdd {
  int add;
  int producer;
  int addend;
};

// Operation `op` writes outputs[0] over its input at `position`.
struct InPlace {
  int op;
  int position;
};

inline constexpr int kNoBuffer = -1;

struct Lifetimes {
  Problem problem;             // a buffer for each group of values that share one
  std::vector<int> buffer_of;  // per value; kNoBuffer for external values and their views
  std::vector<uint64_t> offset_in_buffer;  // per value; not 0 for slices only
  std::vector<FusedAdd> fused_adds;        // in the order of the adds
  std::vector<InPlace> in_place;           // in the order of the operations
  uint64_t sum_of_values = 0;  // no reuse at all: every planned value apart, views left out
};

// Past `limit` (null: there is none) fewer values share a buffer, and more buffers than need to are
// kept apart: a plan of what is returned is right, and may be larger.
absl::StatusOr<Lifetimes> FindLifetimes(const PlanGraph& graph, const LifetimeOptions& options,
                                        TimeLimit* limit = nullptr);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_LIFETIMES_H_
