// PlainLlama: a Llama of one GGUF file in plain loops, over weights made F32; nothing of the compiler or of a device.
//
//   PlainLlama model("model.gguf", Activations::kEightBits);
//   for (int32_t id : ids) std::vector<float> logits = model.Feed(id);
//
// kExact computes with F32 as it comes. kEightBits rounds where llama.cpp does: what a matrix of blocks is multiplied by to
// eight bits, in groups of 32 with a scale in F16 or, for K-quants, of 256 with a scale in F32; keys and values, and what
// they are multiplied by, to F16. Sums are in double, so that their order is nobody's.
#ifndef NPUBANK_TESTS_INTEGRATION_WEIGHTS_PLAIN_LLAMA_H_
#define NPUBANK_TESTS_INTEGRATION_WEIGHTS_PLAIN_LLAMA_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/formats/gguf.h"

namespace npubank {

enum class Activations { kExact, kEightBits };

class PlainLlama {
 public:
  // Fails the test when the file cannot be read.
  PlainLlama(const std::string& path, Activations activations);

  // The logits after `id`, which follows what was fed before.
  std::vector<float> Feed(int32_t id);

 private:
  struct Matrix {
    std::vector<float> values;  // [rows, columns]
    int64_t columns = 0;
    int64_t group = 0;  // of activations that are rounded together; 0: not rounded
  };
  struct Cache {
    std::vector<float> keys, values;  // a row for each id
  };

  int64_t Number(const std::string& key) const;
  double Real(const std::string& key) const;
  const Matrix& Weight(const std::string& name) const;
  void Read(const std::string& path);

  std::vector<float> Multiply(const std::string& name, std::vector<float> x) const;
  std::vector<float> Norm(const std::string& name, const std::vector<float>& x) const;
  void Rotate(std::vector<float>& rows) const;
  void RoundToHalf(std::vector<float>& numbers) const;
  std::vector<float> Attend(std::vector<float> queries, const Cache& cache) const;
  void Layer(const std::string& prefix, Cache& cache, std::vector<float>& x) const;

  const Activations activations_;
  Gguf gguf_;
  std::map<std::string, Matrix> weights_;
  std::vector<Cache> caches_;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, position_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_WEIGHTS_PLAIN_LLAMA_H_
