#include "npubank/runtime/submodel_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

constexpr uint64_t kMostStateBytes = uint64_t{1} << 46;  // more than any device addresses

// What a user knows the weights by: the first submodel's that has any.
std::string ModelOf(absl::Span<const SubmodelDescription> descriptions) {
  for (const SubmodelDescription& description : descriptions)
    if (description.recipes != nullptr && description.recipes->index() != nullptr)
      return absl::StrCat("model '", description.recipes->index()->listing(), "'");
  return "submodels without weights";
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubmodelGroup>> SubmodelGroup::Register(
    std::shared_ptr<Npu> npu, std::shared_ptr<Bank> bank,
    std::vector<SubmodelDescription> descriptions, absl::string_view model) {
  if (npu == nullptr || bank == nullptr || descriptions.empty())
    return absl::InvalidArgumentError(
        "submodels run on an NPU, with a bank on its memory, and there must be one at least");
  std::unique_ptr<SubmodelGroup> group(new SubmodelGroup);
  group->npu_ = std::move(npu);
  group->bank_ = std::move(bank);
  group->model_ = ModelOf(descriptions);
  for (SubmodelDescription& description : descriptions) {
    NPUBANK_ASSIGN_OR_RETURN(Submodel submodel,
                             Submodel::Load(group->bank_, std::move(description), model));
    NPUBANK_RETURN_IF_ERROR(group->Add(std::move(submodel)));
  }
  return group;
}

absl::Status SubmodelGroup::Add(Submodel submodel) {
  arena_bytes_ = std::max(arena_bytes_, submodel.description().arena_bytes);
  for (const Value& value : submodel.description().values) {
    if (value.placement == SubmodelDescription::Placement::kState)
      NPUBANK_RETURN_IF_ERROR(AddState(value));
    if (value.placement == SubmodelDescription::Placement::kInput ||
        value.placement == SubmodelDescription::Placement::kOutput) {
      uint64_t& bytes = buffer_bytes_[value.name];
      bytes = std::max(bytes, value.type.bytes());
    }
  }
  submodels_.push_back(std::move(submodel));
  return absl::OkStatus();
}

absl::Status SubmodelGroup::AddState(const Value& value) {
  auto [at, added] = states_.try_emplace(value.name, State{value.type, state_bytes_});
  if (added) {
    const uint64_t bytes = value.type.bytes();
    if (bytes > kMostStateBytes - state_bytes_)
      return absl::InvalidArgumentError(
          absl::StrCat("state '", value.name, "' of ", bytes, " bytes makes the states larger than ",
                       kMostStateBytes, " bytes: the submodel is damaged"));
    state_bytes_ += AlignUp(bytes, npu_->memory()->traits().argument_alignment);
  } else if (at->second.type != value.type) {
    return absl::InvalidArgumentError(absl::StrCat("state '", value.name, "' is ",
                                                   value.type.ToString(), " in one submodel and ",
                                                   at->second.type.ToString(), " in another"));
  }
  return absl::OkStatus();
}

std::vector<const Owner*> SubmodelGroup::Owners() const {
  std::vector<const Owner*> owners;
  for (const Submodel& submodel : submodels_) owners.push_back(&submodel.owner());
  return owners;
}

absl::Status SubmodelGroup::MakeFunctions() {
  const uint64_t alignment = npu_->memory()->traits().argument_alignment;
  for (Submodel& submodel : submodels_) {
    NPUBANK_RETURN_IF_ERROR(submodel.MakeFunctions(npu_->device()));
    for (const Value& value : submodel.description().values)
      if (value.offset % alignment != 0)
        return absl::InvalidArgumentError(absl::StrCat(
            submodel.Title(), ": value '", value.name, "' lies at offset ", value.offset,
            " of the arena, but the device wants addresses at multiples of ", alignment));
  }
  return absl::OkStatus();
}

absl::Status SubmodelGroup::Wake(const LoadOptions& options) {
  if (awake_) return absl::OkStatus();
  const auto start = std::chrono::steady_clock::now();
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Lease> leases, bank_->Load(Owners(), options));
  wake_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  NPUBANK_RETURN_IF_ERROR(Submodel::Pin(absl::MakeSpan(submodels_), leases));
  for (const Lease& lease : leases) imported_.Add(lease.file());
  awake_ = true;
  return absl::OkStatus();
}

void SubmodelGroup::Pause() {
  imported_ = {};
  for (Submodel& submodel : submodels_) submodel.Unpin();
  workspace_.reset();
  awake_ = false;
}

absl::StatusOr<SleepReport> SubmodelGroup::Sleep(const SleepOptions& options) {
  Pause();
  NPUBANK_ASSIGN_OR_RETURN(const SleepReport report, bank_->Sleep(Owners(), options));
  state_memory_.reset();
  return report;
}

absl::Status SubmodelGroup::Prepare() {
  NPUBANK_RETURN_IF_ERROR(Wake());
  if (workspace_) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Workspace> workspace, MakeWorkspace());
  if (!state_memory_) {
    NPUBANK_ASSIGN_OR_RETURN(state_memory_, Allocate(state_bytes_, "states"));
  }
  workspace_ = std::move(workspace);
  return absl::OkStatus();
}

// Weights that nobody runs on make room for what running needs.
absl::StatusOr<std::unique_ptr<DeviceAllocation>> SubmodelGroup::Allocate(
    uint64_t bytes, absl::string_view what) const {
  if (bytes == 0) return std::unique_ptr<DeviceAllocation>();
  auto memory = npu_->memory()->Allocate(bytes, what);
  if (absl::IsResourceExhausted(memory.status()) && bank_->Evict(bytes))
    memory = npu_->memory()->Allocate(bytes, what);
  return memory;
}

absl::StatusOr<std::unique_ptr<SubmodelGroup::Workspace>> SubmodelGroup::MakeWorkspace() const {
  NPUBANK_ASSIGN_OR_RETURN(level_zero::CommandQueue queue,
                           level_zero::CommandQueue::Create(npu_->device()));
  auto made = std::make_unique<Workspace>(Workspace{{}, {}, std::move(queue)});
  NPUBANK_ASSIGN_OR_RETURN(made->arena, Allocate(arena_bytes_, "activation arena"));
  // What the host writes and reads each run is host memory: device memory is slow to read.
  for (const auto& [name, bytes] : buffer_bytes_) {
    NPUBANK_ASSIGN_OR_RETURN(made->buffers[name],
                             level_zero::Buffer::AllocateHost(npu_->device(), bytes, name));
  }
  return made;
}

absl::StatusOr<void*> SubmodelGroup::Place(const Value& value) const {
  if (value.placement == SubmodelDescription::Placement::kState)
    return static_cast<std::byte*>(state_memory_->address()) + states_.at(value.name).offset;
  return workspace_->buffers.find(value.name)->second.address();
}

absl::Status SubmodelGroup::Run(size_t number) {
  if (!workspace_)
    return absl::FailedPreconditionError("prepare the submodels before running them");
  if (number >= submodels_.size())
    return absl::InvalidArgumentError(
        absl::StrCat("submodel ", number, " of ", submodels_.size(), " is not there"));
  Submodel& submodel = submodels_[number];
  if (!submodel.recorded()) {
    Submodel::Places places;
    places.arena = workspace_->arena ? workspace_->arena->address() : nullptr;
    places.value = [this](const Value& value) { return Place(value); };
    NPUBANK_RETURN_IF_ERROR(submodel.Record(npu_->device(), workspace_->queue, places));
  }
  NPUBANK_RETURN_IF_ERROR(imported_.CheckUnchanged(model_));
  return submodel.Run(workspace_->queue);
}

absl::Span<std::byte> SubmodelGroup::Buffer(absl::string_view name) const {
  if (!workspace_) return {};
  const auto found = workspace_->buffers.find(name);
  return found == workspace_->buffers.end() ? absl::Span<std::byte>() : found->second.bytes();
}

absl::Status SubmodelGroup::SetStates(const std::map<std::string, std::string>& bytes) {
  for (const auto& [name, content] : bytes) {
    const auto state = states_.find(name);
    if (state == states_.end())
      return absl::InvalidArgumentError(absl::StrCat("there is no state '", name, "'"));
    if (content.size() != state->second.type.bytes())
      return absl::InvalidArgumentError(absl::StrCat("state '", name, "' is ",
                                                     state->second.type.ToString(), ", not ",
                                                     content.size(), " bytes"));
  }
  if (state_bytes_ == 0) return absl::OkStatus();
  if (!state_memory_)
    return absl::FailedPreconditionError("prepare the submodels before setting their states");
  // The piece that begins at `offset`: zeros, and what of each content falls into it.
  const auto produce = [&](uint64_t offset, absl::Span<std::byte> out) {
    std::memset(out.data(), 0, out.size());
    for (const auto& [name, content] : bytes) {
      const uint64_t begin = states_.at(name).offset;
      const uint64_t from = std::max(begin, offset);
      const uint64_t to = std::min(begin + content.size(), offset + out.size());
      if (from < to) std::memcpy(&out[from - offset], &content[from - begin], to - from);
    }
    return absl::OkStatus();
  };
  return npu_->memory()->Write(*state_memory_, produce);
}

absl::StatusOr<std::string> SubmodelGroup::ReadState(const std::string& name) const {
  const auto state = states_.find(name);
  if (state == states_.end()) return absl::NotFoundError(absl::StrCat("there is no state '", name, "'"));
  if (!state_memory_)
    return absl::FailedPreconditionError("prepare the submodels before reading their states");
  std::string bytes(state->second.type.bytes(), '\0');
  NPUBANK_RETURN_IF_ERROR(npu_->memory()->Read(
      *state_memory_, state->second.offset,
      absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  return bytes;
}

uint64_t SubmodelGroup::device_bytes() const {
  uint64_t bytes = 0;
  for (const auto* allocation :
       {workspace_ ? workspace_->arena.get() : nullptr, state_memory_.get()})
    if (allocation) bytes += allocation->reserved_bytes();
  return bytes;
}

}  // namespace npubank
