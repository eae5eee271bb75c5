#include "npubank/bank/loading/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/bank/loading/content.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {
namespace {

// An allocation and what it took of the budget; the allocation goes first.
struct Block {
  Admission::Room room;
  std::shared_ptr<DeviceAllocation> memory;
};

std::shared_ptr<DeviceAllocation> Hold(Admission::Room room,
                                       std::shared_ptr<DeviceAllocation> memory) {
  auto block = std::make_shared<Block>(Block{std::move(room), std::move(memory)});
  DeviceAllocation* const allocation = block->memory.get();
  return std::shared_ptr<DeviceAllocation>(std::move(block), allocation);
}

Evaluator::Wanted WantedOf(const Evaluation& evaluation) {
  return {.name = evaluation.name(), .hints = evaluation.hints()};
}

// The recipe of a tensor that is only described: the first that an owner's index still gives.
absl::StatusOr<RecipePtr> Make(absl::Span<const Description> descriptions, const Digest& digest) {
  absl::Status last = absl::FailedPreconditionError(
      "it was evicted and no owner can bring it back: give the owner an index, or register the "
      "tensor with a bank that does not evict");
  for (const Description& description : descriptions) {
    absl::StatusOr<RecipePtr> recipe = description.Make();
    if (recipe.ok() && (*recipe)->digest() == digest) return recipe;
    last = recipe.ok() ? absl::DataLossError(absl::StrCat(
                             "its source is not what it was when it was registered: load the model "
                             "again"))
                       : recipe.status();
  }
  return last;
}

}  // namespace

struct Loader::Loaded {
  std::shared_ptr<DeviceAllocation> memory;
  Origin origin = Origin::kStored;
  bool cacheable = false;
  uint64_t stored_bytes = 0;
};

Loader::Loader(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Books> books,
               const BankOptions& options)
    : device_(device),
      books_(std::move(books)),
      flights_(books_),
      departures_(books_),
      admission_(std::make_shared<Admission>(options.budget_bytes)),
      evaluator_(std::move(device), options.workers),
      cache_(options.cache),
      upstream_(options.upstream),
      share_content_(options.share_content),
      content_hash_hook_(options.content_hash_hook) {}

// The tensors are looked up anew after each wait: a waiter holds no lease, and what was missing may
// have come meanwhile.
absl::StatusOr<AdmittedLoad> Loader::Admit(absl::Span<const Uid> uids, absl::string_view what,
                                           const LoadOptions& options) const {
  std::optional<LeasedUpstream> upstream;  // asked once: what it gives takes no room here
  for (;;) {
    const uint64_t departures = departures_.count();
    NPUBANK_ASSIGN_OR_RETURN(FoundTensors found, flights_.Find(uids));
    const std::string load = what.empty() && !found.missing.empty()
                                 ? absl::StrCat("tensor '", found.missing.front().name, "'")
                                 : std::string(what);
    if (!upstream.has_value()) {
      NPUBANK_ASSIGN_OR_RETURN(upstream, AskUpstream(found.missing, load, options));
      if (!upstream->empty()) continue;  // it took its time: others may have made some meanwhile
    }
    Needs needs;
    for (const MissingTensor& tensor : found.missing) Plan(tensor, *upstream, needs);
    Admission::Answer answer = admission_->Ask(needs.room);
    if (answer.pass != nullptr) {
      return AdmittedLoad{std::move(answer.pass), device_->PlanImports(needs.imports),
                          *std::move(upstream), std::move(found.leases)};
    }
    NPUBANK_RETURN_IF_ERROR(
        Annotate(AwaitRoom(needs.room, answer, departures, found, options.cancelled), load));
  }
}

// Costs nobody a load: what does not come from there is made here, and notices() say why.
absl::StatusOr<LeasedUpstream> Loader::AskUpstream(absl::Span<const MissingTensor> missing,
                                                   absl::string_view what,
                                                   const LoadOptions& options) const {
  LeasedUpstream leased;
  if (upstream_ == nullptr || missing.empty()) return leased;
  if (!device_->traits().imports) {
    upstream_->Note(absl::StrCat("not used: ", device_->name(),
                                 " cannot import another process's pages, so that they would be "
                                 "copied: these weights are this process's own"));
    return leased;
  }
  std::vector<Upstream::Wanted> wanted;
  for (const MissingTensor& tensor : missing) {
    const bool copied = tensor.recipe == nullptr && tensor.has_host_copy;
    if (copied || tensor.bytes == 0 || !tensor.description || RangeInItsFile(tensor)) continue;
    if (!Evaluator::PagesMeet(tensor.hints)) {
      upstream_->Note(absl::StrCat("tensor '", tensor.name, "' is wanted ",
                                   tensor.hints.ToString(),
                                   ", where no shared page lies: it is this process's own"));
      continue;
    }
    wanted.push_back({.description = tensor.description,
                      .name = tensor.name,
                      .digest = tensor.digest,
                      .stamp = tensor.stamp,
                      .bytes = tensor.bytes});
  }
  if (wanted.empty()) return leased;
  absl::StatusOr<std::vector<Upstream::Leased>> answer = upstream_->Lease(what, wanted, options);
  if (absl::IsCancelled(answer.status()) && options.cancelled && options.cancelled()) {
    return answer.status();
  }
  if (!answer.ok()) {
    upstream_->Note(absl::StrCat(what, " is this process's own: ", answer.status().message()));
    return leased;
  }
  for (size_t i = 0; i < wanted.size() && i < answer->size(); ++i) {
    if ((*answer)[i].source != nullptr) leased.emplace(wanted[i].digest, std::move((*answer)[i]));
  }
  return leased;
}

absl::Status Loader::AwaitRoom(uint64_t bytes, const Admission::Answer& answer, uint64_t departures,
                               FoundTensors& found, const Cancelled& cancelled) const {
  if (departures_.EvictFor(answer.missing)) return absl::OkStatus();
  const uint64_t evictable = departures_.EvictableBytes();
  found = FoundTensors();
  if (departures_.Await(departures)) return absl::OkStatus();
  if (answer.may_come > 0 && answer.missing <= evictable + answer.may_come) {
    if (admission_->AwaitChange(answer.seen, cancelled)) return absl::OkStatus();
    return absl::CancelledError("cancelled while it waited for room");
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "it needs ", bytes, " bytes on the device, ", answer.missing,
      " more than are free of the budget of ", admission_->usage().limit, "; ",
      departures_.LargestHolders(), ": drop an owner, put one to sleep, or raise the budget"));
}

// In the order in which Load tries.
void Loader::Plan(const MissingTensor& tensor, const LeasedUpstream& upstream, Needs& needs) const {
  std::optional<ImportRange> range;
  const bool copied = tensor.recipe == nullptr && tensor.has_host_copy;
  const auto leased = copied ? upstream.end() : upstream.find(tensor.digest);
  const bool is_leased = leased != upstream.end();
  const std::optional<CachedBytes> cached =
      copied || is_leased ? std::nullopt
                          : FindInCache(CacheKey(tensor.digest, tensor.stamp), tensor.bytes);
  if (is_leased) {
    range = ImportRange{.source = leased->second.source->identity(),
                        .offset = leased->second.offset,
                        .bytes = tensor.bytes};
  } else if (cached.has_value()) {
    range = evaluator_.RangeToImport(*cached, tensor.hints);
  } else if (!copied) {
    range = RangeInItsFile(tensor);
  }
  if (range.has_value()) {
    needs.imports.push_back(*range);
  } else {
    needs.room += tensor.room;
  }
}

std::optional<ImportRange> Loader::RangeInItsFile(const MissingTensor& tensor) const {
  if (tensor.recipe != nullptr) return evaluator_.RangeToImport(*tensor.recipe, tensor.hints);
  if (!tensor.description) return std::nullopt;
  return evaluator_.RangeToImport(tensor.description, tensor.bytes, tensor.hints);
}

std::optional<CachedBytes> Loader::FindInCache(const Digest& cache_key, uint64_t bytes) const {
  if (cache_ == nullptr || bytes == 0) return std::nullopt;
  return cache_->Find(cache_key, bytes);
}

absl::Status Loader::MakeResident(Uid uid, Lease& lease, const AdmittedLoad& load,
                                  const Cancelled& cancelled) const {
  if (lease) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(Acquired acquired, flights_.Acquire(uid, cancelled));
  if (auto* resident = std::get_if<Lease>(&acquired)) {
    lease = std::move(*resident);
    return absl::OkStatus();
  }
  NPUBANK_ASSIGN_OR_RETURN(lease,
                           Run(*std::get<std::unique_ptr<Evaluation>>(acquired), load, cancelled));
  return absl::OkStatus();
}

absl::StatusOr<Lease> Loader::Run(Evaluation& evaluation, const AdmittedLoad& load,
                                  const Cancelled& cancelled) const {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Loaded> loaded = Load(evaluation, load, [&] {
    return evaluation.abandoned() || (cancelled && cancelled() && !evaluation.awaited());
  });
  if (!loaded.ok()) {
    const absl::Status status =
        Annotate(loaded.status(), absl::StrCat("tensor '", evaluation.name(), "'"));
    evaluation.Fail(status);
    return status;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const Digest cache_key = CacheKey(evaluation.digest(), evaluation.stamp());
  Lease lease = Publish(evaluation, {.memory = std::move(loaded->memory),
                                     .seconds = taken.count(),
                                     .content = {},
                                     .others = {},
                                     .origin = loaded->origin,
                                     .stored_bytes = loaded->stored_bytes});
  if (loaded->cacheable) AddToCache(cache_key, *books_->MemoryOf(lease));  // nobody waits for it
  return lease;
}

absl::StatusOr<Loader::Loaded> Loader::Load(const Evaluation& evaluation, const AdmittedLoad& load,
                                            const Cancelled& cancelled) const {
  Loaded loaded;
  Admission::Pass& pass = *load.pass;
  const uint64_t bytes = evaluation.type().bytes();
  RecipePtr recipe = evaluation.recipe();
  const WayBack way = recipe == nullptr ? evaluation.way_back() : WayBack();
  if (way.host_copy == nullptr) {
    loaded.memory = LoadFromUpstream(evaluation, load);
    loaded.origin = Origin::kService;
    if (loaded.memory != nullptr) return loaded;
    loaded.origin = Origin::kStored;
  }
  if (recipe == nullptr) {
    if (way.host_copy != nullptr) {
      NPUBANK_ASSIGN_OR_RETURN(loaded.memory, Place(bytes, pass, [&] {
                                 return evaluator_.Copy(
                                     absl::MakeConstSpan(way.host_copy.get(), bytes),
                                     WantedOf(evaluation));
                               }));
      return loaded;
    }
    NPUBANK_ASSIGN_OR_RETURN(const bool cached, LoadFromCache(evaluation, pass, loaded));
    if (cached) return loaded;
    NPUBANK_ASSIGN_OR_RETURN(recipe, Make(way.descriptions, evaluation.digest()));
  } else {
    NPUBANK_ASSIGN_OR_RETURN(const bool cached, LoadFromCache(evaluation, pass, loaded));
    if (cached) return loaded;
  }
  const bool transforms = !std::holds_alternative<ConstantOp>(recipe->op());
  loaded.stored_bytes = recipe->SourceBytes();
  const Evaluator::Wanted wanted = WantedOf(evaluation);
  const bool misaligned = evaluator_.Misaligned(*recipe, wanted.hints);
  loaded.origin = transforms   ? Origin::kTransformed
                  : misaligned ? Origin::kMisaligned
                               : Origin::kStored;
  // As it is stored it is read from its own file just as fast, unless the cache's can be imported.
  loaded.cacheable = (transforms || (misaligned && Evaluator::PagesMeet(wanted.hints))) &&
                     cache_ != nullptr && bytes > 0 && recipe->Persistent();
  NPUBANK_ASSIGN_OR_RETURN(loaded.memory,
                           ImportOrPlace(
                               bytes, pass, [&] { return evaluator_.Import(*recipe, wanted); },
                               [&] { return evaluator_.Evaluate(*recipe, wanted, cancelled); }));
  return loaded;
}

std::shared_ptr<DeviceAllocation> Loader::LoadFromUpstream(const Evaluation& evaluation,
                                                           const AdmittedLoad& load) const {
  const auto leased = load.upstream.find(evaluation.digest());
  if (leased == load.upstream.end()) return nullptr;
  MemoryOr memory =
      evaluator_.Import(leased->second, evaluation.type().bytes(), WantedOf(evaluation));
  if (memory.ok()) return *std::move(memory);
  upstream_->Note(absl::StrCat("what it leased could not be imported, as tensor '",
                               evaluation.name(), "': ", memory.status().message()));
  return nullptr;
}

absl::StatusOr<bool> Loader::LoadFromCache(const Evaluation& evaluation, Admission::Pass& pass,
                                           Loaded& loaded) const {
  const uint64_t bytes = evaluation.type().bytes();
  const Digest cache_key = CacheKey(evaluation.digest(), evaluation.stamp());
  const std::optional<CachedBytes> cached = FindInCache(cache_key, bytes);
  if (!cached.has_value()) return false;
  MemoryOr memory = ImportOrPlace(
      bytes, pass, [&] { return evaluator_.Import(*cached, WantedOf(evaluation)); },
      [&] { return evaluator_.Fetch(*cached, WantedOf(evaluation)); });
  if (absl::IsDataLoss(memory.status())) {
    cache_->Distrust(cache_key, memory.status());
    return false;
  }
  NPUBANK_RETURN_IF_ERROR(memory.status());  // the device's, which evaluating would meet as well
  loaded.memory = *std::move(memory);
  loaded.origin = Origin::kCache;
  return true;
}

// A cache that cannot be written costs the next start some time; its report says so.
void Loader::AddToCache(const Digest& digest, DeviceAllocation& memory) const {
  (void)cache_->Add(digest, memory.bytes(), [&](uint64_t offset, absl::Span<std::byte> out) {
    return device_->Read(memory, offset, out);
  });
}

Loader::MemoryOr Loader::ImportOrPlace(uint64_t bytes, Admission::Pass& pass,
                                       absl::FunctionRef<MemoryOr()> import,
                                       absl::FunctionRef<MemoryOr()> produce) const {
  if (bytes == 0) return std::shared_ptr<DeviceAllocation>();
  MemoryOr memory = import();
  const absl::Status& status = memory.status();
  const bool write = absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status) ||
                     absl::IsResourceExhausted(status);
  return write ? Place(bytes, pass, produce) : std::move(memory);
}

Loader::MemoryOr Loader::Place(uint64_t bytes, Admission::Pass& pass,
                               absl::FunctionRef<MemoryOr()> produce) const {
  std::optional<Admission::Room> room;
  NPUBANK_RETURN_IF_ERROR(MakeRoom([&] { return pass.Take(bytes, room); }));
  uint64_t seen = 0;
  const auto attempt = [&] {
    seen = departures_.count();
    return produce();
  };
  MemoryOr memory = attempt();
  if (absl::IsResourceExhausted(memory.status()) && departures_.EvictFor(bytes)) memory = attempt();
  // The little that is left of others may hold much: shared memory goes back with the last of a segment.
  if (absl::IsResourceExhausted(memory.status()) && departures_.Trim({}) > 0) memory = attempt();
  while (absl::IsResourceExhausted(memory.status()) && departures_.Await(seen)) {
    memory = attempt();
  }
  if (absl::IsResourceExhausted(memory.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(memory.status().message(), "; ", departures_.LargestHolders()));
  }
  NPUBANK_RETURN_IF_ERROR(memory.status());
  const uint64_t reserved = (*memory)->reserved_bytes();
  NPUBANK_RETURN_IF_ERROR(MakeRoom([&] { return pass.Grow(*room, reserved); }));
  return Hold(*std::move(room), *std::move(memory));
}

absl::Status Loader::MakeRoom(absl::FunctionRef<uint64_t()> missing_bytes) const {
  for (;;) {
    const uint64_t departures = departures_.count();
    const uint64_t missing = missing_bytes();
    if (missing == 0) return absl::OkStatus();
    if (departures_.EvictFor(missing) || departures_.Await(departures)) continue;
    const Admission::Usage usage = admission_->usage();
    return absl::ResourceExhaustedError(
        absl::StrCat(missing, " bytes are missing: of the budget of ", usage.limit, ", ",
                     usage.used, " are in use; ", departures_.LargestHolders(),
                     ": drop an owner, put one to sleep, or raise the budget"));
  }
}

absl::Status Loader::SetBudget(uint64_t bytes) const {
  return Annotate(MakeRoom([&] { return admission_->SetLimit(bytes); }),
                  absl::StrCat("a budget of ", bytes, " bytes"));
}

absl::Status Loader::Adopt(Registry& registry, absl::Span<const AdoptedTensor> tensors,
                           std::unique_ptr<DeviceAllocation> memory) const {
  if (!books_->keep_unowned) {
    return absl::FailedPreconditionError("this bank keeps nothing that nobody owns");
  }
  const bool fits = memory != nullptr && std::all_of(tensors.begin(), tensors.end(), [&](auto& of) {
                      return of.type.bytes() == memory->bytes();
                    });
  if (tensors.empty() || !fits) {
    return absl::InvalidArgumentError("adopting memory that is not these tensors'");
  }
  const uint64_t bytes = memory->reserved_bytes();
  const Admission::Answer answer = admission_->Ask(bytes);
  std::optional<Admission::Room> room;
  if (answer.pass == nullptr || answer.pass->Take(bytes, room) > 0) {
    return absl::ResourceExhaustedError(absl::StrCat("tensor '", tensors[0].name, "' of ", bytes,
                                                     " bytes does not fit into the budget of ",
                                                     admission_->usage().limit, " any more"));
  }
  const std::optional<Digest> content = ContentOf(memory.get(), {});
  return registry.Adopt(tensors, Hold(*std::move(room), std::move(memory)), content);
}

// Sharing is a saving, not a need: when the device cannot be read back, the tensor keeps its own
// bytes.
Lease Loader::Publish(Evaluation& evaluation, Published published) const {
  published.content = ContentOf(published.memory.get(), evaluation.hints());
  const MemoryHints hints = evaluation.hints();
  for (;;) {
    PublishResult result = evaluation.Publish(published);
    if (auto* lease = std::get_if<Lease>(&result)) return std::move(*lease);
    using Memory = std::vector<std::shared_ptr<DeviceAllocation>>;
    for (const std::shared_ptr<DeviceAllocation>& other : std::get<Memory>(result)) {
      const absl::StatusOr<bool> same =
          hints.MetBy(other->address()) ? SameContent(*device_, *published.memory, *other) : false;
      if (same.ok() && *same) {
        published.memory = other;
        break;
      }
      published.others.push_back(other);
    }
  }
}

std::optional<Digest> Loader::ContentOf(DeviceAllocation* memory, const MemoryHints& hints) const {
  // What was imported costs no memory of its own, and reading it would bring its pages in early. What
  // has a pool of its own is not another's.
  if (!share_content_ || memory == nullptr || memory->strategy() == "imported" || hints.pool != 0)
    return std::nullopt;
  const absl::StatusOr<Digest> hash = SampleContent(*device_, *memory);
  if (!hash.ok()) return std::nullopt;
  return content_hash_hook_ ? content_hash_hook_(*hash) : *hash;
}

}  // namespace npubank
