#include "npubank/bank/loading/load_walk.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

LoadWalk::LoadWalk(const Registry& registry, const Sleepers& sleepers, const Loader& loader,
                   absl::Span<const Owner* const> owners)
    : registry_(registry), sleepers_(sleepers), loader_(loader) {
  for (const Owner* owner : owners) owners_.push_back(owner->id());
  what_ = absl::StrCat("loading ", absl::StrJoin(owners, ", ", [](std::string* out, auto* owner) {
                         absl::StrAppend(out, "'", owner->name(), "'");
                       }));
}

absl::Status LoadWalk::Run(const LoadOptions& options) {
  NPUBANK_RETURN_IF_ERROR(sleepers_.BeginLoad(owners_));
  absl::Status status = FindTensors();
  if (status.ok()) status = Admit(options);
  if (status.ok()) status = Walk(options);
  if (!status.ok()) load_.leases.clear();
  sleepers_.EndLoad(owners_, status.ok());  // what sleepers brought back before a failure goes again
  return status;
}

absl::Status LoadWalk::FindTensors() {
  absl::flat_hash_set<uint64_t> seen;
  for (const uint64_t owner : owners_) {
    NPUBANK_ASSIGN_OR_RETURN(std::vector<OwnedTensor> tensors, registry_.TensorsOf(owner));
    for (OwnedTensor& tensor : tensors) {
      if (seen.insert(tensor.uid.value).second) tensors_.push_back(std::move(tensor));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadWalk::Admit(const LoadOptions& options) {
  std::vector<Uid> uids;
  for (const OwnedTensor& tensor : tensors_) uids.push_back(tensor.uid);
  absl::StatusOr<AdmittedLoad> load = loader_.Admit(uids, what_, options);
  if (!load.ok()) return UnlessReleased(load.status(), "its load waited for room");
  load_ = *std::move(load);
  return absl::OkStatus();
}

absl::Status LoadWalk::Walk(const LoadOptions& options) {
  std::vector<SourceIndex::Use> uses;  // a file is opened once for all of the load
  for (const uint64_t owner : owners_) uses.emplace_back(registry_.IndexOf(owner));
  LoadProgress progress;
  std::vector<bool> was_resident;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    was_resident.push_back(static_cast<bool>(load_.leases[i]));
    if (!was_resident[i]) progress.bytes_total += tensors_[i].bytes;
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const OwnedTensor& tensor = tensors_[i];
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(absl::StrCat("cancelled before tensor '", tensor.name, "'"));
    }
    NPUBANK_RETURN_IF_ERROR(UnlessReleased(
        loader_.MakeResident(tensor.uid, load_.leases[i], load_, options.cancelled),
        absl::StrCat("tensor '", tensor.name, "' was loading")));
    if (was_resident[i]) continue;
    progress.bytes_done += tensor.bytes;
    progress.tensor = tensor.name;
    if (options.progress) options.progress(progress);
  }
  return absl::OkStatus();
}

absl::Status LoadWalk::UnlessReleased(const absl::Status& status, absl::string_view when) const {
  for (const uint64_t owner : owners_) {
    if (registry_.HasOwner(owner)) continue;
    return absl::CancelledError(absl::StrCat("the owner was released while ", when));
  }
  return status;
}

}  // namespace npubank
