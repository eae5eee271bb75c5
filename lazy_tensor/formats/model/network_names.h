// NetworkNames: what the files of a network may say: keys of config.json, metadata keys of GGUF, tensors of both.
//
//   const NetworkNames* llama = NetworkNames::Find("llama");   // null: no such network is supported
//   NPUBANK_RETURN_IF_ERROR(CheckKeys(llama->config, json, "config.json: ", llama->network));
//   for (const StoredTensor& tensor : index.tensors())
//     NPUBANK_RETURN_IF_ERROR(CheckTensor(llama->tensors, tensor.name, tensor, index, layers));
//
// Every name is used, harmless or refused; what stands in no list is refused as well, since leaving out what
// changes a network gives wrong results in silence. A new network is a file like llama_names.h and a line
// in Find; its lists may go on with those of another.
//
// In a pattern '#' stands for a number without leading zeros (in a tensor's name: its layer) and '*' for any
// text. The first pattern that matches counts. For readers of files: formats and tokenizers. Threads: pure functions.
// Errors: InvalidArgument naming the file and the name, why it is refused and what to do; of CheckTensor also
// those of reading a bias.
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
  const char* unless = "[]";  // a JSON list
};

// Searched in this order.
using NameLists = std::vector<absl::Span<const KnownName>>;

struct NetworkNames {
  const char* network;
  NameLists config;        // config.json
  NameLists metadata;      // GGUF
  NameLists tensors;       // of a folder, where a quantised weight goes by the name of the weight
  NameLists gguf_tensors;  // as GGUF names them

  static const NetworkNames* Find(absl::string_view model_type);
};

// Every key of an object. `where` begins a message ("config.json: "); a key whose value is null is absent.
absl::Status CheckKeys(const NameLists& lists, const nlohmann::json& object,
                       const std::string& where, const std::string& network);

// A stored tensor, under the name that the lists know it by, of a network of so many layers.
absl::Status CheckTensor(const NameLists& lists, absl::string_view name, const StoredTensor& tensor,
                         const SourceIndex& index, int64_t layers);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORK_NAMES_H_
