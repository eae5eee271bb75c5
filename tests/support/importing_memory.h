// ImportingMemory: HostMemory that can also import the pages of files, as an NPU's driver can: at whole
// pages, read-only.
//
//   auto memory = std::make_shared<ImportingMemory>();
#ifndef NPUBANK_TESTS_SUPPORT_IMPORTING_MEMORY_H_
#define NPUBANK_TESTS_SUPPORT_IMPORTING_MEMORY_H_

#include <atomic>
#include <memory>
#include <utility>

#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/sources/mapped_file.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class ImportingMemory final : public HostMemory {
 public:
  static constexpr uint64_t kPage = 4096;

  DeviceMemoryTraits traits() const override { return {.argument_alignment = 64, .imports = true}; }
  bool CanImport(const Source& source, uint64_t offset, uint64_t) const override {
    return source.persistent() && source.mappable() && offset % kPage == 0;
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source,
                                                           uint64_t offset, uint64_t bytes,
                                                           absl::string_view) override {
    if (!CanImport(*source, offset, bytes)) return absl::FailedPreconditionError("not at a page");
    auto mapping = MappedFile::Map(source->descriptor(), bytes, offset);
    if (mapping == nullptr) return absl::FailedPreconditionError("it cannot be mapped");
    *imported_ += bytes;
    return std::make_unique<Imported>(std::move(source), offset, std::move(mapping), imported_);
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    const auto* const imported = dynamic_cast<Imported*>(&memory);
    if (imported == nullptr) return HostMemory::Read(memory, offset, out);
    std::copy_n(imported->bytes_of().begin() + static_cast<ptrdiff_t>(offset), out.size(),
                out.begin());
    return absl::OkStatus();
  }
  DeviceUsage Usage() const override {
    DeviceUsage usage = HostMemory::Usage();
    usage.imported_bytes = *imported_;
    return usage;
  }

 private:
  class Imported final : public DeviceAllocation {
   public:
    Imported(std::shared_ptr<Source> source, uint64_t offset, std::unique_ptr<MappedFile> mapping,
             std::shared_ptr<std::atomic<uint64_t>> counted)
        : source_(std::move(source)), mapping_(std::move(mapping)), counted_(std::move(counted)) {
      range_ = {.descriptor = source_->descriptor(),
                .path = "",
                .source = source_.get(),
                .offset = offset,
                .bytes = bytes(),
                .page_aligned = true};
    }
    ~Imported() override { *counted_ -= bytes(); }
    absl::Span<const std::byte> bytes_of() const { return mapping_->bytes(); }
    void* address() const override { return const_cast<std::byte*>(mapping_->bytes().data()); }
    uint64_t bytes() const override { return mapping_->bytes().size(); }
    uint64_t reserved_bytes() const override { return 0; }
    absl::string_view strategy() const override { return "imported"; }
    absl::Span<std::byte> host_bytes() override { return {}; }
    const FileRange* file() const override { return &range_; }

   private:
    const std::shared_ptr<Source> source_;
    const std::unique_ptr<MappedFile> mapping_;
    const std::shared_ptr<std::atomic<uint64_t>> counted_;
    FileRange range_;
  };

  const std::shared_ptr<std::atomic<uint64_t>> imported_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_IMPORTING_MEMORY_H_
