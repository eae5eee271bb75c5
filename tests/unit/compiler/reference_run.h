// ReferenceRun: runs a submodel with plain loops, in memory laid out as the blob says.
//
//   ReferenceRun run(blob);
//   std::vector<float> logits = run.Run({3, 1, 4}, 0);   // three tokens from position 0
//
// Weights, F32 or planes of I8 under F32 scales and minima, and inputs of floats are made up from their
// names, so two blobs of one model have the same. Memory that nothing has written is not a number: reading
// it shows in the logits. For tests of plans and of the graph; the software NPU has kernels of its own.
#ifndef NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_
#define NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

class ReferenceRun {
 public:
  explicit ReferenceRun(SubmodelBlob blob);

  // Tokens at `position` and after; no more than a chunk of them. Returns "logits", where there is
  // such an output.
  std::vector<float> Run(const std::vector<int32_t>& tokens, int32_t position);

  // An output after the last run, or a state.
  const std::vector<float>& value(const std::string& name) const { return values_.at(name); }

 private:
  void* Resolve(const Binding& binding, const TensorType& type);

  SubmodelBlob blob_;
  std::vector<std::byte> arena_;
  std::map<std::string, std::vector<float>> values_;  // outputs and states
  std::map<std::string, std::vector<int32_t>> inputs_;
  std::map<std::string, std::vector<float>> weights_;  // and inputs of floats, made up like them
};

// The outputs and states of one run of `graph` by name, every value in memory of its own: what any
// plan must come to.
std::map<std::string, std::vector<float>> RunApart(const Graph& graph,
                                                   const std::vector<int32_t>& tokens);

// The operations of `function` in another order that their values allow.
void Shuffle(Function& function, std::mt19937& random);

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_
