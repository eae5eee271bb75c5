#include "npubank/runtime/submodel.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {

absl::StatusOr<Submodel> Submodel::Load(std::shared_ptr<Bank> bank, absl::string_view blob,
                                        absl::string_view model,
                                        std::shared_ptr<const SourceIndex> index) {
  Submodel submodel;
  submodel.bank_ = std::move(bank);
  NPUBANK_ASSIGN_OR_RETURN(submodel.blob_, ReadSubmodelBlob(blob));
  submodel.owner_ = submodel.bank_->AddOwner(
      model.empty() ? submodel.name() : absl::StrCat(model, "/", submodel.name()),
      {.index = index});
  absl::Status status = submodel.RegisterWeights(std::move(index));
  if (!status.ok()) return Annotate(status, absl::StrCat("submodel ", submodel.name()));
  return submodel;
}

absl::Status Submodel::RegisterWeights(std::shared_ptr<const SourceIndex> index) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<const RecipeList> recipes,
                           RecipeList::Bind(blob_.recipes, std::move(index)));
  if (recipes->size() != blob_.weights.size())
    return absl::InvalidArgumentError(absl::StrCat(
        "the blob names ", blob_.weights.size(), " weights and has recipes for ", recipes->size()));
  for (size_t i = 0; i < recipes->size(); ++i) {
    const uint64_t bytes = recipes->type(i).bytes();
    NPUBANK_ASSIGN_OR_RETURN(
        Registration registration,
        bank_->Register(owner_, LazyTensor(Description{recipes, i}),
                        blob_.weights[i].ToString()));
    weights_.push_back({registration.uid, bytes});
    weight_bytes_ += bytes;
    if (registration.hit) ++hits_, hit_bytes_ += bytes;
  }
  return absl::OkStatus();
}

uint64_t Submodel::closures() const {
  uint64_t count = 0;
  for (const Call& call : blob_.calls) count += call.Closure().empty() ? 0 : 1;
  return count;
}

absl::Status Submodel::Pin(absl::Span<Submodel> submodels, absl::Span<const Lease> leases) {
  absl::flat_hash_map<uint64_t, const Lease*> by_uid;
  for (const Lease& lease : leases) by_uid.emplace(lease.uid().value, &lease);
  std::vector<std::vector<Lease>> found;
  for (const Submodel& submodel : submodels) {
    NPUBANK_ASSIGN_OR_RETURN(found.emplace_back(), submodel.LeasesAmong(by_uid));
  }
  for (size_t i = 0; i < submodels.size(); ++i) submodels[i].leases_ = std::move(found[i]);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Lease>> Submodel::LeasesAmong(
    const absl::flat_hash_map<uint64_t, const Lease*>& by_uid) const {
  std::vector<Lease> mine;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto found = by_uid.find(weights_[i].uid.value);
    if (found == by_uid.end())
      return absl::FailedPreconditionError(
          absl::StrCat("submodel ", name(), ": weight ", blob_.weights[i].ToString(),
                       " is not among the leases: load its owner"));
    mine.push_back(*found->second);
  }
  return mine;
}

void Submodel::Unpin() {
  list_.reset();
  graphs_.clear();
  leases_.clear();
}

absl::Status Submodel::Record(std::shared_ptr<level_zero::Device> device,
                              level_zero::CommandQueue& queue, const Places& places) {
  if (leases_.size() != weights_.size())
    return absl::FailedPreconditionError(
        absl::StrCat("submodel ", name(), ": pin its weights before recording its calls"));
  std::vector<level_zero::Graph> graphs;
  for (const SubmodelFunction& function : blob_.functions) {
    NPUBANK_ASSIGN_OR_RETURN(level_zero::Graph graph,
                             level_zero::Graph::Create(device, function.blob, function.name));
    graphs.push_back(std::move(graph));
  }
  NPUBANK_ASSIGN_OR_RETURN(level_zero::CommandList list, level_zero::CommandList::Create(queue));
  for (const Call& call : blob_.calls)
    NPUBANK_RETURN_IF_ERROR(Annotate(RecordCall(call, places, graphs, list),
                                     absl::StrCat("submodel ", name(), ", call ", call.name)));
  NPUBANK_RETURN_IF_ERROR(list.Close());
  list_.reset();  // an older one goes before the graphs it refers to
  graphs_ = std::move(graphs);
  list_.emplace(std::move(list));
  return absl::OkStatus();
}

absl::Status Submodel::RecordCall(const Call& call, const Places& places,
                                  std::vector<level_zero::Graph>& graphs,
                                  level_zero::CommandList& list) const {
  level_zero::Graph& graph = graphs[call.function];
  const Function& function = blob_.functions[call.function].function;
  for (uint32_t i = 0; i < call.arguments.size(); ++i) {
    const Binding& binding = call.arguments[i];
    if (binding.kind == BindingKind::kWeight &&
        leases_[binding.index].type() != function.arguments[i].type)
      return absl::InvalidArgumentError(
          absl::StrCat("weight ", blob_.weights[binding.index].ToString(), " is ",
                       leases_[binding.index].type().ToString(), " but argument ",
                       function.arguments[i].name, " is ", function.arguments[i].type.ToString()));
    NPUBANK_ASSIGN_OR_RETURN(void* address, Resolve(binding, places));
    NPUBANK_RETURN_IF_ERROR(graph.SetArgument(i, address));
  }
  NPUBANK_RETURN_IF_ERROR(list.AppendGraph(graph.handle()));
  return list.AppendBarrier();
}

absl::StatusOr<void*> Submodel::Resolve(const Binding& binding, const Places& places) const {
  std::byte* arena = static_cast<std::byte*>(places.arena);
  switch (binding.kind) {
    case BindingKind::kWeight:
      return leases_[binding.index].address();
    case BindingKind::kScratch:
      return arena + blob_.scratch_offset;
    case BindingKind::kValue:
      break;
  }
  const SubmodelValue& value = blob_.values[binding.index];
  if (value.placement == Placement::kArena) return arena + value.offset;
  return places.value(value);
}

absl::Status Submodel::Run(level_zero::CommandQueue& queue) {
  if (!list_)
    return absl::FailedPreconditionError(
        absl::StrCat("submodel ", name(), ": record its calls before running them"));
  NPUBANK_RETURN_IF_ERROR(Annotate(queue.Submit(*list_), absl::StrCat("submodel ", name())));
  return Annotate(list_->Wait(), absl::StrCat("submodel ", name()));
}

}  // namespace npubank
