// TemporaryFolder: a folder that a test writes to, gone with everything in it when the test ends.
#ifndef NPUBANK_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define NPUBANK_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace npubank {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;  // the path of a file in it
  // Writes a file in it; returns its path.
  std::string Write(absl::string_view name, absl::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
