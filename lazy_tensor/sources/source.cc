#include "npubank/lazy_tensor/sources/source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/file_identity.h"
#include "npubank/lazy_tensor/sources/mapped_file.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {
namespace {

class FileSource final : public Source {
 public:
  FileSource(const std::string& path, FileDescriptor fd, const FileIdentity& file,
             FileAccess access)
      : Source(path, file.identity, file.facts.size, file.samples),
        fd_(std::move(fd)),
        facts_(file.facts),
        access_(access) {}

  bool persistent() const override { return true; }
  bool mappable() const override { return access_ == FileAccess::kMap; }
  int descriptor() const override { return fd_.get(); }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    NPUBANK_RETURN_IF_ERROR(CheckRange(name(), offset, out.size(), size()));
    NPUBANK_ASSIGN_OR_RETURN(const size_t got, ReadAt(fd_, name(), offset, out));
    return got == out.size() ? absl::OkStatus() : Changed("it is shorter");
  }

  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset,
                                                   uint64_t length) const override {
    NPUBANK_RETURN_IF_ERROR(CheckRange(name(), offset, length, size()));
    if (access_ != FileAccess::kMap) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", name(), "' was opened to be read, not mapped"));
    }
    NPUBANK_RETURN_IF_ERROR(CheckUnchanged());
    if (length == 0) return absl::Span<const std::byte>();
    const absl::Span<const std::byte> whole = InPlace();
    if (whole.empty()) return SystemError(errno, "cannot map", name());
    return whole.subspan(offset, length);
  }

  absl::Span<const std::byte> InPlace() const override {
    if (access_ != FileAccess::kMap || size() == 0) return {};
    MutexLock lock(mutex_);
    if (mapping_ == nullptr) mapping_ = MappedFile::Map(fd_.get(), size());
    return mapping_ == nullptr ? absl::Span<const std::byte>() : mapping_->bytes();
  }

  void Release(uint64_t offset, uint64_t length) const override {
    if (!RangeFits(offset, length, size())) return;
    MutexLock lock(mutex_);
    if (mapping_ != nullptr) mapping_->Release(offset, length);
  }

  absl::Status CheckUnchanged() const override {
    struct stat facts;
    if (fstat(fd_.get(), &facts) != 0) return SystemError(errno, "cannot stat", name());
    const FileFacts now = FileFacts::Of(facts);
    if (now.size != facts_.size) return Changed("its size is another");
    if (!(now == facts_)) return Changed("it was written to");
    MutexLock lock(mutex_);
    if (mapping_ != nullptr && mapping_->lost()) return Changed("a page of it could not be read");
    return absl::OkStatus();
  }

 private:
  absl::Status Changed(absl::string_view how) const {
    return absl::DataLossError(absl::StrCat("'", name(), "' changed since it was opened (", how,
                                            "); open the checkpoint again"));
  }

  const FileDescriptor fd_;
  const FileFacts facts_;
  const FileAccess access_;
  mutable Mutex mutex_;
  mutable std::unique_ptr<MappedFile> mapping_ ABSL_GUARDED_BY(mutex_);
};

class BufferSource final : public Source {
 public:
  BufferSource(std::vector<std::byte> bytes, std::string name, const Digest& identity)
      : Source(std::move(name), identity, bytes.size()), bytes_(std::move(bytes)) {}

  bool persistent() const override { return false; }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    NPUBANK_RETURN_IF_ERROR(CheckRange(name(), offset, out.size(), size()));
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return absl::OkStatus();
  }

  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset,
                                                   uint64_t length) const override {
    NPUBANK_RETURN_IF_ERROR(CheckRange(name(), offset, length, size()));
    return absl::MakeConstSpan(bytes_).subspan(offset, length);
  }

  void Release(uint64_t, uint64_t) const override {}
  absl::Span<const std::byte> InPlace() const override { return bytes_; }

 private:
  const std::vector<std::byte> bytes_;
};

Digest NextBufferIdentity() {
  static const std::pair<uint64_t, uint64_t> process_key = [] {
    std::random_device random;
    auto word = [&random] { return (uint64_t{random()} << 32) | random(); };
    return std::make_pair(word(), word());
  }();
  static std::atomic<uint64_t> counter{0};
  return DigestBuilder("buffer")
      .Add(static_cast<int64_t>(process_key.first))
      .Add(static_cast<int64_t>(process_key.second))
      .Add(static_cast<int64_t>(counter.fetch_add(1, std::memory_order_relaxed)))
      .Finish();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Source>> Source::OpenFile(const std::string& path,
                                                         FileAccess access) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; regular files ignore it.
  FileDescriptor fd = FileDescriptor::Open(path, O_RDONLY | O_NONBLOCK);
  if (!fd.is_open()) return SystemError(errno, "cannot open", path);
  return OfDescriptor(std::move(fd), path, access);
}

absl::StatusOr<std::shared_ptr<Source>> Source::OfDescriptor(FileDescriptor file,
                                                             const std::string& name,
                                                             FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(const FileIdentity identity, FileIdentity::Of(file, name));
  return std::make_shared<FileSource>(name, std::move(file), identity, access);
}

std::shared_ptr<Source> Source::FromBuffer(std::vector<std::byte> bytes, std::string name) {
  return std::make_shared<BufferSource>(std::move(bytes), std::move(name), NextBufferIdentity());
}

}  // namespace npubank
