// TemporaryFile: a file with given bytes that is deleted when the object goes.
//
//   TemporaryFile file(bytes);
//   auto source = Source::OpenFile(file.path());
#ifndef NPUBANK_TESTS_SUPPORT_TEMPORARY_FILE_H_
#define NPUBANK_TESTS_SUPPORT_TEMPORARY_FILE_H_

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace npubank::testing {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& bytes = {}) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/npubank-test-XXXXXX";
    const int fd = mkstemp(path_.data());
    for (size_t done = 0; fd >= 0 && done < bytes.size();) {
      const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
      if (count < 0) std::abort();
      done += static_cast<size_t>(count);
    }
    if (fd < 0) std::abort();
    close(fd);
  }
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace npubank::testing

#endif  // NPUBANK_TESTS_SUPPORT_TEMPORARY_FILE_H_
