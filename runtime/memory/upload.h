// Staging: moves bytes between the host and device memory that the host cannot touch.
//
//   Staging staging(device);
//   NPUBANK_RETURN_IF_ERROR(staging.Upload(address, bytes, produce));
//
// A ring of two host buffers of kPieceBytes: while the device copies one piece, the next is
// produced. The ring exists only while it is used, so an idle bank holds no staging memory.
// Threads: any; each call has a ring of its own. Errors: of `produce` and of the driver; on return
// nothing is in flight.
#ifndef NPUBANK_RUNTIME_MEMORY_UPLOAD_H_
#define NPUBANK_RUNTIME_MEMORY_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "bank/device_memory.h"
#include "runtime/level_zero/device.h"

namespace npubank {

class Staging {
 public:
  static constexpr uint64_t kPieceBytes = 4 << 20;

  explicit Staging(std::shared_ptr<level_zero::Device> device) : device_(std::move(device)) {}

  absl::Status Upload(void* to, uint64_t bytes, ProduceBytes produce) const;
  absl::Status Download(const void* from, absl::Span<std::byte> out) const;

 private:
  std::shared_ptr<level_zero::Device> device_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_UPLOAD_H_
