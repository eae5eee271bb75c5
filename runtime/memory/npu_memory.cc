#include "npubank/runtime/memory/npu_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/log.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/imports.h"
#include "npubank/runtime/memory/strategies/committed.h"
#include "npubank/runtime/memory/strategies/placed.h"
#include "npubank/runtime/memory/strategies/shared_tiles.h"
#include "npubank/runtime/memory/strategies/tiled.h"
#include "npubank/runtime/memory/upload.h"

namespace npubank {
namespace {

constexpr std::pair<MemoryStrategy, absl::string_view> kNames[] = {
    {MemoryStrategy::kAuto, "auto"},         {MemoryStrategy::kCommitted, "committed"},
    {MemoryStrategy::kPlaced, "placed"},     {MemoryStrategy::kTiled, "tiled"},
    {MemoryStrategy::kImported, "imported"},
};

void SayOnce(absl::string_view message) {
  static Mutex& mutex = *new Mutex;
  static auto& said = *new std::set<std::string>;
  {
    MutexLock lock(mutex);
    if (!said.insert(std::string(message)).second) return;
  }
  Log(message);
}

// What has been said, each thing once, and to whom.
class Notices {
 public:
  explicit Notices(std::function<void(absl::string_view)> sink) : sink_(std::move(sink)) {}

  void Say(absl::string_view text) {
    {
      MutexLock lock(mutex_);
      if (std::find(said_.begin(), said_.end(), text) != said_.end()) return;
      said_.emplace_back(text);
    }
    sink_(text);
  }
  std::vector<std::string> said() const {
    MutexLock lock(mutex_);
    return said_;
  }

 private:
  const std::function<void(absl::string_view)> sink_;
  mutable Mutex mutex_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<MemoryStrategy> MemoryStrategyFromName(absl::string_view name) {
  for (const auto& [strategy, known] : kNames)
    if (name == known) return strategy;
  return std::nullopt;
}

absl::string_view MemoryStrategyName(MemoryStrategy strategy) {
  for (const auto& [known, name] : kNames)
    if (strategy == known) return name;
  return "unknown";
}

// Shared with the allocations, so that the order in which all this goes does not matter.
struct NpuMemory::Core {
  Core(std::shared_ptr<level_zero::Device> opened, const NpuMemoryOptions& options)
      : device(std::move(opened)),
        alignment(*options.argument_alignment),
        notices(std::make_shared<Notices>(options.notice)),
        staging(device, accounting, [this] { strategy->Trim(); }) {}

  const std::shared_ptr<level_zero::Device> device;
  const uint64_t alignment;  // of every argument
  // Of what is allocated.
  uint64_t place_alignment() const { return std::max(alignment, kDeviceAlignment); }
  const std::shared_ptr<Notices> notices;
  const std::shared_ptr<Accounting> accounting = std::make_shared<Accounting>();
  Staging staging;
  MemoryStrategy chosen = MemoryStrategy::kCommitted;
  std::shared_ptr<Strategy> strategy;
  std::unique_ptr<Imports> imports;  // null: not wanted, or the driver cannot

  absl::Status ChoosePlaced();
  absl::Status ChooseTiled();
  void ChooseImports(bool read_ahead);
  // What is kept for reuse only.
  uint64_t MakeRoom() { return strategy->Trim() + staging.Trim(); }
  void Trim() {
    MakeRoom();
    if (imports) imports->Retry();
  }
};

absl::Status NpuMemory::Core::ChoosePlaced() {
  auto pages = std::make_shared<Committed>(device, accounting);
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t page_bytes, pages->PageBytes());
  chosen = MemoryStrategy::kPlaced;
  strategy =
      std::make_shared<Placed>(std::move(pages), Placed::Options::ForPages(page_bytes, place_alignment()));
  return absl::OkStatus();
}

absl::Status NpuMemory::Core::ChooseTiled() {
  absl::StatusOr<std::shared_ptr<Tiled>> tiled = Tiled::Create(device, accounting);
  if (absl::IsUnimplemented(tiled.status())) {
    notices->Say("this driver has no virtual memory: tensors are placed in slabs, not tiled");
    return ChoosePlaced();
  }
  NPUBANK_RETURN_IF_ERROR(tiled.status());
  chosen = MemoryStrategy::kTiled;
  strategy = std::make_shared<SharedTiles>(*tiled, (*tiled)->page_bytes(), place_alignment());
  return absl::OkStatus();
}

void NpuMemory::Core::ChooseImports(bool read_ahead) {
  imports =
      std::make_unique<Imports>(device, accounting, read_ahead ? std::make_shared<ReadAhead>() : nullptr,
                                [said = notices](absl::string_view text) { said->Say(text); });
  if (imports->supported()) return;
  notices->Say("this driver cannot import files: constants are copied to the device");
  imports.reset();
}

class NpuMemory::Allocation : public DeviceAllocation {
 public:
  void* address() const override { return address_; }
  uint64_t bytes() const override { return bytes_; }

  virtual absl::Status Write(ProduceBytes produce) = 0;
  // The range has been checked.
  virtual absl::Status Read(uint64_t offset, absl::Span<std::byte> out) = 0;

 protected:
  Allocation(std::shared_ptr<Core> core, std::byte* address, uint64_t bytes)
      : core_(std::move(core)), address_(address), bytes_(bytes) {}

  const std::shared_ptr<Core> core_;
  std::byte* const address_;
  const uint64_t bytes_;
};

class NpuMemory::OwnAllocation : public Allocation {
 public:
  OwnAllocation(std::shared_ptr<Core> core, std::unique_ptr<Block> block, uint64_t bytes)
      : Allocation(std::move(core), block->address(), bytes), block_(std::move(block)) {
    core_->accounting->Charge(reserved_bytes());
  }
  ~OwnAllocation() override {
    const uint64_t reserved = reserved_bytes();
    block_.reset();
    if (core_->accounting->Discharge(reserved) == 0) core_->Trim();
  }

  uint64_t reserved_bytes() const override { return block_->reserved_bytes(); }
  absl::string_view strategy() const override { return MemoryStrategyName(core_->chosen); }
  absl::Span<std::byte> host_bytes() override {
    if (!core_->device->integrated()) return {};
    return absl::MakeSpan(address_, bytes_);
  }
  absl::Status Write(ProduceBytes produce) override {
    const absl::Span<std::byte> in_place = host_bytes();
    if (!in_place.empty()) return produce(0, in_place);
    return core_->staging.Upload(address_, bytes_, produce);
  }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (host_bytes().empty()) return core_->staging.Download(address_ + offset, out);
    std::memcpy(out.data(), address_ + offset, out.size());
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Block> block_;
};

class NpuMemory::ImportedAllocation : public Allocation {
 public:
  ImportedAllocation(std::shared_ptr<Core> core, std::shared_ptr<const Imports::Region> region,
                     uint64_t offset, uint64_t bytes)
      // Level Zero takes pointers to non-const; the device only reads what is imported.
      : Allocation(std::move(core), const_cast<std::byte*>(region->AddressOf(offset)), bytes),
        region_(std::move(region)),
        range_({.descriptor = region_->source().descriptor(),
                .path = region_->source().name(),
                .source = &region_->source(),
                .offset = offset,
                .bytes = bytes,
                .page_aligned = offset % PageRange::kPageBytes == 0}) {
    core_->accounting->Charge(reserved_bytes(), bytes_);
  }
  ~ImportedAllocation() override {
    region_.reset();
    if (core_->accounting->Discharge(reserved_bytes(), bytes_) == 0) core_->Trim();
  }

  uint64_t reserved_bytes() const override { return 0; }
  absl::string_view strategy() const override {
    return MemoryStrategyName(MemoryStrategy::kImported);
  }
  absl::Span<std::byte> host_bytes() override { return {}; }
  const FileRange* file() const override { return &range_; }
  absl::Status Write(ProduceBytes) override {
    return absl::FailedPreconditionError(
        "an imported tensor is its file's pages and cannot be written: allocate instead");
  }
  // Through the file: in the mapping of a file that shrank there are zeros.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return region_->source().Read(range_.offset + offset, out);
  }

 private:
  std::shared_ptr<const Imports::Region> region_;
  const FileRange range_;
};

absl::StatusOr<std::shared_ptr<NpuMemory>> NpuMemory::Create(
    std::shared_ptr<level_zero::Device> device, NpuMemoryOptions options) {
  if (!options.argument_alignment.has_value())
    options.argument_alignment = device->argument_alignment();
  const uint64_t alignment = *options.argument_alignment;
  if (alignment > kMostDeviceAlignment || !std::has_single_bit(alignment))
    return absl::InvalidArgumentError(
        absl::StrCat("arguments at multiples of ", alignment,
                     ": choose a power of two up to ", kMostDeviceAlignment));
  if (!options.notice) options.notice = SayOnce;
  auto core = std::make_shared<Core>(std::move(device), options);
  switch (options.strategy) {
    case MemoryStrategy::kCommitted:
      core->strategy = std::make_shared<Committed>(core->device, core->accounting);
      break;
    case MemoryStrategy::kPlaced:
      NPUBANK_RETURN_IF_ERROR(core->ChoosePlaced());
      break;
    case MemoryStrategy::kTiled:
      NPUBANK_RETURN_IF_ERROR(core->ChooseTiled());
      break;
    case MemoryStrategy::kAuto:
    case MemoryStrategy::kImported:
      NPUBANK_RETURN_IF_ERROR(core->ChooseTiled());
      core->ChooseImports(options.read_ahead);
      break;
  }
  return std::shared_ptr<NpuMemory>(new NpuMemory(std::move(core)));
}

std::string NpuMemory::name() const {
  return absl::StrCat(core_->device->name(), ", ", MemoryStrategyName(strategy()));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> NpuMemory::Allocate(uint64_t bytes,
                                                                      absl::string_view name) {
  return AllocateAs(bytes, name, {});
}

absl::Status NpuMemory::CheckHints(const MemoryHints& hints) const {
  if (hints.alignment <= kMostDeviceAlignment && hints.pool == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(name(), " puts nothing ", hints.ToString(), ": what its driver gives lies at multiples of ",
                   kMostDeviceAlignment, ", and in no pools"));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> NpuMemory::AllocateAs(uint64_t bytes,
                                                                        absl::string_view name,
                                                                        const MemoryHints& hints) {
  NPUBANK_RETURN_IF_ERROR(CheckHints(hints));
  if (bytes == 0)
    return absl::InvalidArgumentError(absl::StrCat("allocating 0 bytes for '", name, "'"));
  if (bytes > Strategy::kMostBytes)
    return absl::ResourceExhaustedError(
        absl::StrCat("no device has room for '", name, "': ", bytes, " bytes"));
  const uint64_t alignment = std::max(core_->place_alignment(), hints.alignment);
  const auto allocate = [&] { return core_->strategy->Allocate(bytes, alignment, name); };
  absl::StatusOr<std::unique_ptr<Block>> block = allocate();
  if (absl::IsResourceExhausted(block.status()) && core_->MakeRoom() > 0) block = allocate();
  NPUBANK_RETURN_IF_ERROR(block.status());
  return std::make_unique<OwnAllocation>(core_, *std::move(block), bytes);
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> NpuMemory::Import(std::shared_ptr<Source> source,
                                                                    uint64_t offset, uint64_t bytes,
                                                                    absl::string_view name) {
  if (bytes == 0)
    return absl::InvalidArgumentError(absl::StrCat("importing 0 bytes for '", name, "'"));
  if (!core_->imports) return absl::UnimplementedError("files are not imported here");
  NPUBANK_RETURN_IF_ERROR(CheckRange(name, offset, bytes, source->size()));
  if (offset % core_->alignment != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("'", name, "' lies at byte ", offset, " of '", source->name(),
                     "': the device needs a multiple of ", core_->alignment));
  auto region = core_->imports->Acquire(std::move(source), offset, bytes);
  if (!region.ok()) return Annotate(region.status(), absl::StrCat("'", name, "'"));
  core_->imports->WillNeed(**region, offset, bytes);
  return std::make_unique<ImportedAllocation>(core_, *std::move(region), offset, bytes);
}

bool NpuMemory::CanImport(const Source& source, uint64_t offset, uint64_t bytes) const {
  return core_->imports != nullptr && offset % core_->alignment == 0 &&
         core_->imports->CanImport(source, offset, bytes);
}

std::unique_ptr<ImportPlan> NpuMemory::PlanImports(absl::Span<const ImportRange> ranges) {
  if (core_->imports == nullptr) return nullptr;
  std::vector<ImportRange> aligned;  // what is not is copied, and its pages stay out
  for (const ImportRange& range : ranges)
    if (range.offset % core_->alignment == 0) aligned.push_back(range);
  return core_->imports->Plan(aligned);
}

DeviceMemoryTraits NpuMemory::traits() const {
  return {.argument_alignment = core_->alignment, .imports = imports()};
}

absl::Status NpuMemory::Write(DeviceAllocation& memory, ProduceBytes produce) {
  return static_cast<Allocation&>(memory).Write(produce);
}

absl::Status NpuMemory::Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) {
  NPUBANK_RETURN_IF_ERROR(CheckRange("device memory", offset, out.size(), memory.bytes()));
  if (out.empty()) return absl::OkStatus();
  return static_cast<Allocation&>(memory).Read(offset, out);
}

DeviceUsage NpuMemory::Usage() const { return core_->accounting->usage(); }

absl::StatusOr<uint64_t> NpuMemory::DriverBytes() const { return core_->device->AllocatedBytes(); }

void NpuMemory::Trim() { core_->Trim(); }

MemoryStrategy NpuMemory::strategy() const { return core_->chosen; }

bool NpuMemory::imports() const { return core_->imports != nullptr; }

std::vector<std::string> NpuMemory::notices() const { return core_->notices->said(); }

}  // namespace npubank
