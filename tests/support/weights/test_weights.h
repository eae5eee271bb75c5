// TestWeights: a small checkpoint file and the tensors that submodels make of it.
//
//   TestWeights weights(4);                              // a file with four layers
//   std::vector<LazyTensor> prefill = weights.Submodel();  // opens the file, as a loader does
//   std::vector<LazyTensor> kvcache = weights.Submodel();  // the same uids, other recipes
//   weights.Expected(0);                                  // the bytes of tensor 0
//
// Per layer two tensors: the F32 matrix permuted and converted to F16, and its first row as it is.
// Both stand on the same stored constant, as the parts of a fused projection do.
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_TEST_WEIGHTS_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_TEST_WEIGHTS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {

class TestWeights {
 public:
  static constexpr int kRows = 24;
  static constexpr int kColumns = 40;
  static constexpr int kTensorsPerLayer = 2;

  // `variant` changes the values of the last layer only: a fine-tune.
  explicit TestWeights(int layers, int variant = 0);
  // The file again, with values that do not fit what was registered.
  void Rewrite();

  const std::string& path() const { return path_; }
  std::vector<LazyTensor> Submodel() const;
  // The stored tensors, "layer0" and so on; the file is closed.
  std::shared_ptr<const SourceIndex> Index() const;
  static std::string Name(size_t tensor);
  std::vector<std::byte> Expected(size_t tensor) const;
  // The sum of the tensors' bytes.
  uint64_t Bytes() const;
  size_t size() const { return static_cast<size_t>(layers_) * kTensorsPerLayer; }

 private:
  void WriteFile();
  float Value(int layer, int row, int column) const;

  int layers_;
  int variant_;
  TemporaryFolder folder_;
  std::string path_;
};

// Tensors over a source that is given, one F32 vector of `elements` each, one after the other.
std::vector<LazyTensor> VectorsOver(const std::shared_ptr<Source>& source, int64_t elements);

// `count` float values, each different, as bytes.
std::vector<std::byte> CountingFloats(size_t count, float first = 1);

// What the device holds at an address that HostMemory gave out.
std::vector<std::byte> HostBytesAt(const void* address, size_t bytes);

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_TEST_WEIGHTS_H_
