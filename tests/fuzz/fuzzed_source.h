// FuzzedSource: what a fuzzer was given, as a file's reader gets it.
#ifndef NPUBANK_TESTS_FUZZ_FUZZED_SOURCE_H_
#define NPUBANK_TESTS_FUZZ_FUZZED_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

inline std::shared_ptr<Source> FuzzedSource(const uint8_t* data, size_t size) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  return Source::FromBuffer(std::vector<std::byte>(begin, begin + size), "fuzz");
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_FUZZ_FUZZED_SOURCE_H_
