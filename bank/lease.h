// Lease: proof of residency. While it lives its tensor's bytes are complete and do not move.
//
//   NPUBANK_ASSIGN_OR_RETURN(Lease lease, bank->Get(uid));
//   graph.SetArgument(3, lease.address());
//
// Copyable (copies pin together); cheap. It keeps the bytes alive after its owner and even its bank
// handle are gone. Threads: distinct copies from any thread.
#ifndef NPUBANK_BANK_LEASE_H_
#define NPUBANK_BANK_LEASE_H_

#include <cstdint>
#include <memory>

#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

struct FileRange;  // device_memory.h

class Lease {
 public:
  // What a lease pins; the bank's entry implements it.
  class Pin {
   public:
    virtual ~Pin() = default;
    virtual void* address() const = 0;
    virtual const TensorType& type() const = 0;
    virtual Uid uid() const = 0;
    virtual const FileRange* file() const = 0;
  };

  Lease() = default;
  explicit Lease(std::shared_ptr<const Pin> pin) : pin_(std::move(pin)) {}

  explicit operator bool() const { return pin_ != nullptr; }
  void* address() const { return pin_->address(); }
  const TensorType& type() const { return pin_->type(); }
  Uid uid() const { return pin_->uid(); }
  // Where the bytes lie in a file, if they are the pages of one; else null. Valid while the lease
  // lives.
  const FileRange* file() const { return pin_->file(); }

 private:
  std::shared_ptr<const Pin> pin_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LEASE_H_
