// FakeModel: a model for benchmarks and tests of the compiler: a config, and tensors that are there
// in name and type only.
//
//   const FakeModel model(Llama1BConfig());
//   Compile(*model.Over(config), options);
#ifndef NPUBANK_TOOLS_BENCHMARKS_FAKE_MODEL_H_
#define NPUBANK_TOOLS_BENCHMARKS_FAKE_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

// Two query heads to a key head, an odd inner size, nothing a power of two that need not be.
ModelConfig SmallConfig(int64_t layers);

// Llama 3.2 1B and Llama 2 7B in sizes.
ModelConfig Llama1BConfig();
ModelConfig Llama7BConfig();

// The tensors that `config` asks for, over a source that says it is large and has no bytes: the
// compiler must not read any. Two models have different sources.
class FakeModel {
 public:
  explicit FakeModel(const ModelConfig& config, ElementType element = ElementType::kBF16);

  // As if the checkpoint stored it so.

  void Set(const std::string& name, ElementType element, std::vector<int64_t> dims);
  void Remove(const std::string& name) { tensors_.erase(name); }
  // One that is there.
  LazyTensor Tensor(const std::string& name) const;
  // As a checkpoint of `config`.
  std::shared_ptr<const Checkpoint> Over(const ModelConfig& config) const;

 private:
  std::shared_ptr<Source> source_;
  uint64_t end_ = 0;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_BENCHMARKS_FAKE_MODEL_H_
