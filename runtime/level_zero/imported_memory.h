// ImportedMemory: pages of the host's that the device uses where they are, to read only.
//
//   if (ImportedMemory::Supported(*device)) {
//     NPUBANK_ASSIGN_OR_RETURN(auto file, ImportedMemory::Create(device, mapping, bytes));
//     graph.SetArgument(0, mapping + offset);     // any pointer inside
//   }
//
// Source of the format: ZE_extension_external_memmap_sysmem, a structure of type 0x00020037 chained
// to the host allocation's description; read-only is spelled BIAS_WRITE_COMBINED. Pointer and size
// are widened to pages of 4 KiB, and a page can be imported only once, so import whole mappings.
// Map files MAP_SHARED and PROT_READ: a read-only pin of a private mapping copies it.
// Ownership: the mapping must outlive this; the destructor unpins the pages.
// Errors: Unimplemented where the driver cannot; ResourceExhausted when the system would not pin
// the pages, whatever its reason; InvalidArgument when one of them is imported already.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_IMPORTED_MEMORY_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_IMPORTED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank::level_zero {

class ImportedMemory {
 public:
  // Whether the driver lists the extension: a kernel may refuse all the same.
  static bool Supported(const Device& device);
  static absl::StatusOr<ImportedMemory> Create(std::shared_ptr<Device> device, const void* memory,
                                               uint64_t bytes);
  ImportedMemory(ImportedMemory&& other) noexcept
      : device_(std::move(other.device_)),
        address_(std::exchange(other.address_, nullptr)),
        live_(std::move(other.live_)) {}
  ImportedMemory& operator=(ImportedMemory&&) = delete;
  ~ImportedMemory();

 private:
  ImportedMemory() = default;
  std::shared_ptr<Device> device_;
  void* address_ = nullptr;
  LiveObject live_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_IMPORTED_MEMORY_H_
