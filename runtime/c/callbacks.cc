// An embedder's device memory and threads, behind the interfaces that the bank knows.
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/c/handles.h"

namespace npubank::c {
namespace {

constexpr uint64_t kPiece = 1 << 20;  // what is written at a time where the host cannot

// What allocations keep, also when the memory is gone.
class Embedder {
 public:
  explicit Embedder(const npubank_memory_callbacks& callbacks)
      : calls(callbacks), name(callbacks.name == nullptr ? "device memory" : callbacks.name) {}
  ~Embedder() {
    if (calls.drop != nullptr) calls.drop(calls.user);
  }

  void Count(uint64_t bytes) {
    MutexLock lock(mutex_);
    ++usage_.live_allocations;
    usage_.live_bytes += bytes;
    usage_.peak_bytes = std::max(usage_.peak_bytes, usage_.live_bytes);
  }
  void Discount(uint64_t bytes) {
    MutexLock lock(mutex_);
    --usage_.live_allocations;
    usage_.live_bytes -= bytes;
  }
  DeviceUsage usage() const {
    MutexLock lock(mutex_);
    return usage_;
  }

  const npubank_memory_callbacks calls;
  const std::string name;

 private:
  mutable Mutex mutex_;
  DeviceUsage usage_ ABSL_GUARDED_BY(mutex_);
};

class EmbeddersAllocation final : public DeviceAllocation {
 public:
  EmbeddersAllocation(std::shared_ptr<Embedder> embedder, const npubank_allocation& given,
                      uint64_t bytes)
      : embedder_(std::move(embedder)),
        given_(given),
        bytes_(bytes),
        reserved_(given.reserved_bytes == 0 ? bytes : given.reserved_bytes) {
    embedder_->Count(reserved_);
  }
  ~EmbeddersAllocation() override {
    embedder_->calls.release(embedder_->calls.user, given_.handle);
    embedder_->Discount(reserved_);
  }

  void* handle() const { return given_.handle; }
  void* address() const override { return given_.address; }
  uint64_t bytes() const override { return bytes_; }
  uint64_t reserved_bytes() const override { return reserved_; }
  absl::string_view strategy() const override { return "embedder"; }
  absl::Span<std::byte> host_bytes() override {
    if (given_.host_bytes == nullptr) return {};
    return {static_cast<std::byte*>(given_.host_bytes), bytes_};
  }

 private:
  const std::shared_ptr<Embedder> embedder_;
  const npubank_allocation given_;
  const uint64_t bytes_, reserved_;
};

class EmbeddersMemory final : public DeviceMemory {
 public:
  explicit EmbeddersMemory(const npubank_memory_callbacks& callbacks)
      : embedder_(std::make_shared<Embedder>(callbacks)) {}

  std::string name() const override { return embedder_->name; }
  DeviceMemoryTraits traits() const override {
    const uint64_t alignment = embedder_->calls.argument_alignment;
    return {.argument_alignment = alignment == 0 ? 64 : alignment};
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override {
    return AllocateAs(bytes, name, {});
  }
  absl::Status CheckHints(const MemoryHints& hints) const override {
    return embedder_->calls.allocate_with != nullptr ? absl::OkStatus()
                                                     : DeviceMemory::CheckHints(hints);
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                               absl::string_view name,
                                                               const MemoryHints& hints) override {
    NPUBANK_RETURN_IF_ERROR(CheckHints(hints));
    if (bytes == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "': 0 bytes of device memory"));
    }
    const npubank_memory_callbacks& calls = embedder_->calls;
    const std::string tensor(name);
    npubank_allocation given = {};
    given.struct_size = sizeof(given);
    const npubank_memory_hints asked = {sizeof(asked), hints.alignment, hints.pool};
    NPUBANK_RETURN_IF_ERROR(TakeStatus(
        hints == MemoryHints() || calls.allocate_with == nullptr
            ? calls.allocate(calls.user, bytes, tensor.c_str(), &given)
            : calls.allocate_with(calls.user, bytes, tensor.c_str(), &asked, &given)));
    return std::make_unique<EmbeddersAllocation>(embedder_, given, bytes);
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    if (const auto host = memory.host_bytes(); !host.empty()) return produce(0, host);
    if (embedder_->calls.write == nullptr) return Missing("write");
    std::vector<std::byte> piece(std::min(memory.bytes(), kPiece));
    for (uint64_t done = 0; done < memory.bytes(); done += piece.size()) {
      piece.resize(std::min<uint64_t>(piece.size(), memory.bytes() - done));
      NPUBANK_RETURN_IF_ERROR(produce(done, absl::MakeSpan(piece)));
      NPUBANK_RETURN_IF_ERROR(TakeStatus(embedder_->calls.write(
          embedder_->calls.user, HandleOf(memory), done, piece.data(), piece.size())));
    }
    return absl::OkStatus();
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    if (!RangeFits(offset, out.size(), memory.bytes())) {
      return absl::OutOfRangeError(
          absl::StrCat("reading ", out.size(), " bytes at ", offset, " of ", memory.bytes()));
    }
    if (out.empty()) return absl::OkStatus();
    if (const auto host = memory.host_bytes(); !host.empty()) {
      std::memcpy(out.data(), host.data() + offset, out.size());
      return absl::OkStatus();
    }
    if (embedder_->calls.read == nullptr) return Missing("read");
    return TakeStatus(embedder_->calls.read(embedder_->calls.user, HandleOf(memory), offset,
                                            out.data(), out.size()));
  }
  void Trim() override {
    if (embedder_->calls.trim != nullptr) embedder_->calls.trim(embedder_->calls.user);
  }
  DeviceUsage Usage() const override { return embedder_->usage(); }
  absl::StatusOr<uint64_t> DriverBytes() const override {
    return absl::UnimplementedError("an embedder's memory has no driver to ask");
  }

 private:
  static void* HandleOf(DeviceAllocation& memory) {
    return static_cast<EmbeddersAllocation&>(memory).handle();
  }
  absl::Status Missing(const char* callback) const {
    return absl::UnimplementedError(absl::StrCat(embedder_->name, " has no callback '", callback,
                                                 "', nor host_bytes in place of it"));
  }

  const std::shared_ptr<Embedder> embedder_;
};

class EmbeddersThreads final : public Workers {
 public:
  explicit EmbeddersThreads(const npubank_executor& executor) : executor_(executor) {}
  ~EmbeddersThreads() override {
    if (executor_.drop != nullptr) executor_.drop(executor_.user);
  }
  int count() const override { return executor_.count; }

 private:
  void Run(int64_t times, absl::FunctionRef<void()> work) override {
    const auto call = [](void* argument) {
      (*static_cast<absl::FunctionRef<void()>*>(argument))();
    };
    executor_.run(executor_.user, times, call, &work);
  }
  const npubank_executor executor_;
};

}  // namespace

std::shared_ptr<DeviceMemory> WrapMemory(const npubank_memory_callbacks& callbacks) {
  return std::make_shared<EmbeddersMemory>(callbacks);
}

std::shared_ptr<Workers> WrapExecutor(const npubank_executor& executor) {
  return std::make_shared<EmbeddersThreads>(executor);
}

}  // namespace npubank::c
