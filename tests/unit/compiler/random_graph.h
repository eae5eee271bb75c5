// RandomGraph: networks for tests that nobody would draw: every kind of operation, blocks that
// repeat, values that skip blocks, weights whole and in parts, outputs anywhere.
//
//   std::mt19937 random(seed);
//   Graph graph = RandomGraph(random);
//   SubmodelBlob blob = *CompileGraph(graph, options);   // chunk kRandomChunk, any context
//
// All fit together: CompileGraph must take each of them. Inputs: "tokens" I32[S], "span" I32[2], "x"
// F32[S,8].
#ifndef NPUBANK_TESTS_UNIT_COMPILER_RANDOM_GRAPH_H_
#define NPUBANK_TESTS_UNIT_COMPILER_RANDOM_GRAPH_H_

#include <cstdint>
#include <random>

#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

inline constexpr int64_t kRandomChunk = 4;
inline constexpr int64_t kRandomContext = 8;

Graph RandomGraph(std::mt19937& random);

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_COMPILER_RANDOM_GRAPH_H_
