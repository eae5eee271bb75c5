#include "npubank/tests/support/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace npubank {

TemporaryFolder::TemporaryFolder() {
  path_ = (std::filesystem::temp_directory_path() / "npubank-test-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) std::abort();  // no test can go on without it
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::string TemporaryFolder::Write(absl::string_view name, absl::string_view bytes) const {
  const std::string path = File(name);
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
  return path;
}

}  // namespace npubank
