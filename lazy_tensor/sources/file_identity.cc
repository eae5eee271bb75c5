#include "npubank/lazy_tensor/sources/file_identity.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kWindow = 4096;
constexpr uint64_t kWindows = 16;

// What is remembered beside an identity.
struct Stamp {
  int64_t ctime_seconds = 0;
  int64_t ctime_nanoseconds = 0;
  Digest samples;
};

class KnownFiles {
 public:
  // The samples that belong to `identity` if nothing has touched the file since.
  bool Find(const Digest& identity, const struct stat& facts, Digest& samples) {
    MutexLock lock(mutex_);
    const auto found = stamps_.find(identity);
    if (found == stamps_.end() || found->second.ctime_seconds != facts.st_ctim.tv_sec ||
        found->second.ctime_nanoseconds != facts.st_ctim.tv_nsec) {
      return false;
    }
    samples = found->second.samples;
    return true;
  }

  // True when `identity` is of a file with these samples, now if not before; false when it belongs
  // to another.
  bool Agree(const Digest& identity, const struct stat& facts, const Digest& samples) {
    MutexLock lock(mutex_);
    const Stamp now = {facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec, samples};
    const auto [known, is_new] = stamps_.emplace(identity, now);
    if (!is_new && known->second.samples != samples) return false;
    known->second = now;
    return true;
  }

  static KnownFiles& OfThisProcess() {
    static KnownFiles& files = *new KnownFiles;
    return files;
  }

 private:
  Mutex mutex_;
  std::map<Digest, Stamp> stamps_ ABSL_GUARDED_BY(mutex_);
};

// Windows at equal distances, the first at the beginning and the last at the end.
absl::StatusOr<Digest> Sample(const FileDescriptor& file, const std::string& path, uint64_t size) {
  std::vector<std::byte> window(std::min(kWindow, size));
  const uint64_t count = std::clamp<uint64_t>((size + kWindow - 1) / kWindow, 1, kWindows);
  DigestBuilder builder("samples");
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t last = size - window.size();
    const uint64_t offset = i + 1 == count ? last : last / (count - 1) * i;
    NPUBANK_ASSIGN_OR_RETURN(const size_t got, ReadAt(file, path, offset, absl::MakeSpan(window)));
    builder.Add(static_cast<int64_t>(offset))
        .Add(absl::string_view(reinterpret_cast<const char*>(window.data()), got));
  }
  return builder.Finish();
}

}  // namespace

FileFacts FileFacts::Of(const struct stat& facts) {
  return {facts.st_dev, facts.st_ino, static_cast<uint64_t>(facts.st_size), facts.st_mtim.tv_sec,
          facts.st_mtim.tv_nsec};
}

absl::StatusOr<FileIdentity> FileIdentity::Of(const FileDescriptor& file, const std::string& path,
                                              SampleFile sample) {
  struct stat found;
  if (fstat(file.get(), &found) != 0) return SystemError(errno, "cannot stat", path);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a regular file"));
  }
  FileIdentity made;
  made.facts = FileFacts::Of(found);
  made.identity = DigestBuilder("file")
                      .Add(static_cast<int64_t>(made.facts.device))
                      .Add(static_cast<int64_t>(made.facts.inode))
                      .Add(static_cast<int64_t>(made.facts.size))
                      .Add(made.facts.mtime_seconds)
                      .Add(made.facts.mtime_nanoseconds)
                      .Finish();
  KnownFiles& known = KnownFiles::OfThisProcess();
  const bool is_known = known.Find(made.identity, found, made.samples);
  if (is_known && sample == SampleFile::kWhenUnknown) return made;
  NPUBANK_ASSIGN_OR_RETURN(made.samples, Sample(file, path, made.facts.size));
  if (known.Agree(made.identity, found, made.samples)) return made;
  made.identity = DigestBuilder("another file").Add(made.identity).Add(made.samples).Finish();
  known.Agree(made.identity, found, made.samples);
  return made;
}

}  // namespace npubank
