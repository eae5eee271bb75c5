// MadeUpNetwork: what a made-up model of each network says of itself: its tensors, config.json, GGUF metadata.
//
//   MadeUpNetwork network(shape);
//   for (const LogicalTensor& tensor : network.Tensors()) ...    // before a format has them
//   network.Config()["hidden_size"];
//
// Keys and names are those of the models that people download (Llama 3.2, Mistral, Qwen 2.5 and 3, Phi-3.5), in values
// that the shape has. A model that was made for a shorter context at first (original_context) scales its rotary
// positions: Llama by "llama3", Phi-3 by longrope, whose divisors are 1, 1 + 1/16, 1 + 2/16, ...; in GGUF either is a tensor
// of such divisors. Requires a shape that StoredLayout accepts. Threads: pure.
#ifndef NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NETWORK_H_
#define NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NETWORK_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tools/checkpoints/checkpoint_writer.h"

namespace npubank {

struct LogicalTensor {
  std::string hub;
  std::string gguf;
  std::vector<int64_t> dims;
  bool linear = false;    // one that GPTQ, AWQ and compressed-tensors quantise
  bool divisors = false;  // of rotary frequencies; GGUF only
};

class MadeUpNetwork {
 public:
  explicit MadeUpNetwork(const CheckpointShape& shape) : shape_(shape) {}

  static constexpr double kRopeTheta = 10000;
  static constexpr double kEpsilon = 1e-5;

  int64_t head_dim() const;
  bool scales_rope() const;
  // Longrope's factor to queries and keys.
  double rope_magnitude() const;

  // In the order of their hub names' parts, layer by layer.
  std::vector<LogicalTensor> Tensors() const;
  // config.json without what says how weights are stored.
  nlohmann::ordered_json Config() const;
  // By key, numbers and texts.
  nlohmann::ordered_json Metadata() const;

 private:
  void AddLayer(int64_t layer, std::vector<LogicalTensor>& all) const;

  const CheckpointShape& shape_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINTS_MADE_UP_NETWORK_H_
