#include "npubank/runtime/memory/imports.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/imported_memory.h"

namespace npubank {
namespace {

constexpr uintptr_t kPage = 4096;

}  // namespace

// A file is in the table from before its import until after its pages are given back. Whoever finds
// it there without a live File waits: the driver knows a page only once.
struct Imports::Table {
  explicit Table(Notice told) : notice(std::move(told)) {}

  const Notice notice;
  Mutex mutex;
  CondVar changed;
  std::map<Digest, std::weak_ptr<const File>> files ABSL_GUARDED_BY(mutex);
  std::map<Digest, absl::Status> refused ABSL_GUARDED_BY(mutex);
  // What every file is refused with from now on, if anything.
  absl::Status unsupported ABSL_GUARDED_BY(mutex);
  bool said ABSL_GUARDED_BY(mutex) = false;

  // The live import of this file, or why there is none; null when it is now the caller's to make,
  // and to Publish.
  absl::StatusOr<std::shared_ptr<const File>> FindOrBegin(const Digest& identity) {
    MutexLock lock(mutex);
    while (true) {
      NPUBANK_RETURN_IF_ERROR(unsupported);
      const auto refusal = refused.find(identity);
      if (refusal != refused.end()) return refusal->second;
      const auto [entry, added] = files.try_emplace(identity);
      if (added) return nullptr;
      if (std::shared_ptr<const File> file = entry->second.lock()) return file;
      changed.Wait(mutex);
    }
  }
  void Publish(const Digest& identity, const std::shared_ptr<const File>& file) {
    MutexLock lock(mutex);
    files[identity] = file;
    changed.NotifyAll();
  }
  // While the file is in the table, so that nobody asks the driver in between.
  void Refuse(const Source& source, const absl::Status& why) {
    {
      MutexLock lock(mutex);
      if (absl::IsUnimplemented(why)) unsupported = why;
      refused[source.identity()] = why;
      if (std::exchange(said, true)) return;
    }
    notice(
        absl::StrCat("what cannot be imported is copied, as ", source.name(), ": ", why.message()));
  }
  void Remove(const Digest& identity) {
    MutexLock lock(mutex);
    files.erase(identity);
    changed.NotifyAll();
  }
};

// Removes itself from the table at its end, whether its import succeeded or not.
class Imports::ImportedFile : public File {
 public:
  ImportedFile(std::shared_ptr<Source> source, std::shared_ptr<Table> table,
               std::shared_ptr<ReadAhead> read_ahead)
      : File(std::move(source)), table_(std::move(table)), read_ahead_(std::move(read_ahead)) {}
  ~ImportedFile() override {
    if (read_ahead_) read_ahead_->Drop(bytes_);
    pages_.reset();
    table_->Remove(source_->identity());
  }

  absl::Status Import(const std::shared_ptr<level_zero::Device>& device) {
    const absl::StatusOr<absl::Span<const std::byte>> mapping = source_->View(0, source_->size());
    // A file system that cannot map, or a process without addresses: reading may do.
    if (absl::IsUnavailable(mapping.status()))
      return Refused(absl::FailedPreconditionError(mapping.status().message()));
    NPUBANK_RETURN_IF_ERROR(mapping.status());
    if (reinterpret_cast<uintptr_t>(mapping->data()) % kPage != 0)
      return absl::FailedPreconditionError("its mapping does not begin with a page");
    auto pages = level_zero::ImportedMemory::Create(device, mapping->data(), mapping->size());
    if (!pages.ok()) return Refused(pages.status());
    pages_.emplace(*std::move(pages));
    bytes_ = *mapping;
    return absl::OkStatus();
  }

 private:
  // All that a kernel may have against it comes back as being out of memory; copying may do.
  absl::Status Refused(absl::Status status) const {
    if (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status))
      status = absl::FailedPreconditionError(status.message());
    if (absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status))
      table_->Refuse(*source_, status);
    return status;
  }

  const std::shared_ptr<Table> table_;
  const std::shared_ptr<ReadAhead> read_ahead_;
  std::optional<level_zero::ImportedMemory> pages_;
};

Imports::Imports(std::shared_ptr<level_zero::Device> device, bool read_ahead, Notice notice)
    : device_(std::move(device)),
      supported_(level_zero::ImportedMemory::Supported(*device_)),
      table_(std::make_shared<Table>(std::move(notice))),
      read_ahead_(read_ahead ? std::make_shared<ReadAhead>() : nullptr) {}

absl::StatusOr<std::shared_ptr<const Imports::File>> Imports::Acquire(
    std::shared_ptr<Source> source) {
  if (!supported_) return absl::UnimplementedError("this driver cannot import files");
  if (!source->persistent())
    return absl::FailedPreconditionError(
        absl::StrCat(source->name(), ": a buffer shares its pages with others"));
  if (source->size() == 0)
    return absl::FailedPreconditionError(absl::StrCat(source->name(), " is empty"));
  NPUBANK_RETURN_IF_ERROR(source->CheckUnchanged());
  const Digest identity = source->identity();
  const std::string name = source->name();
  absl::StatusOr<std::shared_ptr<const File>> file = table_->FindOrBegin(identity);
  if (!file.ok()) return Annotate(file.status(), name);
  if (*file != nullptr) return file;
  auto made = std::make_shared<ImportedFile>(std::move(source), table_, read_ahead_);
  NPUBANK_RETURN_IF_ERROR(Annotate(made->Import(device_), name));
  table_->Publish(identity, made);
  return std::shared_ptr<const File>(std::move(made));
}

void Imports::Retry() {
  MutexLock lock(table_->mutex);
  table_->refused.clear();
}

void Imports::WillNeed(absl::Span<const std::byte> bytes) {
  if (read_ahead_) read_ahead_->Add(bytes);
}

}  // namespace npubank
