// Small files for the tests of this room: bytes of a safetensors file, and a folder that goes away
// again.
#ifndef NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_
#define NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "npubank/lazy_tensor/sources/source.h"

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

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "npubank-test-XXXXXX").string();
    path_ = mkdtemp(name.data()) != nullptr ? name : "";
    EXPECT_FALSE(path_.empty()) << "cannot make a temporary folder";
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::string path_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_FORMATS_TEST_FILES_H_
