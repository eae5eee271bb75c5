#include "npubank/runtime/memory/imports.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/mapped_file.h"
#include "npubank/runtime/level_zero/imported_memory.h"

namespace npubank {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 62;  // no file is larger; sums cannot overflow

}  // namespace

// A region is in the table from before its import until after its pages are given back. Whoever
// wants pages of it meanwhile waits: they are pinned once.
struct Imports::Table {
  struct Entry {
    PageRange pages;
    std::weak_ptr<const Region> region;  // none before its import and after its last user
  };
  using Entries = std::multimap<Digest, Entry>;  // by the file's identity
  // A live region, or where in the table the one is that the caller has to make and to Publish.
  struct Found {
    std::shared_ptr<const Region> region;
    Entries::iterator begun;
    PageRange pages;
  };

  explicit Table(Notice told) : notice(std::move(told)) {}

  const Notice notice;
  Mutex mutex;
  CondVar changed;
  Entries entries ABSL_GUARDED_BY(mutex);
  std::set<const PlannedRegions*> plans ABSL_GUARDED_BY(mutex);
  std::map<Digest, absl::Status> refused ABSL_GUARDED_BY(mutex);
  // What every file is refused with from now on, if anything.
  absl::Status unsupported ABSL_GUARDED_BY(mutex);
  bool said ABSL_GUARDED_BY(mutex) = false;

  // A region that has these pages; `busy` when there is none, but one is being imported or given
  // back, for which it is worth waiting.
  std::shared_ptr<const Region> FindAlive(const Digest& identity, const PageRange& wanted,
                                          bool* busy) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto [first, last] = entries.equal_range(identity);
    for (auto entry = first; entry != last; ++entry) {
      if (!entry->second.pages.Contains(wanted)) continue;
      if (auto region = entry->second.region.lock()) return region;
      *busy = true;
    }
    return nullptr;
  }
  absl::Status Refusal(const Digest& identity) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    NPUBANK_RETURN_IF_ERROR(unsupported);
    const auto refusal = refused.find(identity);
    return refusal == refused.end() ? absl::OkStatus() : refusal->second;
  }
  PageRange PlannedAround(const Digest& identity, uint64_t offset, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  absl::StatusOr<Found> FindOrBegin(const Digest& identity, uint64_t offset, uint64_t bytes) {
    const PageRange wanted = PageRange::Around(offset, bytes);
    MutexLock lock(mutex);
    while (true) {
      bool busy = false;
      if (auto region = FindAlive(identity, wanted, &busy)) return Found{region, {}, {}};
      NPUBANK_RETURN_IF_ERROR(Refusal(identity));
      if (!busy) break;
      changed.Wait(mutex);
    }
    const PageRange pages = PlannedAround(identity, offset, bytes);
    return Found{nullptr, entries.emplace(identity, Entry{.pages = pages, .region = {}}), pages};
  }
  void Publish(Entries::iterator entry, const std::shared_ptr<const Region>& region) {
    MutexLock lock(mutex);
    entry->second.region = region;
    changed.NotifyAll();
  }
  // While the region is in the table, so that nobody asks the driver in between.
  void Refuse(const Source& source, const absl::Status& why) {
    {
      MutexLock lock(mutex);
      if (absl::IsUnimplemented(why)) unsupported = why;
      refused[source.identity()] = why;
      if (std::exchange(said, true)) return;
    }
    notice(
        absl::StrCat("what cannot be imported is copied, as '", source.name(), "': ", why.message()));
  }
  void Remove(Entries::iterator entry) {
    MutexLock lock(mutex);
    entries.erase(entry);
    changed.NotifyAll();
  }
};

// Known to the table while it lives.
class Imports::PlannedRegions final : public ImportPlan {
 public:
  explicit PlannedRegions(std::shared_ptr<Table> table) : table_(std::move(table)) {}
  ~PlannedRegions() override {
    MutexLock lock(table_->mutex);
    table_->plans.erase(this);
  }

  void Add(absl::Span<const ImportRange> ranges) {
    MutexLock lock(table_->mutex);
    for (const ImportRange& range : ranges) {
      if (range.bytes == 0 || range.bytes > kMostBytes || range.offset > kMostBytes) continue;
      bool busy = false;
      auto alive =
          table_->FindAlive(range.source, PageRange::Around(range.offset, range.bytes), &busy);
      if (alive != nullptr) {
        alive_.push_back(std::move(alive));
      } else {
        wanted_[range.source].Add(range.offset, range.bytes);
      }
    }
    table_->plans.insert(this);
  }
  std::optional<PageRange> Find(const Digest& identity, uint64_t offset, uint64_t bytes) const {
    const auto file = wanted_.find(identity);
    return file == wanted_.end() ? std::nullopt : file->second.Find(offset, bytes);
  }

 private:
  const std::shared_ptr<Table> table_;
  std::map<Digest, PageRanges> wanted_;  // not changed once the table knows the plan
  std::vector<std::shared_ptr<const Region>> alive_;
};

PageRange Imports::Table::PlannedAround(const Digest& identity, uint64_t offset,
                                        uint64_t bytes) const {
  for (const PlannedRegions* plan : plans) {
    if (const auto pages = plan->Find(identity, offset, bytes)) return *pages;
  }
  return PageRange::Around(offset, bytes);
}

// Removes itself from the table at its end, whether its import succeeded or not.
class Imports::ImportedRegion : public Region {
 public:
  ImportedRegion(std::shared_ptr<Source> source, const Table::Found& found,
                 std::shared_ptr<Accounting> accounting, std::shared_ptr<Table> table,
                 std::shared_ptr<ReadAhead> read_ahead)
      : Region(std::move(source), found.pages),
        entry_(found.begun),
        accounting_(std::move(accounting)),
        table_(std::move(table)),
        read_ahead_(std::move(read_ahead)) {}
  ~ImportedRegion() override {
    if (read_ahead_) read_ahead_->Drop(bytes_);
    imported_.reset();
    accounting_->Unpin(bytes_.size());
    table_->Remove(entry_);
  }

  absl::Status Import(const std::shared_ptr<level_zero::Device>& device) {
    const uint64_t bytes = std::min(pages_.end, source_->size()) - pages_.begin;
    mapping_ = MappedFile::Map(source_->descriptor(), bytes, pages_.begin);
    // A file system that cannot map, or a process without addresses: reading may do.
    if (mapping_ == nullptr)
      return Refused(
          absl::FailedPreconditionError(absl::StrCat("cannot be mapped: ", std::strerror(errno))));
    auto imported = level_zero::ImportedMemory::Create(device, mapping_->bytes().data(), bytes);
    if (!imported.ok()) return Refused(imported.status());
    imported_.emplace(*std::move(imported));
    bytes_ = mapping_->bytes();
    accounting_->Pin(bytes_.size());
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

  const Table::Entries::iterator entry_;
  const std::shared_ptr<Accounting> accounting_;
  const std::shared_ptr<Table> table_;
  const std::shared_ptr<ReadAhead> read_ahead_;
  std::unique_ptr<MappedFile> mapping_;
  std::optional<level_zero::ImportedMemory> imported_;
};

Imports::Imports(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
                 std::shared_ptr<ReadAhead> read_ahead, Notice notice)
    : device_(std::move(device)),
      supported_(level_zero::ImportedMemory::Supported(*device_)),
      accounting_(std::move(accounting)),
      table_(std::make_shared<Table>(std::move(notice))),
      read_ahead_(std::move(read_ahead)) {}

bool Imports::CanImport(const Source& source, uint64_t offset, uint64_t bytes) const {
  if (!supported_ || !source.persistent() || !source.mappable() || bytes == 0) return false;
  if (offset > source.size() || bytes > source.size() - offset) return false;
  MutexLock lock(table_->mutex);
  return table_->Refusal(source.identity()).ok();
}

std::unique_ptr<ImportPlan> Imports::Plan(absl::Span<const ImportRange> ranges) {
  auto plan = std::make_unique<PlannedRegions>(table_);
  plan->Add(ranges);
  return plan;
}

absl::StatusOr<std::shared_ptr<const Imports::Region>> Imports::Acquire(
    std::shared_ptr<Source> source, uint64_t offset, uint64_t bytes) {
  if (!supported_) return absl::UnimplementedError("this driver cannot import files");
  if (!source->persistent())
    return absl::FailedPreconditionError(
        absl::StrCat(source->name(), ": a buffer shares its pages with others"));
  if (!source->mappable())
    return absl::FailedPreconditionError(
        absl::StrCat("'", source->name(), "' was opened to be read, not mapped"));
  NPUBANK_RETURN_IF_ERROR(source->CheckUnchanged());
  const std::string name = source->name();
  absl::StatusOr<Table::Found> found = table_->FindOrBegin(source->identity(), offset, bytes);
  if (!found.ok()) return Annotate(found.status(), name);
  if (found->region != nullptr) return found->region;
  auto made =
      std::make_shared<ImportedRegion>(std::move(source), *found, accounting_, table_, read_ahead_);
  NPUBANK_RETURN_IF_ERROR(Annotate(made->Import(device_), name));
  table_->Publish(found->begun, made);
  return std::shared_ptr<const Region>(std::move(made));
}

void Imports::Retry() {
  MutexLock lock(table_->mutex);
  table_->refused.clear();
}

void Imports::WillNeed(const Region& region, uint64_t offset, uint64_t bytes) {
  if (read_ahead_ == nullptr || region.source().in_memory()) return;
  read_ahead_->Add({region.AddressOf(offset), bytes});
}

}  // namespace npubank
