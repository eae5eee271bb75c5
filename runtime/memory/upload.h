// Staging: moves bytes between the host and device memory that the host cannot touch.
//
//   Staging staging(device, accounting, [&] { strategy->Trim(); });
//   NPUBANK_RETURN_IF_ERROR(staging.Upload(address, bytes, produce));
//   staging.Trim();                      // an idle bank needs no ring
//
// A ring is two host buffers with a command list each: while the device copies one piece, the next
// is produced. Its buffers are as large as the first tensor, kLeastPieceBytes to kPieceBytes. A
// ring that worked is kept for the next tensor, since making one costs as much as copying a few
// MiB; at most kKeptRings are, until Trim. Where there is no room, `make_room` is called and the
// least ring tried. Threads: any; calls at the same time have a ring each. No lock is held over a
// driver call. Errors: of `produce` and of the driver; on return nothing is in flight, and a ring
// that failed is gone.
#ifndef NPUBANK_RUNTIME_MEMORY_UPLOAD_H_
#define NPUBANK_RUNTIME_MEMORY_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/accounting.h"

namespace npubank {

class Staging {
 public:
  static constexpr uint64_t kPieceBytes = 4 << 20;
  static constexpr uint64_t kLeastPieceBytes = 64 << 10;
  static constexpr size_t kKeptRings = 2;

  Staging(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
          std::function<void()> make_room);
  ~Staging();

  absl::Status Upload(void* to, uint64_t bytes, ProduceBytes produce);
  absl::Status Download(const void* from, absl::Span<std::byte> out);
  // Gives back the rings that are kept; how many bytes that was.
  uint64_t Trim();

 private:
  class Ring;
  using Rings = std::vector<std::unique_ptr<Ring>>;

  absl::StatusOr<std::unique_ptr<Ring>> TakeRing(uint64_t bytes);
  void KeepRing(std::unique_ptr<Ring> ring);

  const std::shared_ptr<level_zero::Device> device_;
  const std::shared_ptr<Accounting> accounting_;
  const std::function<void()> make_room_;
  Mutex mutex_;
  Rings rings_ ABSL_GUARDED_BY(mutex_);  // kept, idle
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_UPLOAD_H_
