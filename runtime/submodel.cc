#include "npubank/runtime/submodel.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {

absl::StatusOr<Submodel> Submodel::Load(std::shared_ptr<Bank> bank, SubmodelDescription description,
                                        absl::string_view model) {
  Submodel submodel;
  submodel.bank_ = std::move(bank);
  submodel.description_ = std::move(description);
  const std::string what = submodel.Title();
  NPUBANK_RETURN_IF_ERROR(Annotate(submodel.description_.Check(), what));
  const RecipeList* recipes = submodel.description_.recipes.get();
  submodel.owner_ = submodel.bank_->AddOwner(
      model.empty() ? submodel.name() : absl::StrCat(model, "/", submodel.name()),
      {.index = recipes == nullptr ? nullptr : recipes->index()});
  NPUBANK_RETURN_IF_ERROR(Annotate(submodel.RegisterWeights(), what));
  return submodel;
}

absl::Status Submodel::RegisterWeights() {
  for (size_t i = 0; i < description_.weights.size(); ++i) {
    const uint64_t bytes = description_.recipes->type(i).bytes();
    MemoryHints hints;
    if (!description_.weight_alignments.empty())
      hints.alignment = description_.weight_alignments[i];
    NPUBANK_ASSIGN_OR_RETURN(
        Registration registration,
        bank_->Register(owner_, LazyTensor(Description{description_.recipes, i}),
                        description_.weights[i], hints));
    weights_.push_back({registration.uid, bytes});
    weight_bytes_ += bytes;
    if (registration.hit) ++hits_, hit_bytes_ += bytes;
  }
  return absl::OkStatus();
}

uint64_t Submodel::closures() const {
  const auto& calls = description_.calls;
  return std::count_if(calls.begin(), calls.end(), [](const SubmodelDescription::Call& call) {
    return std::any_of(call.arguments.begin(), call.arguments.end(),
                       [](const SubmodelDescription::Argument& bound) { return bound.weight; });
  });
}

absl::Status Submodel::MakeFunctions(std::shared_ptr<level_zero::Device> device) {
  if (!functions_.empty()) return absl::OkStatus();
  const std::string what = Title();
  std::vector<DriverFunction> functions;
  for (const SubmodelDescription::Function& function : description_.functions) {
    absl::StatusOr<DriverFunction> made =
        DriverFunction::Create(device, function.blob, function.name);
    if (!made.ok()) return Annotate(made.status(), what);
    functions.push_back(*std::move(made));
  }
  NPUBANK_RETURN_IF_ERROR(Annotate(description_.CheckAgainstDriver(functions), what));
  functions_ = std::move(functions);
  return absl::OkStatus();
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
    const std::string what =
        absl::StrCat(Title(), ": weight '", description_.weights[i], "'");
    if (found == by_uid.end())
      return absl::FailedPreconditionError(
          absl::StrCat(what, " is not among the leases: load its owner"));
    // A hit proves the digest only; the functions were checked against the described type.
    if (found->second->type() != description_.recipes->type(i))
      return absl::InvalidArgumentError(
          absl::StrCat(what, " is ", found->second->type().ToString(), " but described as ",
                       description_.recipes->type(i).ToString()));
    mine.push_back(*found->second);
  }
  return mine;
}

void Submodel::Unpin() {
  list_.reset();
  functions_.clear();
  leases_.clear();
}

absl::Status Submodel::Record(std::shared_ptr<level_zero::Device> device,
                              level_zero::CommandQueue& queue, const Places& places) {
  if (leases_.size() != weights_.size())
    return absl::FailedPreconditionError(
        absl::StrCat(Title(), ": pin its weights before recording its calls"));
  list_.reset();
  NPUBANK_RETURN_IF_ERROR(MakeFunctions(std::move(device)));
  NPUBANK_RETURN_IF_ERROR(Annotate(InitializeFunctions(queue), Title()));
  NPUBANK_ASSIGN_OR_RETURN(level_zero::CommandList list, level_zero::CommandList::Create(queue));
  for (const SubmodelDescription::Call& call : description_.calls)
    NPUBANK_RETURN_IF_ERROR(Annotate(RecordCall(call, places, list),
                                     absl::StrCat(Title(), ", call '", call.name, "'")));
  NPUBANK_RETURN_IF_ERROR(list.Close());
  list_.emplace(std::move(list));
  return absl::OkStatus();
}

// In a list of its own, since the other one runs many times.
absl::Status Submodel::InitializeFunctions(level_zero::CommandQueue& queue) {
  std::vector<level_zero::GraphHandle> wanting;
  for (DriverFunction& function : functions_) {
    NPUBANK_ASSIGN_OR_RETURN(const bool wants_command, function.graph().Initialize());
    if (wants_command) wanting.push_back(function.graph().handle());
  }
  if (wanting.empty()) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(level_zero::CommandList list, level_zero::CommandList::Create(queue));
  for (level_zero::GraphHandle graph : wanting)
    NPUBANK_RETURN_IF_ERROR(list.AppendGraphInitialize(graph));
  NPUBANK_RETURN_IF_ERROR(list.Close());
  NPUBANK_RETURN_IF_ERROR(queue.Submit(list));
  return list.Wait();
}

absl::Status Submodel::RecordCall(const SubmodelDescription::Call& call, const Places& places,
                                  level_zero::CommandList& list) {
  level_zero::Graph& graph = functions_[call.function].graph();
  for (uint32_t i = 0; i < call.arguments.size(); ++i) {
    NPUBANK_ASSIGN_OR_RETURN(void* address, Resolve(call.arguments[i], places));
    NPUBANK_RETURN_IF_ERROR(
        Annotate(graph.SetArgument(i, address), absl::StrCat("argument '", call.arguments[i].name, "'")));
  }
  NPUBANK_RETURN_IF_ERROR(list.AppendGraph(graph.handle()));
  return list.AppendBarrier();
}

absl::StatusOr<void*> Submodel::Resolve(const SubmodelDescription::Argument& argument,
                                        const Places& places) const {
  if (argument.weight) return leases_[argument.index].address();
  const SubmodelDescription::Value& value = description_.values[argument.index];
  switch (value.placement) {
    case SubmodelDescription::Placement::kArena:
    case SubmodelDescription::Placement::kScratch:
      return static_cast<std::byte*>(places.arena) + value.offset;
    default:
      return places.value(value);
  }
}

absl::Status Submodel::Run(level_zero::CommandQueue& queue) {
  if (!list_)
    return absl::FailedPreconditionError(
        absl::StrCat(Title(), ": record its calls before running them"));
  NPUBANK_RETURN_IF_ERROR(Annotate(queue.Submit(*list_), Title()));
  return Annotate(list_->Wait(), Title());
}

}  // namespace npubank
