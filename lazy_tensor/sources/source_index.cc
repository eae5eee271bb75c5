#include "npubank/lazy_tensor/sources/source_index.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

SourceIndex::Use::Use(std::shared_ptr<const SourceIndex> index) : index_(std::move(index)) {
  if (index_ == nullptr) return;
  MutexLock lock(index_->mutex_);
  ++index_->uses_;
  for (Slot& slot : index_->files_) slot.kept = slot.open.lock();
}

SourceIndex::Use::~Use() {
  if (index_ == nullptr) return;
  std::vector<std::shared_ptr<Source>> closed;  // after the lock
  MutexLock lock(index_->mutex_);
  if (--index_->uses_ > 0) return;
  for (Slot& slot : index_->files_) closed.push_back(std::move(slot.kept));
}

absl::StatusOr<uint32_t> SourceIndex::AddFile(std::unique_ptr<SourceOpener> opener) {
  if (opener == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(listing_, ": file ", files_.size(), " has no opener"));
  }
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, opener->Open());
  if (source == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(listing_, ": an opener gave no source for file ", files_.size()));
  }
  Slot& slot = files_.emplace_back();
  slot.facts = {.name = source->name(),
                .identity = source->identity(),
                .samples = source->samples(),
                .size = source->size(),
                .persistent = source->persistent()};
  slot.opener = std::move(opener);
  EndOpening(slot, std::move(source));
  return static_cast<uint32_t>(files_.size() - 1);
}

absl::Status SourceIndex::Add(StoredTensor tensor) {
  if (tensor.file >= files_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(listing_, ": tensor '",
                                                   absl::CEscape(tensor.name), "' lies in file ",
                                                   tensor.file, " of ", files_.size()));
  }
  const File& in = file(tensor.file);
  const uint64_t bytes = tensor.type.bytes();
  if (tensor.offset > in.size || bytes > in.size - tensor.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        in.name, ": tensor '", absl::CEscape(tensor.name), "' (", tensor.type.ToString(),
        " at byte ", tensor.offset, ") lies beyond its ", in.size, " bytes"));
  }
  if (const StoredTensor* known = Find(tensor.name)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", absl::CEscape(tensor.name),
                                                   "' is in both ", file(known->file).name, " and ",
                                                   in.name));
  }
  tensors_.push_back(std::move(tensor));
  by_name_.emplace(tensors_.back().name, &tensors_.back());
  return absl::OkStatus();
}

const StoredTensor* SourceIndex::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<const StoredTensor*> SourceIndex::Get(absl::string_view name) const {
  if (const StoredTensor* tensor = Find(name)) return tensor;
  return absl::NotFoundError(
      absl::StrCat("tensor '", absl::CEscape(name), "' is not in ", listing_));
}

std::shared_ptr<Source> SourceIndex::AwaitOpen(Slot& slot) const {
  MutexLock lock(mutex_);
  for (;;) {
    if (std::shared_ptr<Source> source = slot.open.lock()) {
      if (uses_ > 0) slot.kept = source;
      return source;
    }
    if (!slot.opening) break;
    opened_.Wait(mutex_);
  }
  slot.opening = true;
  return nullptr;
}

void SourceIndex::EndOpening(Slot& slot, std::shared_ptr<Source> source) const {
  MutexLock lock(mutex_);
  slot.opening = false;
  opened_.NotifyAll();
  if (source == nullptr) return;
  ++opens_;
  slot.open = source;
  if (uses_ > 0) slot.kept = std::move(source);
}

absl::StatusOr<std::shared_ptr<Source>> SourceIndex::Open(uint32_t file) const {
  if (file >= files_.size()) {
    return absl::OutOfRangeError(
        absl::StrCat(listing_, ": file ", file, " of ", files_.size(), " is wanted"));
  }
  Slot& slot = files_[file];
  if (std::shared_ptr<Source> source = AwaitOpen(slot)) return source;
  absl::StatusOr<std::shared_ptr<Source>> opened = slot.opener->Open();
  if (opened.ok() && (*opened == nullptr || (*opened)->identity() != slot.facts.identity)) {
    opened = absl::DataLossError(absl::StrCat(
        slot.facts.name, " is not what it was when it was first opened: load the model again"));
  }
  EndOpening(slot, opened.ok() ? *opened : nullptr);
  return opened;
}

uint64_t SourceIndex::opens() const {
  MutexLock lock(mutex_);
  return opens_;
}

}  // namespace npubank
