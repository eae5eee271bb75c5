// NetworkNames: what the files of a network may say: keys of config.json, metadata keys of GGUF, tensors of both.
//
//   const NetworkNames* llama = NetworkNames::Find("llama");   // null: no such network is supported
//   NPUBANK_RETURN_IF_ERROR(CheckKeys(llama->config, json, "config.json: ", llama->network));
//   for (const StoredTensor& tensor : index.tensors())
//     NPUBANK_RETURN_IF_ERROR(CheckTensor(*llama, Naming::kHub, tensor.name, tensor, index, layers));
//
// Every name is used, harmless or refused; what stands in no list is refused as well, since leaving out what
// changes a network gives wrong results in silence. A new network is a file like qwen_names.cc, a function in
// networks.h and a line in All; its lists go on with those that all have (common_names.h).
//
// In a pattern '#' stands for a number without leading zeros (in a tensor's name: its layer), '*'
// for any text and '@' for the architecture. The first pattern that matches counts. For readers of
// files: formats and tokenizers. Threads: pure functions. Errors: InvalidArgument naming the file
// and the name, why it is refused and what to do; of CheckTensor also those of reading a bias.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORK_NAMES_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORK_NAMES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

struct KnownName {
  enum class Kind {
    kUsed,      // somebody reads it
    kHarmless,  // changes nothing that is computed
    kAdds,      // a tensor that is added: harmless where all of it is zero, refused otherwise
    kRefused,   // harmless with the values of `unless`, refused otherwise
  };
  const char* pattern;
  Kind kind;
  const char* why = "";       // of what is refused, and what to do
  const char* unless = "[]";  // a JSON list; a list of such values is harmless, too
};

// A tensor that the network uses, as a folder and as a GGUF file name it.
struct TensorName {
  const char* hub;
  const char* gguf;
};
enum class Naming { kHub, kGguf };

// Searched in this order.
using NameLists = std::vector<absl::Span<const KnownName>>;

struct NetworkNames {
  const char* network = "";  // model_type of config.json
  const char* architecture = "";  // general.architecture of GGUF; empty where its files say another's
  bool window = false;        // "sliding_window" is how many positions each one sees; null: all
  int64_t window_unsaid = 0;  // of a config without that key; 0: all
  bool long_rope = false;     // rope scaling "longrope", within the original context
  bool gguf_interleaved = false;  // in GGUF, rows of queries and keys are in Meta's order
  NameLists config = {};          // config.json
  NameLists rope = {};            // its rope_scaling and rope_parameters
  NameLists metadata = {};        // GGUF
  // Tensors: those that are used, a quantised one by the name of the weight; the others, as either names them.
  std::vector<absl::Span<const TensorName>> used = {};
  NameLists tensors = {};
  NameLists gguf_tensors = {};

  static const std::vector<const NetworkNames*>& All();
  static const NetworkNames* Find(absl::string_view model_type);
  static const NetworkNames* FindArchitecture(absl::string_view architecture);
};

// Every key of an object. `where` begins a message ("config.json: "); a key whose value is null is absent.
absl::Status CheckKeys(const NameLists& lists, const nlohmann::json& object,
                       const std::string& where, const std::string& network,
                       absl::string_view architecture = "");

// A stored tensor, under the name that a weight has where it is stored in parts, of so many layers.
absl::Status CheckTensor(const NetworkNames& network, Naming naming, absl::string_view name,
                         const StoredTensor& tensor, const SourceIndex& index, int64_t layers);

// The name in a folder of a tensor that GGUF calls so; a name that has no such counterpart stays as it is.
std::string HubName(const NetworkNames& network, absl::string_view gguf_name);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORK_NAMES_H_
