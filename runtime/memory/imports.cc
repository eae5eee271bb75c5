#include "runtime/memory/imports.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lazy_tensor/mutex.h"
#include "lazy_tensor/status_macros.h"
#include "runtime/level_zero/imported_memory.h"

namespace npubank {
namespace {

constexpr uintptr_t kPage = 4096;

}  // namespace

// A file is in the table from before its import until after its pages are given back. Whoever finds
// it there without a live File waits: the driver knows a page only once.
struct Imports::Table {
  Mutex mutex;
  CondVar changed;
  std::map<Digest, std::weak_ptr<const File>> files ABSL_GUARDED_BY(mutex);

  // The live import of this file; null when it is now the caller's to make, and to Publish.
  std::shared_ptr<const File> FindOrBegin(const Digest& identity) {
    MutexLock lock(mutex);
    while (true) {
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
    NPUBANK_ASSIGN_OR_RETURN(const absl::Span<const std::byte> mapping,
                             source_->View(0, source_->size()));
    if (reinterpret_cast<uintptr_t>(mapping.data()) % kPage != 0)
      return absl::FailedPreconditionError("its mapping does not begin with a page");
    auto pages = level_zero::ImportedMemory::Create(device, mapping.data(), mapping.size());
    // All that a kernel may have against it comes back as being out of memory; copying may do.
    if (absl::IsResourceExhausted(pages.status()) || absl::IsInvalidArgument(pages.status()))
      return absl::FailedPreconditionError(pages.status().message());
    NPUBANK_RETURN_IF_ERROR(pages.status());
    pages_.emplace(*std::move(pages));
    bytes_ = mapping;
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Table> table_;
  const std::shared_ptr<ReadAhead> read_ahead_;
  std::optional<level_zero::ImportedMemory> pages_;
};

Imports::Imports(std::shared_ptr<level_zero::Device> device, bool read_ahead)
    : device_(std::move(device)),
      supported_(level_zero::ImportedMemory::Supported(*device_)),
      table_(std::make_shared<Table>()),
      read_ahead_(read_ahead ? std::make_shared<ReadAhead>() : nullptr) {}

absl::StatusOr<std::shared_ptr<const Imports::File>> Imports::Acquire(
    std::shared_ptr<Source> source) {
  if (!supported_) return absl::UnimplementedError("this driver cannot import files");
  if (!source->InMemory().empty())
    return absl::FailedPreconditionError(
        absl::StrCat(source->name(), ": a buffer shares its pages with others"));
  if (source->size() == 0)
    return absl::FailedPreconditionError(absl::StrCat(source->name(), " is empty"));
  NPUBANK_RETURN_IF_ERROR(source->CheckUnchanged());
  const Digest identity = source->identity();
  if (std::shared_ptr<const File> file = table_->FindOrBegin(identity)) return file;
  const std::string name = source->name();
  auto made = std::make_shared<ImportedFile>(std::move(source), table_, read_ahead_);
  NPUBANK_RETURN_IF_ERROR(Annotate(made->Import(device_), name));
  table_->Publish(identity, made);
  return std::shared_ptr<const File>(std::move(made));
}

void Imports::WillNeed(absl::Span<const std::byte> bytes) {
  if (read_ahead_) read_ahead_->Add(bytes);
}

}  // namespace npubank
