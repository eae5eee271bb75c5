// The made-up models that the tests of networks run: small, with what each network has of its own.
#ifndef NPUBANK_TESTS_INTEGRATION_NETWORKS_NETWORK_SHAPES_H_
#define NPUBANK_TESTS_INTEGRATION_NETWORKS_NETWORK_SHAPES_H_

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tools/checkpoints/checkpoint_writer.h"

namespace npubank {

struct NamedShape {
  std::string name;
  CheckpointShape shape;
  friend std::ostream& operator<<(std::ostream& out, const NamedShape& named) {
    return out << named.name;
  }
};

inline CheckpointShape NetworkShape(CheckpointNetwork network, CheckpointFormat format) {
  CheckpointShape shape;
  shape.network = network;
  shape.format = format;
  shape.element = ElementType::kF32;
  shape.layers = 3;
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.intermediate = 96;
  shape.vocab = 300;
  shape.context = 96;
  shape.seed = 5;
  if (network == CheckpointNetwork::kMistral) shape.window = 9;
  if (network == CheckpointNetwork::kPhi3) shape.window = 11;
  if (network == CheckpointNetwork::kQwen2) shape.tied = true;
  if (network == CheckpointNetwork::kQwen3) shape.head_dim = 24;
  return shape;
}

// Every network in every format here; Llama and Phi-3 stretched beyond the context they were made for as well.
inline std::vector<NamedShape> NetworkShapes(const std::vector<NamedShape>& formats) {
  using Network = CheckpointNetwork;
  const std::pair<const char*, Network> networks[] = {{"llama", Network::kLlama},
                                                      {"mistral", Network::kMistral},
                                                      {"qwen2", Network::kQwen2},
                                                      {"qwen3", Network::kQwen3},
                                                      {"phi3", Network::kPhi3}};
  std::vector<NamedShape> all;
  for (const auto& [format, like] : formats) {
    for (const auto& [name, network] : networks) {
      all.push_back({name + ("_" + format), NetworkShape(network, like.format)});
    }
    for (const auto& [name, network] : {networks[0], networks[4]}) {
      NamedShape stretched = {name + ("_stretched_" + format), NetworkShape(network, like.format)};
      stretched.shape.original_context = 80;
      stretched.shape.context = 640;
      all.push_back(stretched);
    }
  }
  return all;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_NETWORKS_NETWORK_SHAPES_H_
