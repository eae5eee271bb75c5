#include "npubank/bank/service/daemon/desk.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

Desk::Answer Failure(absl::Status status) { return {.message = Failed{std::move(status)}}; }

absl::Status Violation(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("it broke the rules: ", what));
}

// Names of strangers, as they may stand in a report.
std::string Tame(absl::string_view name) {
  std::string tame(name.substr(0, 256));
  for (char& letter : tame) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(letter))) letter = '?';
  }
  return tame;
}

// An equal identity is not enough: a file may be changed and its times set back.
absl::Status MadeOfAnother(absl::string_view name) {
  return absl::FailedPreconditionError(
      absl::StrCat("tensor '", Tame(name), "' is here as it was made of this file before the file ",
                   "was changed: it is not the same one any more"));
}

absl::Status DoNotFit(absl::string_view what, uint32_t theirs, uint32_t ours) {
  return absl::FailedPreconditionError(
      absl::StrCat("this daemon and its client do not fit together: the client has ", what, " ",
                   theirs, ", the daemon ", ours, ": start a daemon of the same build"));
}

}  // namespace

std::string Desk::Client::InWords() const {
  return absl::StrCat(Tame(program), ", pid ", pid, ", uid ", uid);
}

Desk::Desk(std::shared_ptr<Bank> bank, std::shared_ptr<SharedMemory> memory, Client client,
           Host& host)
    : bank_(std::move(bank)), memory_(std::move(memory)), client_(std::move(client)), host_(host) {}

Desk::~Desk() = default;

absl::StatusOr<Desk::Answer> Desk::Handle(const Message& request,
                                          std::vector<FileDescriptor> descriptors,
                                          const LoadOptions& options) {
  const bool brings = std::holds_alternative<OpenSources>(request);
  if (!descriptors.empty() && !brings) {
    return Violation(absl::StrCat("a ", NameOf(request), " with descriptors"));
  }
  if (const auto* hello = std::get_if<Hello>(&request)) return HandleHello(*hello);
  if (!greeted_) return Violation(absl::StrCat("a ", NameOf(request), " before its Hello"));
  if (const auto* open = std::get_if<OpenSources>(&request)) {
    return HandleOpen(*open, std::move(descriptors));
  }
  if (const auto* load = std::get_if<Load>(&request)) return HandleLoad(*load, options);
  if (const auto* more = std::get_if<More>(&request)) return HandleMore(*more);
  if (const auto* release = std::get_if<Release>(&request)) return HandleRelease(*release);
  if (std::holds_alternative<GetState>(request)) return HandleState();
  if (const auto* set = std::get_if<SetBudget>(&request)) return HandleSetBudget(*set);
  // It came too late: the Load is answered.
  if (std::holds_alternative<Cancel>(request)) return Answer{.message = Done{}, .none = true};
  return Violation(absl::StrCat("a ", NameOf(request), ", which only the daemon says"));
}

Desk::AnswerOr Desk::HandleHello(const Hello& hello) {
  if (greeted_) return Violation("a second Hello");
  const Hello ours{.program = "npubankd"};
  if (hello.protocol != ours.protocol) {
    return Failure(DoNotFit("protocol", hello.protocol, ours.protocol));
  }
  if (hello.recipe_codec != ours.recipe_codec) {
    return Failure(DoNotFit("recipe codec", hello.recipe_codec, ours.recipe_codec));
  }
  if (hello.result_revision != ours.result_revision) {
    return Failure(DoNotFit("result revision", hello.result_revision, ours.result_revision));
  }
  greeted_ = true;
  return Answer{.message = ours};
}

// One that proves nothing is no violation: its owner may not know better. None of the message's is
// taken then.
Desk::AnswerOr Desk::HandleOpen(const OpenSources& open, std::vector<FileDescriptor> descriptors) {
  if (open.names.empty() || open.names.size() != descriptors.size()) {
    return Violation(
        absl::StrCat(descriptors.size(), " descriptors for ", open.names.size(), " sources"));
  }
  if (files_.size() + descriptors.size() > kMostSources) {
    return Violation(absl::StrCat("more than ", kMostSources, " sources are open"));
  }
  std::vector<std::shared_ptr<BroughtFile>> brought;
  for (size_t i = 0; i < descriptors.size(); ++i) {
    auto file = BroughtFile::Take(std::move(descriptors[i]), Tame(open.names[i]), client_.pid);
    if (!file.ok()) return Failure(file.status());
    brought.push_back(*std::move(file));
  }
  SourcesOpened opened;
  for (std::shared_ptr<BroughtFile>& file : brought) {
    opened.sources.push_back({.number = static_cast<uint32_t>(files_.size()),
                              .size = file->size(),
                              .identity = file->identity(),
                              .samples = file->samples()});
    files_.push_back(std::move(file));
  }
  MutexLock lock(mutex_);
  sources_ = files_.size();
  return Answer{.message = std::move(opened)};
}

Desk::AnswerOr Desk::HandleLoad(const Load& load, const LoadOptions& options) {
  answered_.clear();
  SayLoading(Tame(load.owner));
  absl::StatusOr<Loaded> loaded = LoadAndGrant(load, options);
  SayLoading("");
  if (!loaded.ok()) return Failure(loaded.status());
  absl::StatusOr<std::vector<FileDescriptor>> descriptors = DescriptorsFrom(0);
  if (!descriptors.ok()) return Failure(descriptors.status());
  return Answer{.message = *std::move(loaded), .descriptors = *std::move(descriptors)};
}

absl::StatusOr<Loaded> Desk::LoadAndGrant(const Load& load, const LoadOptions& options) {
  const std::string who = client_.InWords();
  NPUBANK_ASSIGN_OR_RETURN(BroughtRecipes brought, BroughtRecipes::Bind(load, files_, who));
  if (load.if_there) KeepResident(brought);
  auto owner = std::make_shared<Owner>(
      bank_->AddOwner(absl::StrCat(Tame(load.owner), " (", who, ")"), {.index = brought.index}));
  for (size_t i = 0; i < brought.tensors.size(); ++i) {
    NPUBANK_RETURN_IF_ERROR(
        bank_->Register(*owner, LazyTensor(brought.tensors[i]), Tame(brought.names[i])).status());
  }
  NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, bank_->Load(*owner, options));
  return Grant(std::move(owner), brought, std::move(leases));
}

void Desk::KeepResident(BroughtRecipes& brought) const {
  BroughtRecipes there{.index = brought.index, .tensors = {}, .names = {}};
  for (size_t i = 0; i < brought.tensors.size(); ++i) {
    const auto known = bank_->Inspect(Uid::Of(brought.tensors[i].digest()));
    if (!known.ok() || known->strategy.empty()) continue;
    there.tensors.push_back(std::move(brought.tensors[i]));
    there.names.push_back(std::move(brought.names[i]));
  }
  brought = std::move(there);
}

absl::StatusOr<Loaded> Desk::Grant(std::shared_ptr<Owner> owner, const BroughtRecipes& brought,
                                   std::vector<Lease> leases) {
  std::map<uint64_t, Lease> by_uid;  // the bank gives each once, however often it is asked for
  for (Lease& lease : leases) by_uid.emplace(lease.uid().value, std::move(lease));
  Loaded loaded;
  std::map<uint64_t, uint32_t> places;  // in the answer, by segment
  std::map<uint64_t, Granted> grants;
  std::vector<PublishedTensor> published;
  for (size_t i = 0; i < brought.tensors.size(); ++i) {
    const Description& tensor = brought.tensors[i];
    const Lease& lease = by_uid.at(Uid::Of(tensor.digest()).value);
    if (lease.file() == nullptr) {
      return absl::InvalidArgumentError("a tensor of no bytes, or one that is not shared memory");
    }
    if (lease.stamp() != tensor.stamp()) return MadeOfAnother(brought.names[i]);
    NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                             memory_->SealedSegment(*lease.file()));
    const auto [place, is_new] =
        places.emplace(segment->id(), static_cast<uint32_t>(places.size()));
    Granted& grant = grants[segment->id()];
    if (is_new) {
      loaded.segments.push_back({segment->id(), segment->sealed_bytes()});
      answered_.push_back(segment);
      grant = {.segment = segment, .grants = 1, .leases = {}, .owners = {owner}};
    }
    grant.leases.push_back(lease);
    loaded.tensors.push_back({.digest = tensor.digest(),
                              .stamp = tensor.stamp(),
                              .segment = place->second,
                              .offset = lease.file()->offset});
    published.push_back({.segment = std::move(segment),
                         .offset = lease.file()->offset,
                         .tensor = {.digest = tensor.digest(),
                                    .stamp = tensor.stamp(),
                                    .type = lease.type(),
                                    .name = Tame(brought.names[i])}});
  }
  host_.Publish(published);
  MutexLock lock(mutex_);
  if (leases_ + brought.tensors.size() > kMostLeases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client leases ", leases_, " tensors already, of at most ", kMostLeases));
  }
  for (auto& [id, grant] : grants) {
    Granted& held = granted_[id];
    held.segment = std::move(grant.segment);
    ++held.grants;
    leases_ += grant.leases.size();
    std::move(grant.leases.begin(), grant.leases.end(), std::back_inserter(held.leases));
    held.owners.push_back(owner);
  }
  return loaded;
}

absl::StatusOr<std::vector<FileDescriptor>> Desk::DescriptorsFrom(size_t first) {
  std::vector<FileDescriptor> descriptors;
  const size_t end = std::min(answered_.size(), first + Channel::kMostDescriptors);
  for (size_t i = first; i < end; ++i) {
    NPUBANK_ASSIGN_OR_RETURN(descriptors.emplace_back(), answered_[i]->OpenForReading());
  }
  if (end == answered_.size()) answered_.clear();
  return descriptors;
}

Desk::AnswerOr Desk::HandleMore(const More& more) {
  if (more.first == 0 || more.first % Channel::kMostDescriptors != 0 ||
      more.first >= answered_.size()) {
    return Violation(absl::StrCat("More from segment ", more.first, " of ", answered_.size()));
  }
  absl::StatusOr<std::vector<FileDescriptor>> descriptors = DescriptorsFrom(more.first);
  if (!descriptors.ok()) return Failure(descriptors.status());
  return Answer{.message = Descriptors{}, .descriptors = *std::move(descriptors)};
}

Desk::AnswerOr Desk::HandleRelease(const Release& release) {
  std::vector<Granted> gone;  // dropped after the lock: the last lease frees memory
  MutexLock lock(mutex_);
  for (size_t i = 0; i < release.segments.size(); ++i) {
    const auto found = granted_.find(release.segments[i]);
    const uint64_t grants = release.grants[i];
    if (found == granted_.end() || grants == 0 || grants > found->second.grants) {
      return Violation(
          absl::StrCat("it gives back what it was not granted, of segment ", release.segments[i]));
    }
    found->second.grants -= grants;
    if (found->second.grants > 0) continue;
    leases_ -= found->second.leases.size();
    gone.push_back(std::move(found->second));
    granted_.erase(found);
  }
  return Answer{.message = Done{}, .none = true};
}

Desk::AnswerOr Desk::HandleState() { return Answer{.message = host_.Describe()}; }

Desk::AnswerOr Desk::HandleSetBudget(const SetBudget& set) {
  const absl::Status status = host_.SetBudget(set.bytes);
  if (!status.ok()) return Failure(status);
  return Answer{.message = Done{}};
}

void Desk::Prepare() const {
  std::vector<std::shared_ptr<const Segment>> segments;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, granted] : granted_) segments.push_back(granted.segment);
  }
  for (const auto& segment : segments) segment->PrepareForReading();
}

void Desk::Clear() {
  files_.clear();
  answered_.clear();
  std::map<uint64_t, Granted> gone;  // dropped after the lock
  MutexLock lock(mutex_);
  gone.swap(granted_);
  leases_ = 0;
  sources_ = 0;
}

void Desk::SayLoading(std::string what) {
  MutexLock lock(mutex_);
  loading_ = std::move(what);
}

ClientState Desk::Describe() const {
  ClientState state;
  state.pid = client_.pid;
  state.uid = client_.uid;
  state.program = client_.program;
  MutexLock lock(mutex_);
  state.sources = static_cast<uint32_t>(sources_);
  std::set<std::string> owners;
  for (const auto& [id, granted] : granted_) {
    ++state.leased_segments;
    state.segments.push_back(id);
    state.leased_bytes += granted.segment->sealed_bytes();
    for (const auto& owner : granted.owners) owners.insert(owner->name());
  }
  state.owners.assign(owners.begin(), owners.end());
  state.loading = loading_;
  return state;
}

}  // namespace npubank::service
