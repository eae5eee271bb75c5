// Whatever the bytes of a safetensors file are, its entries lie within the file and do not overlap.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "npubank/lazy_tensor/formats/safetensors.h"
#include "npubank/tests/fuzz/fuzzed_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::shared_ptr<npubank::Source> source = npubank::FuzzedSource(data, size);
  const auto entries = npubank::ReadSafetensors(*source);
  if (!entries.ok()) return 0;
  uint64_t end = 8;
  for (const npubank::TensorEntry& entry : *entries) {
    const uint64_t bytes = entry.type.bytes();
    if (entry.offset > size || bytes > size - entry.offset) abort();
    if (bytes == 0) continue;
    if (entry.offset < end) abort();
    end = entry.offset + bytes;
  }
  return 0;
}
