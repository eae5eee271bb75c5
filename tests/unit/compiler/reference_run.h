// ReferenceRun: runs a submodel with plain loops, in memory laid out as the blob says.
//
//   ReferenceRun run(blob);
//   std::vector<float> logits = run.Run({3, 1, 4}, 0);   // three tokens from position 0
//
// Weights are F32 and made up from their names, so two blobs of one model have the same. Memory
// that nothing has written is not a number: reading it shows in the logits. For tests of plans and
// of the graph; the software NPU has kernels of its own.
#ifndef NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_
#define NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/submodel_blob.h"

namespace npubank {

class ReferenceRun {
 public:
  explicit ReferenceRun(SubmodelBlob blob);

  // Tokens at `position` and after; no more than a chunk of them.
  std::vector<float> Run(const std::vector<int32_t>& tokens, int32_t position);

 private:
  void* Resolve(const Binding& binding, const TensorType& type);

  SubmodelBlob blob_;
  std::vector<std::byte> arena_;
  std::map<std::string, std::vector<float>> values_;  // outputs and states
  std::map<std::string, std::vector<int32_t>> inputs_;
  std::map<std::string, std::vector<float>> weights_;
};

// The operations of `function` in another order that their values allow.
void Shuffle(Function& function, std::mt19937& random);

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_COMPILER_REFERENCE_RUN_H_
