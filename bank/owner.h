// Owner: RAII, who registered: one per submodel.
//
//   Owner owner = bank->AddOwner("kvcache");
//   ...                   // register, evaluate, run
//   owner = Owner();      // its tensors are released; those nobody else wants leave the device
//
// Move-only. Dropping it while another thread evaluates for it is safe: that evaluation ends with
// Cancelled or publishes, and what nobody owns any more is given back.
#ifndef NPUBANK_BANK_OWNER_H_
#define NPUBANK_BANK_OWNER_H_

#include <cstdint>
#include <memory>
#include <string>

namespace npubank {

class Owner {
 public:
  // What a bank must do for its owners.
  class Ledger {
   public:
    virtual ~Ledger() = default;
    virtual void ReleaseOwner(uint64_t id) = 0;
  };

  Owner() = default;  // of nothing
  Owner(std::shared_ptr<Ledger> ledger, uint64_t id, std::string name);
  Owner(Owner&& other) noexcept;
  Owner& operator=(Owner&& other) noexcept;
  ~Owner();

  uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  bool BelongsTo(const Ledger* ledger) const {
    return ledger != nullptr && ledger_.get() == ledger;
  }
  // Releases now instead of on destruction. Idempotent.
  void Release();

 private:
  std::shared_ptr<Ledger> ledger_;
  uint64_t id_ = 0;
  std::string name_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_OWNER_H_
