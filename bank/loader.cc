#include "npubank/bank/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/content.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe_list.h"

namespace npubank {
namespace {

// An allocation and what it took of the budget; the allocation goes first.
struct Block {
  Reservation room;
  std::shared_ptr<DeviceAllocation> memory;
};

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
};

Loader::Loader(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Registry> registry,
               const BankOptions& options)
    : device_(device),
      registry_(std::move(registry)),
      budget_(std::make_shared<Budget>(options.budget_bytes)),
      evaluator_(std::move(device), options.workers),
      cache_(options.cache),
      share_content_(options.share_content),
      content_hash_hook_(options.content_hash_hook) {}

absl::StatusOr<Lease> Loader::MakeResident(Uid uid, const Cancelled& cancelled) const {
  NPUBANK_ASSIGN_OR_RETURN(Acquired acquired, registry_->Acquire(uid, cancelled));
  if (auto* lease = std::get_if<Lease>(&acquired)) return std::move(*lease);
  return Run(*std::get<std::unique_ptr<Evaluation>>(acquired), cancelled);
}

// What a tensor of a load is made of, as far as that says where it is imported from.
struct Loader::Wanted {
  Digest cache_key;
  uint64_t bytes = 0;
  RecipePtr recipe;         // or, when null,
  Description description;  // of the first owner who has one

  std::optional<ImportRange> StoredRange() const {
    if (recipe == nullptr) {
      const std::optional<StoredConstant> stored = description.Stored();
      if (!stored.has_value()) return std::nullopt;
      return ImportRange{stored->identity, stored->offset, bytes};
    }
    const auto* constant = std::get_if<ConstantOp>(&recipe->op());
    if (constant == nullptr) return std::nullopt;
    return ImportRange{constant->hold->source().identity(), constant->offset, bytes};
  }
};

std::vector<Loader::Wanted> Loader::WantedOf(absl::Span<const OwnedTensor> tensors) const {
  absl::flat_hash_set<uint64_t> uids;
  for (const OwnedTensor& tensor : tensors) {
    if (!tensor.resident) uids.insert(tensor.uid.value);
  }
  std::vector<Wanted> wanted;
  registry_->Look([&](const Registry::Books& books) {
    for (const Entry* entry : books.entries) {
      if (!uids.contains(entry->uid.value)) continue;
      Wanted& tensor = wanted.emplace_back();
      tensor.cache_key = CacheKey(entry->digest, entry->stamp);
      tensor.bytes = entry->type.bytes();
      tensor.recipe = entry->recipe;
      if (entry->recipe != nullptr || entry->host_copy != nullptr) continue;
      for (const Ownership& ownership : entry->owners) {
        if (!tensor.description) tensor.description = ownership.way_back;
      }
    }
  });
  return wanted;
}

// A tensor in the cache is imported from there.
std::unique_ptr<ImportPlan> Loader::PlanImports(absl::Span<const OwnedTensor> tensors) const {
  if (!device_->traits().imports) return nullptr;
  std::vector<ImportRange> ranges;
  for (const Wanted& tensor : WantedOf(tensors)) {
    if (tensor.bytes == 0) continue;
    if (const std::optional<ImportRange> stored = tensor.StoredRange()) {
      ranges.push_back(*stored);
    } else if (cache_ != nullptr) {
      if (const std::optional<CachedBytes> cached = cache_->Find(tensor.cache_key, tensor.bytes))
        ranges.push_back({cached->file->identity(), cached->offset, cached->bytes});
    }
  }
  return device_->PlanImports(ranges);
}

absl::StatusOr<Lease> Loader::Run(Evaluation& evaluation, const Cancelled& cancelled) const {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Loaded> loaded =
      Load(evaluation, [&] { return evaluation.abandoned() || (cancelled && cancelled()); });
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
                                     .origin = loaded->origin});
  if (loaded->cacheable) AddToCache(cache_key, *registry_->MemoryOf(lease));  // nobody waits for it
  return lease;
}

absl::StatusOr<Loader::Loaded> Loader::Load(const Evaluation& evaluation,
                                            const Cancelled& cancelled) const {
  Loaded loaded;
  const uint64_t bytes = evaluation.type().bytes();
  RecipePtr recipe = evaluation.recipe();
  if (recipe == nullptr) {
    const WayBack way = evaluation.way_back();
    if (way.host_copy != nullptr) {
      NPUBANK_ASSIGN_OR_RETURN(loaded.memory, Place(bytes, [&] {
                                 return evaluator_.Copy(
                                     absl::MakeConstSpan(way.host_copy.get(), bytes),
                                     evaluation.name());
                               }));
      return loaded;
    }
    NPUBANK_ASSIGN_OR_RETURN(const bool cached, LoadFromCache(evaluation, loaded));
    if (cached) return loaded;
    NPUBANK_ASSIGN_OR_RETURN(recipe, Make(way.descriptions, evaluation.digest()));
  } else {
    NPUBANK_ASSIGN_OR_RETURN(const bool cached, LoadFromCache(evaluation, loaded));
    if (cached) return loaded;
  }
  const bool transforms = !std::holds_alternative<ConstantOp>(recipe->op());
  loaded.origin = transforms ? Origin::kTransformed : Origin::kStored;
  loaded.cacheable = transforms && cache_ != nullptr && bytes > 0 && recipe->Persistent();
  const std::string& name = evaluation.name();
  NPUBANK_ASSIGN_OR_RETURN(loaded.memory,
                           ImportOrPlace(
                               bytes, [&] { return evaluator_.Import(*recipe, name); },
                               [&] { return evaluator_.Evaluate(*recipe, name, cancelled); }));
  return loaded;
}

absl::StatusOr<bool> Loader::LoadFromCache(const Evaluation& evaluation, Loaded& loaded) const {
  const uint64_t bytes = evaluation.type().bytes();
  if (cache_ == nullptr || bytes == 0) return false;
  const std::optional<CachedBytes> cached =
      cache_->Find(CacheKey(evaluation.digest(), evaluation.stamp()), bytes);
  if (!cached.has_value()) return false;
  MemoryOr memory = ImportOrPlace(
      bytes, [&] { return evaluator_.Import(*cached, evaluation.name()); },
      [&] { return evaluator_.Fetch(*cached, evaluation.name()); });
  if (absl::IsDataLoss(memory.status())) {
    cache_->Distrust(CacheKey(evaluation.digest(), evaluation.stamp()), memory.status());
    return false;
  }
  NPUBANK_RETURN_IF_ERROR(memory.status());  // the device's, which evaluating would meet as well
  loaded.memory = *std::move(memory);
  loaded.origin = Origin::kCache;
  return true;
}

// A cache that cannot be written costs the next start some time; its report says so.
void Loader::AddToCache(const Digest& cache_key, DeviceAllocation& memory) const {
  (void)cache_->Add(cache_key, memory.bytes(), [&](uint64_t offset, absl::Span<std::byte> out) {
    return device_->Read(memory, offset, out);
  });
}

Loader::MemoryOr Loader::ImportOrPlace(uint64_t bytes, absl::FunctionRef<MemoryOr()> import,
                                       absl::FunctionRef<MemoryOr()> produce) const {
  if (bytes == 0) return std::shared_ptr<DeviceAllocation>();
  MemoryOr memory = import();
  const absl::Status& status = memory.status();
  const bool write = absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status) ||
                     absl::IsResourceExhausted(status);
  return write ? Place(bytes, produce) : std::move(memory);
}

Loader::MemoryOr Loader::Place(uint64_t bytes, absl::FunctionRef<MemoryOr()> produce) const {
  Reservation room(budget_);
  NPUBANK_RETURN_IF_ERROR(MakeRoom(room, bytes));
  uint64_t seen = 0;
  const auto attempt = [&] {
    seen = registry_->departures();
    return produce();
  };
  MemoryOr memory = attempt();
  if (absl::IsResourceExhausted(memory.status()) && registry_->EvictFor(bytes)) memory = attempt();
  while (absl::IsResourceExhausted(memory.status()) && registry_->AwaitDeparture(seen)) {
    memory = attempt();
  }
  if (absl::IsResourceExhausted(memory.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(memory.status().message(), "; ", registry_->LargestHolders()));
  }
  NPUBANK_RETURN_IF_ERROR(memory.status());
  NPUBANK_RETURN_IF_ERROR(MakeRoom(room, (*memory)->reserved_bytes()));
  auto block = std::make_shared<Block>(Block{std::move(room), *std::move(memory)});
  DeviceAllocation* const allocation = block->memory.get();
  return std::shared_ptr<DeviceAllocation>(std::move(block), allocation);
}

absl::Status Loader::MakeRoom(Reservation& room, uint64_t bytes) const {
  for (;;) {
    const uint64_t seen = registry_->departures();
    if (room.TryGrowTo(bytes)) return absl::OkStatus();
    const uint64_t missing = bytes - room.bytes();
    const uint64_t used = budget_->used();
    const uint64_t left = budget_->limit() - used;
    if (missing <= left) continue;  // somebody gave some back just now
    if (missing <= budget_->limit() &&
        (registry_->EvictFor(missing - left) || registry_->AwaitDeparture(seen))) {
      continue;
    }
    return absl::ResourceExhaustedError(
        absl::StrCat(missing, " bytes do not fit the budget of ", budget_->limit(), ", of which ",
                     used, " are in use; ", registry_->LargestHolders(),
                     ": drop an owner, put one to sleep, or raise the budget"));
  }
}

// Sharing is a saving, not a need: when the device cannot be read back, the tensor keeps its own
// bytes.
Lease Loader::Publish(Evaluation& evaluation, Published published) const {
  published.content = ContentOf(published.memory.get());
  for (;;) {
    PublishResult result = evaluation.Publish(published);
    if (auto* lease = std::get_if<Lease>(&result)) return std::move(*lease);
    using Memory = std::vector<std::shared_ptr<DeviceAllocation>>;
    for (const std::shared_ptr<DeviceAllocation>& other : std::get<Memory>(result)) {
      const absl::StatusOr<bool> same = SameContent(*device_, *published.memory, *other);
      if (same.ok() && *same) {
        published.memory = other;
        break;
      }
      published.others.push_back(other);
    }
  }
}

std::optional<Digest> Loader::ContentOf(DeviceAllocation* memory) const {
  // What was imported costs no memory of its own, and reading it would bring its pages in early.
  if (!share_content_ || memory == nullptr || memory->strategy() == "imported") return std::nullopt;
  const absl::StatusOr<Digest> hash = SampleContent(*device_, *memory);
  if (!hash.ok()) return std::nullopt;
  return content_hash_hook_ ? content_hash_hook_(*hash) : *hash;
}

}  // namespace npubank
