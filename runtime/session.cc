#include "npubank/runtime/session.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

constexpr uint64_t kMostCacheBytes = uint64_t{1} << 46;  // more than any device addresses

}  // namespace

int32_t Argmax(absl::Span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

absl::StatusOr<std::unique_ptr<Session>> Session::Load(std::shared_ptr<Npu> npu,
                                                       std::shared_ptr<Bank> bank,
                                                       absl::Span<const std::string> blobs,
                                                       std::shared_ptr<const SourceIndex> index,
                                                       const SessionOptions& options) {
  if (npu == nullptr || bank == nullptr || index == nullptr || blobs.empty()) {
    return absl::InvalidArgumentError(
        "a session needs an NPU, a bank on its memory, an index and at least one submodel");
  }
  std::unique_ptr<Session> session(new Session);
  session->npu_ = std::move(npu);
  session->bank_ = std::move(bank);
  session->model_ = absl::StrCat("model ", index->listing());
  for (const std::string& blob : blobs) {
    NPUBANK_ASSIGN_OR_RETURN(Submodel submodel,
                             Submodel::Load(session->bank_, blob, options.name, index));
    NPUBANK_RETURN_IF_ERROR(session->AddSubmodel(std::move(submodel)));
  }
  NPUBANK_RETURN_IF_ERROR(session->Wake(options.evaluate));
  return session;
}

std::vector<const Owner*> Session::Owners() const {
  std::vector<const Owner*> owners;
  for (const Submodel& submodel : submodels_) owners.push_back(&submodel.owner());
  return owners;
}

void Session::Pause() {
  imported_ = {};
  for (Submodel& submodel : submodels_) submodel.Unpin();
  workspace_.reset();
  awake_ = false;
}

absl::StatusOr<SleepReport> Session::Sleep(const SleepOptions& options) {
  Pause();
  NPUBANK_ASSIGN_OR_RETURN(const SleepReport report, bank_->Sleep(Owners(), options));
  cache_.reset();
  position_ = 0;
  return report;
}

absl::Status Session::Wake(const LoadOptions& options) {
  if (awake_) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Lease> leases, bank_->Load(Owners(), options));
  NPUBANK_RETURN_IF_ERROR(Submodel::Pin(absl::MakeSpan(submodels_), leases));
  for (const Lease& lease : leases) imported_.Add(lease.file());
  awake_ = true;
  return absl::OkStatus();
}

absl::Status Session::AddSubmodel(Submodel submodel) {
  const SubmodelBlob& blob = submodel.blob();
  const bool first = submodels_.empty();
  if (!first && (static_cast<int64_t>(blob.context) != context_ ||
                 static_cast<int64_t>(blob.vocabulary) != vocabulary_))
    return absl::InvalidArgumentError(
        absl::StrCat("submodel ", blob.name, " has a context of ", blob.context,
                     " and a vocabulary of ", blob.vocabulary, ", the others ", context_, " and ",
                     vocabulary_, ": compile them for the same model and context"));
  context_ = blob.context;
  vocabulary_ = blob.vocabulary;
  largest_chunk_ = std::max<int64_t>(largest_chunk_, blob.chunk);
  arena_bytes_ = std::max(arena_bytes_, blob.arena_bytes);
  for (const SubmodelValue& value : blob.values)
    if (value.placement == Placement::kState) NPUBANK_RETURN_IF_ERROR(AddState(value));
  submodels_.push_back(std::move(submodel));
  return absl::OkStatus();
}

absl::Status Session::AddState(const SubmodelValue& value) {
  auto [at, added] = states_.try_emplace(value.name, State{value.type, cache_bytes_});
  if (added) {
    const uint64_t bytes = value.type.bytes();
    if (bytes > kMostCacheBytes - cache_bytes_)
      return absl::InvalidArgumentError(
          absl::StrCat("state ", value.name, " of ", bytes, " bytes makes the cache larger than ",
                       kMostCacheBytes, " bytes: the submodel's blob is damaged"));
    cache_bytes_ += AlignUp(bytes, npu_->memory()->traits().argument_alignment);
  } else if (at->second.type != value.type) {
    return absl::InvalidArgumentError(absl::StrCat("state ", value.name, " is ",
                                                   value.type.ToString(), " in one submodel and ",
                                                   at->second.type.ToString(), " in another"));
  }
  return absl::OkStatus();
}

uint64_t Session::device_bytes() const {
  uint64_t bytes = 0;
  for (const auto* allocation : {workspace_ ? workspace_->arena.get() : nullptr, cache_.get()})
    if (allocation) bytes += allocation->reserved_bytes();
  return bytes;
}

absl::Status Session::Prepare() {
  NPUBANK_RETURN_IF_ERROR(Wake());
  if (workspace_) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Workspace> workspace, MakeWorkspace());
  if (!cache_) {
    NPUBANK_ASSIGN_OR_RETURN(cache_, Allocate(cache_bytes_, "key/value cache"));
  }
  workspace_ = std::move(workspace);
  return absl::OkStatus();
}

// Weights that nobody runs on make room for what running needs.
absl::StatusOr<std::unique_ptr<DeviceAllocation>> Session::Allocate(uint64_t bytes,
                                                                    absl::string_view what) const {
  if (bytes == 0) return std::unique_ptr<DeviceAllocation>();
  auto memory = npu_->memory()->Allocate(bytes, what);
  if (absl::IsResourceExhausted(memory.status()) && bank_->Evict(bytes))
    memory = npu_->memory()->Allocate(bytes, what);
  return memory;
}

absl::StatusOr<std::unique_ptr<Session::Workspace>> Session::MakeWorkspace() const {
  using level_zero::Buffer;
  NPUBANK_ASSIGN_OR_RETURN(level_zero::CommandQueue queue,
                           level_zero::CommandQueue::Create(npu_->device()));
  auto made = std::make_unique<Workspace>(Workspace{{}, {}, {}, {}, std::move(queue)});
  NPUBANK_ASSIGN_OR_RETURN(made->arena, Allocate(arena_bytes_, "activation arena"));
  // What the host writes and reads each run is host memory: device memory is slow to read.
  NPUBANK_ASSIGN_OR_RETURN(
      made->tokens,
      Buffer::AllocateHost(npu_->device(), largest_chunk_ * sizeof(int32_t), "tokens"));
  NPUBANK_ASSIGN_OR_RETURN(made->span,
                           Buffer::AllocateHost(npu_->device(), 2 * sizeof(int32_t), "span"));
  NPUBANK_ASSIGN_OR_RETURN(
      made->logits, Buffer::AllocateHost(npu_->device(), vocabulary_ * sizeof(float), "logits"));
  return made;
}

absl::StatusOr<void*> Session::Place(const SubmodelValue& value) const {
  if (value.placement == Placement::kState)
    return static_cast<std::byte*>(cache_->address()) + states_.at(value.name).offset;
  const level_zero::Buffer* buffer = value.name == "tokens"   ? &workspace_->tokens
                                     : value.name == "span"   ? &workspace_->span
                                     : value.name == "logits" ? &workspace_->logits
                                                              : nullptr;
  if (!buffer || buffer->size() < static_cast<uint64_t>(value.type.bytes()))
    return absl::InvalidArgumentError(absl::StrCat(
        "value ", value.name, " (", value.type.ToString(), ") is not one that a session provides"));
  return buffer->address();
}

// The smallest chunk that holds all the tokens; where none does, the largest.
Submodel& Session::Choose(size_t tokens) {
  Submodel* choice = &submodels_.front();
  for (Submodel& candidate : submodels_) {
    const bool fits = candidate.blob().chunk >= tokens;
    const bool choice_fits = choice->blob().chunk >= tokens;
    const bool smaller = candidate.blob().chunk < choice->blob().chunk;
    if (fits != choice_fits ? fits : fits == smaller) choice = &candidate;
  }
  return *choice;
}

absl::StatusOr<absl::Span<const float>> Session::Feed(absl::Span<const int32_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("no tokens to feed");
  if (static_cast<int64_t>(tokens.size()) > context_ - position_)
    return absl::InvalidArgumentError(absl::StrCat(
        tokens.size(), " tokens at position ", position_, " do not fit the context of ", context_,
        ": shorten the prompt or compile with a larger context"));
  for (int32_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, " is outside the vocabulary of ", vocabulary_));
  NPUBANK_RETURN_IF_ERROR(Prepare());
  const int64_t start = position_;
  while (!tokens.empty()) {
    Submodel& submodel = Choose(tokens.size());
    const size_t count = std::min<size_t>(tokens.size(), submodel.blob().chunk);
    absl::Status status = RunChunk(submodel, tokens.subspan(0, count));
    if (!status.ok()) {
      position_ = start;  // the cache beyond it is never read
      return status;
    }
    tokens.remove_prefix(count);
  }
  return absl::Span<const float>(static_cast<const float*>(workspace_->logits.address()),
                                 vocabulary_);
}

absl::Status Session::RunChunk(Submodel& submodel, absl::Span<const int32_t> tokens) {
  if (!submodel.recorded()) {
    Submodel::Places places;
    places.arena = workspace_->arena ? workspace_->arena->address() : nullptr;
    places.value = [this](const SubmodelValue& value) { return Place(value); };
    NPUBANK_RETURN_IF_ERROR(submodel.Record(npu_->device(), workspace_->queue, places));
  }
  std::memcpy(workspace_->tokens.address(), tokens.data(), tokens.size() * sizeof(int32_t));
  const int32_t span[] = {static_cast<int32_t>(position_), static_cast<int32_t>(tokens.size())};
  std::memcpy(workspace_->span.address(), span, sizeof(span));
  NPUBANK_RETURN_IF_ERROR(imported_.CheckUnchanged(model_));
  NPUBANK_RETURN_IF_ERROR(submodel.Run(workspace_->queue));
  position_ += tokens.size();
  return absl::OkStatus();
}

}  // namespace npubank
