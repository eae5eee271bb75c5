#include "npubank/bank/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kPage = 4096;

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using HostBytes = std::unique_ptr<std::byte, FreeBytes>;

}  // namespace

// Shared by the memory and its allocations, so that the count is right whichever goes first.
struct HostMemory::State {
  explicit State(Options o) : options(o) {}

  const Options options;
  mutable Mutex mutex;
  DeviceUsage usage ABSL_GUARDED_BY(mutex);
  Fault faults[3] ABSL_GUARDED_BY(mutex) = {};

  // Counts a call of this kind; true when it is the one that must fail.
  bool MustFail(Fault::Call call) {
    MutexLock lock(mutex);
    Fault& fault = faults[static_cast<int>(call)];
    if (fault.nth == 0) return false;
    if (fault.nth > 1) {
      --fault.nth;
      return false;
    }
    if (!fault.forever) fault.nth = 0;
    return true;
  }

  absl::Status Take(uint64_t bytes, absl::string_view name) {
    MutexLock lock(mutex);
    if (bytes > options.capacity || usage.live_bytes > options.capacity - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("no room for '", name, "': ", bytes,
                                                       " bytes wanted, ", usage.live_bytes, " of ",
                                                       options.capacity, " in use"));
    }
    usage.live_bytes += bytes;
    usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
    ++usage.live_allocations;
    return absl::OkStatus();
  }

  void Return(uint64_t bytes) {
    MutexLock lock(mutex);
    usage.live_bytes -= bytes;
    --usage.live_allocations;
  }
};

class HostMemory::Allocation final : public DeviceAllocation {
 public:
  Allocation(std::shared_ptr<State> state, HostBytes memory, uint64_t bytes, uint64_t reserved)
      : state_(std::move(state)), memory_(std::move(memory)), bytes_(bytes), reserved_(reserved) {}
  ~Allocation() override {
    memory_.reset();
    state_->Return(reserved_);
  }

  void* address() const override { return memory_.get(); }
  uint64_t bytes() const override { return bytes_; }
  uint64_t reserved_bytes() const override { return reserved_; }
  absl::string_view strategy() const override { return "host"; }
  absl::Span<std::byte> host_bytes() override {
    return state_->options.host_writable ? contents() : absl::Span<std::byte>();
  }
  absl::Span<std::byte> contents() { return absl::MakeSpan(memory_.get(), bytes_); }

 private:
  std::shared_ptr<State> state_;
  HostBytes memory_;
  uint64_t bytes_;
  uint64_t reserved_;
};

HostMemory::HostMemory() : HostMemory(Options()) {}
HostMemory::HostMemory(Options options) : state_(std::make_shared<State>(options)) {}
HostMemory::~HostMemory() = default;

absl::StatusOr<std::unique_ptr<DeviceAllocation>> HostMemory::Allocate(uint64_t bytes,
                                                                       absl::string_view name) {
  return HostMemory::AllocateAs(bytes, name, {});
}

absl::Status HostMemory::CheckHints(const MemoryHints& hints) const {
  if (hints.alignment <= kMostAlignment && hints.pool == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("host memory puts nothing ", hints.ToString(),
                                               ": its addresses are multiples of up to ",
                                               kMostAlignment, ", and it has no pools"));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> HostMemory::AllocateAs(uint64_t bytes,
                                                                         absl::string_view name,
                                                                         const MemoryHints& hints) {
  NPUBANK_RETURN_IF_ERROR(HostMemory::CheckHints(hints));
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("allocating 0 bytes for '", name, "'"));
  }
  if (state_->MustFail(Fault::Call::kAllocate)) {
    return absl::ResourceExhaustedError(absl::StrCat("injected: no room for '", name, "'"));
  }
  if (bytes > ~uint64_t{0} - kPage) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for '", name, "': ", bytes, " bytes"));
  }
  const uint64_t reserved = AlignUp(bytes, kPage);
  const uint64_t alignment = std::max(kPage, hints.alignment);
  NPUBANK_RETURN_IF_ERROR(state_->Take(reserved, name));
  void* bytes_of_host = nullptr;  // not aligned_alloc, whose sizes are multiples of the alignment
  if (posix_memalign(&bytes_of_host, alignment, reserved) != 0) bytes_of_host = nullptr;
  HostBytes memory(static_cast<std::byte*>(bytes_of_host));
  if (memory == nullptr) {
    state_->Return(reserved);
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no room for '", name, "': ", reserved, " bytes"));
  }
  return std::make_unique<Allocation>(state_, std::move(memory), bytes, reserved);
}

absl::Status HostMemory::Write(DeviceAllocation& memory, ProduceBytes produce) {
  if (state_->MustFail(Fault::Call::kWrite)) return absl::InternalError("injected: write failed");
  absl::Span<std::byte> contents = static_cast<Allocation&>(memory).contents();
  if (state_->options.host_writable) return produce(0, contents);
  std::vector<std::byte> staging(
      std::min<uint64_t>(contents.size(), std::max<uint64_t>(state_->options.staging_bytes, 1)));
  for (uint64_t offset = 0; offset < contents.size(); offset += staging.size()) {
    const size_t piece = std::min<uint64_t>(staging.size(), contents.size() - offset);
    NPUBANK_RETURN_IF_ERROR(produce(offset, absl::MakeSpan(staging.data(), piece)));
    std::memcpy(contents.data() + offset, staging.data(), piece);
  }
  return absl::OkStatus();
}

absl::Status HostMemory::Read(DeviceAllocation& memory, uint64_t offset,
                              absl::Span<std::byte> out) {
  if (state_->MustFail(Fault::Call::kRead)) return absl::InternalError("injected: read failed");
  const absl::Span<std::byte> contents = static_cast<Allocation&>(memory).contents();
  if (offset > contents.size() || out.size() > contents.size() - offset) {
    return absl::OutOfRangeError(absl::StrCat("reading [", offset, ", +", out.size(),
                                              ") of an allocation of ", contents.size(), " bytes"));
  }
  if (!out.empty()) std::memcpy(out.data(), contents.data() + offset, out.size());
  return absl::OkStatus();
}

DeviceUsage HostMemory::Usage() const {
  MutexLock lock(state_->mutex);
  DeviceUsage usage = state_->usage;
  usage.asked_bytes = usage.live_bytes;  // this driver counts pages
  return usage;
}

absl::StatusOr<uint64_t> HostMemory::DriverBytes() const { return Usage().live_bytes; }

void HostMemory::InjectFault(Fault fault) {
  MutexLock lock(state_->mutex);
  state_->faults[static_cast<int>(fault.call)] = fault;
}

}  // namespace npubank
