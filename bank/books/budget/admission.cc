#include "npubank/bank/books/budget/admission.h"

#include <algorithm>
#include <utility>

#include "npubank/bank/books/waiting.h"

namespace npubank {

Admission::Room::Room(std::shared_ptr<Admission> admission, uint64_t bytes)
    : admission_(std::move(admission)), bytes_(bytes) {}

Admission::Room::Room(Room&& other) noexcept
    : admission_(std::move(other.admission_)), bytes_(std::exchange(other.bytes_, 0)) {}

Admission::Room::~Room() {
  if (admission_ == nullptr) return;
  MutexLock lock(admission_->mutex_);
  admission_->used_ -= bytes_;
}

Admission::Pass::~Pass() {
  MutexLock lock(admission_->mutex_);
  if (granted_ == 0) return;  // nobody waits for a load that held nothing
  admission_->used_ -= unspent_;
  admission_->granted_ -= granted_;
  ++admission_->changes_;
  admission_->changed_.NotifyAll();
}

uint64_t Admission::Pass::Take(uint64_t bytes, std::optional<Room>& room) {
  const uint64_t missing = admission_->Spend(*this, bytes);
  if (missing == 0) room.emplace(Room(admission_, bytes));
  return missing;
}

uint64_t Admission::Pass::Grow(Room& room, uint64_t bytes) {
  if (bytes <= room.bytes_) return 0;
  const uint64_t missing = admission_->Spend(*this, bytes - room.bytes_);
  if (missing == 0) room.bytes_ = bytes;
  return missing;
}

uint64_t Admission::Pass::unspent() const {
  MutexLock lock(admission_->mutex_);
  return unspent_;
}

Admission::Answer Admission::Ask(uint64_t bytes) {
  auto pass = std::make_unique<Pass>(shared_from_this());
  MutexLock lock(mutex_);
  if (bytes > free()) {
    return {.pass = nullptr, .missing = bytes - free(), .may_come = granted_, .seen = changes_};
  }
  used_ += bytes;
  granted_ += bytes;
  pass->unspent_ = pass->granted_ = bytes;
  return {.pass = std::move(pass)};
}

bool Admission::AwaitChange(uint64_t seen, const std::function<bool()>& cancelled) {
  {
    MutexLock lock(mutex_);
    if (changes_ == seen) ++waits_;
  }
  for (;;) {
    if (cancelled && cancelled()) return false;
    MutexLock lock(mutex_);
    if (changes_ == seen) WaitOnce(changed_, mutex_, cancelled != nullptr);
    if (changes_ != seen) return true;
  }
}

uint64_t Admission::Spend(Pass& pass, uint64_t bytes) {
  MutexLock lock(mutex_);
  const uint64_t reserved = std::min(bytes, pass.unspent_);
  const uint64_t beyond = bytes - reserved;
  if (beyond > free()) return beyond - free();
  pass.unspent_ -= reserved;
  used_ += beyond;
  pass.granted_ += beyond;
  granted_ += beyond;
  return 0;
}

uint64_t Admission::SetLimit(uint64_t limit) {
  MutexLock lock(mutex_);
  if (limit < used_) return used_ - limit;
  if (limit > std::exchange(limit_, limit)) {
    ++changes_;
    changed_.NotifyAll();
  }
  return 0;
}

Admission::Usage Admission::usage() const {
  MutexLock lock(mutex_);
  return {.limit = limit_, .used = used_, .waits = waits_};
}

}  // namespace npubank
