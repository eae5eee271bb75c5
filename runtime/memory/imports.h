// Imports: pages of files that are device memory, each region of them imported once however many
// tensors lie in it.
//
//   Imports imports(device, accounting, std::make_shared<ReadAhead>(), notice);
//   std::unique_ptr<ImportPlan> plan = imports.Plan(ranges);     // what a load is going to import
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Imports::Region> region,
//                            imports.Acquire(source, offset, bytes));
//   region->AddressOf(offset);         // valid for the device while `region` lives
//
// An import takes every page of its range into memory and keeps it there, so only what is needed is
// imported: the pages of the range that is asked for, or, while a plan lives, of all planned ranges
// that touch it. What lies in a region that is alive already shares it, whichever plan or load made
// it and through whichever Source of the same identity. A driver refuses a pointer inside an
// imported page; so each region has a mapping of the file of its own, and regions that share a page
// of the file do not meet. The Source is kept alive by its regions, without counting as held by a
// recipe (retention.h). The last user gone, the pages are given back to the system.
//
// A driver may list the extension and yet refuse a file, as a kernel without it, or with too few
// addresses, does. It is not asked again for that file until Retry, and `notice` is told of the
// first refusal.
//
// Read-ahead: a thread of its own asks the system for the pages that tensors lie in, in the order of
// WillNeed, so that the first inference does not wait for the disk; what is in memory is not asked
// for. What is queued is dropped with the region's last user. Threads: any; two that want a new region
// at once share one import, and no lock is held over it. Errors: FailedPrecondition when this source's
// pages cannot be the device's (a buffer, a file that is not mapped, one that the system will not map
// or pin): copy it instead; Unimplemented when no file's can; DataLoss when the file has changed.
#ifndef NPUBANK_RUNTIME_MEMORY_IMPORTS_H_
#define NPUBANK_RUNTIME_MEMORY_IMPORTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/page_ranges.h"
#include "npubank/runtime/memory/read_ahead.h"

namespace npubank {

class Imports {
 public:
  // Pages of a file, imported.
  class Region {
   public:
    virtual ~Region() = default;
    const Source& source() const { return *source_; }
    // Of a byte of the file that the region has.
    const std::byte* AddressOf(uint64_t offset) const {
      return bytes_.data() + (offset - pages_.begin);
    }

   protected:
    Region(std::shared_ptr<Source> source, PageRange pages)
        : source_(std::move(source)), pages_(pages) {}
    const std::shared_ptr<Source> source_;
    const PageRange pages_;
    absl::Span<const std::byte> bytes_;
  };

  using Notice = std::function<void(absl::string_view)>;
  // Without a read-ahead pages come when the device first asks for them.
  Imports(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
          std::shared_ptr<ReadAhead> read_ahead, Notice notice);

  // Whether the driver says that it can import at all.
  bool supported() const { return supported_; }
  // Whether Acquire is expected to succeed, as far as is known without asking anybody.
  bool CanImport(const Source& source, uint64_t offset, uint64_t bytes) const;

  // What is imported while the plan lives is joined as planned. What is alive already is not
  // imported again, and stays while the plan lives.
  std::unique_ptr<ImportPlan> Plan(absl::Span<const ImportRange> ranges);
  // The range lies in the source and is not empty.
  absl::StatusOr<std::shared_ptr<const Region>> Acquire(std::shared_ptr<Source> source,
                                                        uint64_t offset, uint64_t bytes);
  // Files that were refused may be asked for again.
  void Retry();
  // The device will read these bytes of an acquired region's file soon.
  void WillNeed(const Region& region, uint64_t offset, uint64_t bytes);

 private:
  struct Table;
  class ImportedRegion;
  class PlannedRegions;

  const std::shared_ptr<level_zero::Device> device_;
  const bool supported_;
  const std::shared_ptr<Accounting> accounting_;
  const std::shared_ptr<Table> table_;
  const std::shared_ptr<ReadAhead> read_ahead_;  // or null
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_IMPORTS_H_
