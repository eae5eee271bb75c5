#include "npubank/bank/owner.h"

#include <utility>

namespace npubank {

Owner::Owner(std::shared_ptr<Ledger> ledger, uint64_t id, std::string name)
    : ledger_(std::move(ledger)), id_(id), name_(std::move(name)) {}

Owner::Owner(Owner&& other) noexcept
    : ledger_(std::move(other.ledger_)),
      id_(std::exchange(other.id_, 0)),
      name_(std::move(other.name_)) {}

Owner& Owner::operator=(Owner&& other) noexcept {
  if (this != &other) {
    Release();
    ledger_ = std::move(other.ledger_);
    id_ = std::exchange(other.id_, 0);
    name_ = std::move(other.name_);
  }
  return *this;
}

Owner::~Owner() { Release(); }

void Owner::Release() {
  // The ledger is let go of only after the call: it may be the last thing that keeps the bank
  // alive.
  const std::shared_ptr<Ledger> ledger = std::move(ledger_);
  ledger_ = nullptr;
  if (ledger != nullptr) ledger->ReleaseOwner(std::exchange(id_, 0));
}

}  // namespace npubank
