// Repeats: blocks of a graph's operations that are equal in structure. A part of partition.h, which
// says when two blocks are equal.
#ifndef NPUBANK_COMPILER_STUB_PARTITION_REPEAT_H_
#define NPUBANK_COMPILER_STUB_PARTITION_REPEAT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

// What a value is to a block that takes it from outside, in the order of a function's parameters.
// To a block it is all one whether another made an activation or the session gave it.
enum class ParameterRole { kActivation, kState, kWeight };
ParameterRole RoleOf(const GraphValue& value);

// `count` equal blocks of `period` operations, one after the other from `begin`.
struct Repeat {
  size_t begin = 0;
  size_t period = 0;
  size_t count = 0;
  size_t end() const { return begin + period * count; }
  size_t saved() const { return period * (count - 1); }
};

class RepeatFinder {
 public:
  explicit RepeatFinder(const Graph& graph);

  // The best repeat inside the operations [begin, end), when there is one.
  std::optional<Repeat> Find(size_t begin, size_t end) const;

  // Numbers that are equal exactly for blocks that are equal.
  std::vector<uint64_t> Signature(size_t begin, size_t end) const;

  // The values that the operations [begin, end) take from outside, in the order of first use; a
  // value in a state's memory as its state.
  std::vector<uint32_t> Parameters(size_t begin, size_t end) const;

 private:
  // Operations [begin, begin + length) are each alike to the one `period` later.
  struct Run {
    size_t begin = 0;
    size_t length = 0;
    size_t period = 0;
    size_t saved() const { return length / period * period; }
  };

  uint64_t Look(const GraphOp& op);
  std::vector<Run> FindRuns(size_t begin, size_t end) const;
  bool IsRepetition(size_t begin, size_t period) const;
  std::optional<Repeat> LongestEqual(size_t begin, size_t period, size_t end) const;
  uint64_t ActivationBytes(const Repeat& repeat) const;

  const Graph& graph_;
  std::vector<size_t> maker_;    // by value: its operation; for others the number of operations
  std::vector<uint64_t> looks_;  // by operation: equal for equal kind, attributes and types
  std::map<std::string, uint64_t> known_looks_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PARTITION_REPEAT_H_
