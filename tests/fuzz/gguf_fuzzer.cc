// Whatever the bytes of a GGUF file are, its tensors lie within the file and do not overlap, and a
// model in it is a model in bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/model/gguf_model.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"
#include "npubank/tests/fuzz/fuzzed_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::shared_ptr<npubank::Source> source = npubank::FuzzedSource(data, size);
  const auto file = npubank::ReadGguf(*source);
  if (!file.ok()) return 0;
  uint64_t end = 0;
  for (const npubank::GgufTensor& tensor : file->tensors) {
    if (tensor.offset < end || tensor.offset > size || tensor.bytes > size - tensor.offset) abort();
    if (tensor.bytes == 0) abort();
    end = tensor.offset + tensor.bytes;
    for (const npubank::NetworkNames* network : npubank::NetworkNames::All()) {
      npubank::HubName(*network, tensor.name);
    }
  }
  const auto config = npubank::GgufModelConfig(*file, *source);
  if (config.ok() && config->num_heads % config->num_kv_heads != 0) abort();
  return 0;
}
