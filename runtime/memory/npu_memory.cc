#include "runtime/memory/npu_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lazy_tensor/mutex.h"
#include "lazy_tensor/status_macros.h"
#include "runtime/level_zero/buffer.h"

namespace npubank {
namespace {

constexpr uint64_t kPageBytes = 4096;  // what NPU drivers round every allocation to

}  // namespace

struct NpuMemory::Books {
  mutable Mutex mutex;
  DeviceUsage usage ABSL_GUARDED_BY(mutex);

  void Charge(uint64_t bytes) {
    MutexLock lock(mutex);
    usage.live_bytes += bytes;
    usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
    ++usage.live_allocations;
  }
  void Discharge(uint64_t bytes) {
    MutexLock lock(mutex);
    usage.live_bytes -= bytes;
    --usage.live_allocations;
  }
};

class NpuMemory::Allocation : public DeviceAllocation {
 public:
  Allocation(level_zero::Buffer buffer, bool host_writable, std::shared_ptr<Books> books)
      : buffer_(std::move(buffer)), host_writable_(host_writable), books_(std::move(books)) {
    books_->Charge(reserved_bytes());
  }
  ~Allocation() override {
    const uint64_t reserved = reserved_bytes();
    buffer_ = level_zero::Buffer();
    books_->Discharge(reserved);
  }

  void* address() const override { return buffer_.address(); }
  uint64_t bytes() const override { return buffer_.size(); }
  uint64_t reserved_bytes() const override {
    return (buffer_.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  absl::string_view strategy() const override { return "committed"; }
  absl::Span<std::byte> host_bytes() override {
    return host_writable_ ? buffer_.bytes() : absl::Span<std::byte>();
  }

 private:
  level_zero::Buffer buffer_;
  bool host_writable_;
  std::shared_ptr<Books> books_;
};

NpuMemory::NpuMemory(std::shared_ptr<level_zero::Device> device)
    : device_(device), books_(std::make_shared<Books>()), staging_(std::move(device)) {}

absl::StatusOr<std::shared_ptr<NpuMemory>> NpuMemory::Create(
    std::shared_ptr<level_zero::Device> device) {
  return std::shared_ptr<NpuMemory>(new NpuMemory(std::move(device)));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> NpuMemory::Allocate(uint64_t bytes,
                                                                      absl::string_view name) {
  if (bytes == 0)
    return absl::InvalidArgumentError(absl::StrCat(name, ": an allocation of zero bytes"));
  NPUBANK_ASSIGN_OR_RETURN(level_zero::Buffer buffer,
                           level_zero::Buffer::AllocateDevice(device_, bytes, name));
  return std::make_unique<Allocation>(std::move(buffer), device_->integrated(), books_);
}

absl::Status NpuMemory::Write(DeviceAllocation& memory, ProduceBytes produce) {
  const absl::Span<std::byte> in_place = memory.host_bytes();
  if (!in_place.empty()) return produce(0, in_place);
  return staging_.Upload(memory.address(), memory.bytes(), produce);
}

absl::Status NpuMemory::Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) {
  if (offset > memory.bytes() || out.size() > memory.bytes() - offset)
    return absl::OutOfRangeError(absl::StrCat("reading ", out.size(), " bytes at ", offset,
                                              " of an allocation of ", memory.bytes()));
  const absl::Span<std::byte> in_place = memory.host_bytes();
  if (in_place.empty())
    return staging_.Download(static_cast<const std::byte*>(memory.address()) + offset, out);
  std::memcpy(out.data(), in_place.data() + offset, out.size());
  return absl::OkStatus();
}

DeviceUsage NpuMemory::Usage() const {
  MutexLock lock(books_->mutex);
  return books_->usage;
}

absl::StatusOr<uint64_t> NpuMemory::DriverBytes() const { return device_->AllocatedBytes(); }

}  // namespace npubank
