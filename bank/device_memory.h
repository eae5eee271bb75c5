// DeviceMemory: the bank's only view of a device: allocate, write, read, count.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto memory, device.Allocate(bytes, "wq"));
//   NPUBANK_RETURN_IF_ERROR(device.Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
//     return EvaluateRange(recipe, offset, out, {});
//   }));
//   graph.SetArgument(2, memory->address());
//
// Implementations: HostMemory (bank/host_memory.h, plain memory) and the Level Zero ones under
// runtime/memory. Ownership: an allocation frees itself; it must not outlive its DeviceMemory.
// Threads: all methods may be called from any thread; one allocation is written by one thread at a
// time.
// Errors: ResourceExhausted when the device has no room (free something and retry); Internal or
// Unavailable with the driver's words otherwise. A failed call leaves nothing behind.
#ifndef NPUBANK_BANK_DEVICE_MEMORY_H_
#define NPUBANK_BANK_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

class Source;  // lazy_tensor/sources/source.h

// Where an allocation lies in a file: whoever else has that file, another process too, may use the
// same pages. `descriptor` and `path` are the file's as it was opened; either may be missing.
struct FileRange {
  int descriptor = -1;  // open while the allocation lives, and not the caller's to close; -1: none
  std::string path;     // may name another file by now; empty for a file that never had a name
  const Source* source = nullptr;  // the same file, to ask whether it changed; null: nobody knows
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool page_aligned = false;  // the offset is a multiple of 4096: it can be mapped as it is
};

// A range of device memory; freed on destruction.
class DeviceAllocation {
 public:
  virtual ~DeviceAllocation() = default;
  // What a graph argument takes. Never dereference it: see host_bytes().
  virtual void* address() const = 0;
  virtual uint64_t bytes() const = 0;           // as asked for
  virtual uint64_t reserved_bytes() const = 0;  // what it costs: rounded as the strategy says
  virtual absl::string_view strategy()
      const = 0;  // "committed", "placed", "tiled", "imported", "host"
  // The memory itself where the host may write it; empty where it may not.
  virtual absl::Span<std::byte> host_bytes() = 0;
  // The file that the memory is the pages of; null for memory that lies in no file. Valid while the
  // allocation lives.
  virtual const FileRange* file() const { return nullptr; }
};

// Where a tensor should lie, from whoever registers it. A hint is met or refused by name, never ignored.
struct MemoryHints {
  // What its address must be a multiple of: a power of two. 0: what traits() says of every address,
  // which holds beside any hint.
  uint64_t alignment = 0;
  // Which of the memory's own pools it belongs in, by a number that means something to that memory
  // alone. 0: any.
  uint64_t pool = 0;

  bool operator==(const MemoryHints&) const = default;
  // Whether what lies where these say lies where `others` say, too.
  bool Cover(const MemoryHints& others) const {
    return alignment >= others.alignment && (others.pool == 0 || pool == others.pool);
  }
  bool MetBy(const void* address) const {
    return alignment == 0 || reinterpret_cast<uintptr_t>(address) % alignment == 0;
  }
  std::string ToString() const;  // "at a multiple of 4096, in pool 2"
};

// What does not change while a DeviceMemory lives: what is compiled for it may depend on it.
struct DeviceMemoryTraits {
  // What the address of every allocation, imported ones too, is a multiple of: device and compiler
  // may rely on it.
  uint64_t argument_alignment = 64;
  // Whether Import can succeed at all.
  bool imports = false;
};

// A range of a source that a load is going to import.
struct ImportRange {
  Digest source;  // its identity: the source need not be open yet
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What a load said it was going to import; kept by the load until its imports are made.
class ImportPlan {
 public:
  virtual ~ImportPlan() = default;
};

struct DeviceUsage {
  uint64_t live_bytes = 0;  // reserved bytes of live allocations
  uint64_t peak_bytes = 0;
  uint64_t live_allocations = 0;
  // What the driver gave for them: live bytes, and what is kept for reuse or staging. 0 in memory
  // that does not count it.
  uint64_t held_bytes = 0;
  uint64_t peak_held_bytes = 0;
  // Bytes of imported allocations. They are a file's pages and are in none of the counts above.
  uint64_t imported_bytes = 0;
  // What a driver's own count must have at least: what was asked of it for the held bytes, without
  // rounding, and the pages that are imported for all these allocations. 0 in memory that does not
  // count it.
  uint64_t asked_bytes = 0;
  uint64_t pinned_bytes = 0;
};

// Produces the bytes [offset, offset + out.size()) of what is being written. `out` is write-only.
using ProduceBytes = absl::FunctionRef<absl::Status(uint64_t offset, absl::Span<std::byte> out)>;

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // For messages: which memory it is, when there are several.
  virtual std::string name() const { return "device memory"; }

  // `name` appears in errors and in the driver's leak reports. Zero bytes is InvalidArgument.
  virtual absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                                     absl::string_view name) = 0;

  // Whether this memory can do what `hints`, whose alignment is a power of two or 0, say: Unimplemented,
  // with what it can do. By default that is an alignment which every address has, and no pool. A cheap
  // question: it is asked when a tensor is registered.
  virtual absl::Status CheckHints(const MemoryHints& hints) const;
  // Allocate, where `hints` say; what it cannot do is refused as CheckHints does. By default it asks
  // that and then Allocate: who overrides one of the two overrides both.
  virtual absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                                       absl::string_view name,
                                                                       const MemoryHints& hints);

  // Makes the pages of a file the device's memory, without a copy; Unimplemented where the driver
  // cannot: then Allocate and Write. FailedPrecondition when this range does not meet the device's
  // alignment.
  virtual absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source,
                                                                   uint64_t offset, uint64_t bytes,
                                                                   absl::string_view name);

  // Whether Import of this range is expected to succeed, so that a load can plan its room before it
  // evaluates anything. Asks neither driver nor file: it costs a look-up, and what it says may turn
  // out wrong (a kernel that refuses, a file that changed), when the caller needs room after all.
  virtual bool CanImport(const Source& source, uint64_t offset, uint64_t bytes) const;

  // Called once per load, before its imports, with the ranges that it is going to import: those
  // that touch become one import, and nothing else of their files is made device memory. Imports
  // that were not planned work as well, each by itself, and a planned one that is not made costs
  // nothing. Null where nothing is imported.
  virtual std::unique_ptr<ImportPlan> PlanImports(absl::Span<const ImportRange> ranges);

  virtual DeviceMemoryTraits traits() const { return {}; }

  // Fills all of `memory`, in one piece or several, in ascending order; returns when the bytes are
  // there. An error of `produce` comes back as it is.
  virtual absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) = 0;

  // Copies [offset, offset + out.size()) of `memory` to the host.
  virtual absl::Status Read(DeviceAllocation& memory, uint64_t offset,
                            absl::Span<std::byte> out) = 0;

  // Gives back to the driver what is kept for reuse. The bank calls it when a load is done, and
  // when an owner was dropped or put to sleep.
  virtual void Trim() {}

  // What this object believes it holds.
  virtual DeviceUsage Usage() const = 0;
  // What the driver says the context holds, for audits; Unimplemented where it cannot be asked.
  virtual absl::StatusOr<uint64_t> DriverBytes() const = 0;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_DEVICE_MEMORY_H_
