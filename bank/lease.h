// Lease: proof of residency. While it lives its tensor's bytes are complete and do not move.
//
//   NPUBANK_ASSIGN_OR_RETURN(Lease lease, bank->Get(uid));
//   graph.SetArgument(3, lease.address());
//   if (const FileRange* file = lease.file()) ...       // another program may map the same pages
//   absl::Span<const std::byte> bytes = lease.host_bytes();   // empty where the host cannot read them
//
// Copyable (copies pin together); cheap. It keeps the bytes alive after its owner and even its bank
// handle are gone. Threads: distinct copies from any thread.
#ifndef NPUBANK_BANK_LEASE_H_
#define NPUBANK_BANK_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

class Lease {
 public:
  // What a lease pins; the bank's entry implements it.
  class Pin {
   public:
    virtual ~Pin() = default;
    virtual DeviceAllocation* memory() const = 0;  // null for a tensor of 0 bytes
    virtual const TensorType& type() const = 0;
    virtual Uid uid() const = 0;
    virtual const Digest& stamp() const = 0;
  };

  Lease() = default;
  explicit Lease(std::shared_ptr<const Pin> pin) : pin_(std::move(pin)) {}

  explicit operator bool() const { return pin_ != nullptr; }
  // What a graph argument takes; null for a tensor of 0 bytes. Never dereference it.
  void* address() const { return memory() == nullptr ? nullptr : memory()->address(); }
  const TensorType& type() const { return pin_->type(); }
  Uid uid() const { return pin_->uid(); }
  // Of the sources that the bytes were made from (LazyTensor::stamp).
  const Digest& stamp() const { return pin_->stamp(); }
  uint64_t bytes() const { return type().bytes(); }
  // What the tensor costs on the device: rounded as the strategy says; shared with equal contents.
  uint64_t device_bytes() const { return memory() == nullptr ? 0 : memory()->reserved_bytes(); }
  // How the device memory came to be: "placed", "imported", ...; empty for a tensor of 0 bytes.
  absl::string_view strategy() const {
    return memory() == nullptr ? absl::string_view() : memory()->strategy();
  }
  // Where the bytes lie in a file, if they are the pages of one; else null. Valid while the lease
  // lives.
  const FileRange* file() const { return memory() == nullptr ? nullptr : memory()->file(); }
  // The bytes themselves where the host may touch them, else empty. Valid while the lease lives; others
  // use them too, so they are only read.
  absl::Span<const std::byte> host_bytes() const {
    if (memory() == nullptr) return {};
    return memory()->host_bytes();
  }
  const std::shared_ptr<const Pin>& pin() const { return pin_; }

 private:
  DeviceAllocation* memory() const { return pin_->memory(); }

  std::shared_ptr<const Pin> pin_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LEASE_H_
