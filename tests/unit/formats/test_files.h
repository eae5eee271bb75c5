// Small files for the tests of this room: bytes of a safetensors file.
#ifndef NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_
#define NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {

inline std::string LittleEndian64(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string SafetensorsBytes(const std::string& header, size_t data_bytes) {
  return LittleEndian64(header.size()) + header + std::string(data_bytes, '\x5A');
}

inline std::shared_ptr<Source> SourceOf(const std::string& bytes, const std::string& name) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return Source::FromBuffer(std::vector<std::byte>(begin, begin + bytes.size()), name);
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_
