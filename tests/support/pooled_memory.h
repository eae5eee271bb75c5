// PooledMemory: host memory that takes hints literally: an address is a multiple of what was asked for
// and of no more, and pools 1 and 2 are told apart by a lease's strategy(). It imports files' pages where
// a test wants that, and its N-th calls fail.
//
//   auto memory = std::make_shared<PooledMemory>();
//   memory->imports = true;                                   // at pages
//   memory->Fail({.call = PooledMemory::Call::kWrite, .nth = 3});
//   ... lease.strategy() == "pool 1" ...                      // "host" for any, "imported"
//
// Set what is set before the memory is used from several threads. Threads else: any.
#ifndef NPUBANK_TESTS_SUPPORT_POOLED_MEMORY_H_
#define NPUBANK_TESTS_SUPPORT_POOLED_MEMORY_H_

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/mapped_file.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class PooledMemory final : public DeviceMemory {
 public:
  static constexpr uint64_t kPage = 4096, kLeast = 64, kMost = 2 << 20, kPools = 2;
  enum class Call { kAllocate, kWrite };
  struct Fault {
    Call call = Call::kAllocate;
    uint64_t nth = 0;  // 1 is the next call; 0: none
    bool forever = false;
  };

  bool imports = false;
  uint64_t imports_off_by = 0;  // what imported addresses miss their page by
  std::function<void()> on_write;

  void Fail(Fault fault) {
    MutexLock lock(books_->mutex);
    books_->faults[static_cast<int>(fault.call)] = fault;
  }

  std::string name() const override { return "pooled"; }
  DeviceMemoryTraits traits() const override {
    return {.argument_alignment = kLeast, .imports = imports};
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override {
    return AllocateAs(bytes, name, {});
  }
  absl::Status CheckHints(const MemoryHints& hints) const override {
    if (hints.alignment <= kMost && hints.pool <= kPools) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("pooled memory puts nothing ", hints.ToString()));
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                               absl::string_view name,
                                                               const MemoryHints& hints) override {
    NPUBANK_RETURN_IF_ERROR(CheckHints(hints));
    if (books_->MustFail(Call::kAllocate))
      return absl::UnavailableError(absl::StrCat("no memory for ", name));
    // An odd multiple.
    const uint64_t alignment = std::max(hints.alignment, kLeast);
    auto* const memory = static_cast<std::byte*>(
        std::aligned_alloc(2 * alignment, AlignUp(bytes + alignment, 2 * alignment)));
    if (memory == nullptr) return absl::ResourceExhaustedError("the host has no room");
    return std::make_unique<Block>(books_, memory, absl::MakeSpan(memory + alignment, bytes),
                                   hints.pool);
  }
  bool CanImport(const Source& source, uint64_t offset, uint64_t) const override {
    return imports && source.mappable() && offset % kPage == 0;
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source,
                                                           uint64_t offset, uint64_t bytes,
                                                           absl::string_view) override {
    if (!CanImport(*source, offset, bytes)) return absl::FailedPreconditionError("not at a page");
    auto mapping = MappedFile::Map(source->descriptor(), bytes, offset);
    if (mapping == nullptr) return absl::FailedPreconditionError("it cannot be mapped");
    return std::make_unique<Pages>(books_, std::move(source), std::move(mapping), imports_off_by);
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    if (on_write) on_write();
    if (books_->MustFail(Call::kWrite)) return absl::UnavailableError("the write failed");
    return produce(0, memory.host_bytes());
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > memory.bytes() || out.size() > memory.bytes() - offset)
      return absl::OutOfRangeError("beyond the tensor");
    std::memcpy(out.data(), static_cast<std::byte*>(memory.address()) + offset, out.size());
    return absl::OkStatus();
  }
  DeviceUsage Usage() const override {
    MutexLock lock(books_->mutex);
    return books_->usage;
  }
  absl::StatusOr<uint64_t> DriverBytes() const override { return Usage().live_bytes; }

 private:
  struct Books {
    mutable Mutex mutex;
    DeviceUsage usage ABSL_GUARDED_BY(mutex);
    Fault faults[2] ABSL_GUARDED_BY(mutex);

    bool MustFail(Call call) {
      MutexLock lock(mutex);
      Fault& fault = faults[static_cast<int>(call)];
      if (fault.nth == 0) return false;
      if (fault.nth > 1) return --fault.nth, false;
      if (!fault.forever) fault.nth = 0;
      return true;
    }
    void Count(uint64_t live, uint64_t imported) {  // or off again
      MutexLock lock(mutex);
      usage.live_bytes += live;
      usage.asked_bytes += live;
      usage.imported_bytes += imported;
      usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
    }
    void CountOne(uint64_t one) {
      MutexLock lock(mutex);
      usage.live_allocations += one;
    }
  };
  class Allocated : public DeviceAllocation {
   public:
    Allocated(std::shared_ptr<Books> books, uint64_t live, uint64_t imported)
        : books_(std::move(books)), live_(live), imported_(imported) {
      books_->Count(live_, imported_);
      books_->CountOne(1);
    }
    ~Allocated() override {
      books_->Count(-live_, -imported_);
      books_->CountOne(-uint64_t{1});
    }
    uint64_t bytes() const override { return live_ + imported_; }
    uint64_t reserved_bytes() const override { return live_; }

   private:
    const std::shared_ptr<Books> books_;
    const uint64_t live_, imported_;
  };
  class Block final : public Allocated {
   public:
    Block(std::shared_ptr<Books> books, std::byte* memory, absl::Span<std::byte> bytes,
          uint64_t pool)
        : Allocated(std::move(books), bytes.size(), 0),
          memory_(memory),
          bytes_(bytes),
          pool_(pool == 0 ? "host" : absl::StrCat("pool ", pool)) {}
    ~Block() override { std::free(memory_); }
    void* address() const override { return bytes_.data(); }
    absl::string_view strategy() const override { return pool_; }
    absl::Span<std::byte> host_bytes() override { return bytes_; }

   private:
    std::byte* const memory_;
    const absl::Span<std::byte> bytes_;
    const std::string pool_;
  };
  class Pages final : public Allocated {
   public:
    Pages(std::shared_ptr<Books> books, std::shared_ptr<Source> source,
          std::unique_ptr<MappedFile> mapping, uint64_t off_by)
        : Allocated(std::move(books), 0, mapping->bytes().size()),
          source_(std::move(source)),
          mapping_(std::move(mapping)),
          off_by_(off_by) {}
    void* address() const override {
      return const_cast<std::byte*>(mapping_->bytes().data()) + off_by_;
    }
    absl::string_view strategy() const override { return "imported"; }
    absl::Span<std::byte> host_bytes() override { return {}; }

   private:
    const std::shared_ptr<Source> source_;
    const std::unique_ptr<MappedFile> mapping_;
    const uint64_t off_by_;
  };

  const std::shared_ptr<Books> books_ = std::make_shared<Books>();
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_POOLED_MEMORY_H_
