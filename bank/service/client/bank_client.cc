#include "npubank/bank/service/client/bank_client.h"

#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/waiting.h"
#include "npubank/bank/service/client/client_link.h"
#include "npubank/bank/service/client/daemon_watch.h"
#include "npubank/bank/service/client/leased_segment.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

// What is wanted of one index, as a request, and where its tensors stand among all that is wanted.
struct Group {
  const SourceIndex* index = nullptr;
  std::map<const RecipeList*, size_t> lists;  // where in the request
  std::vector<const RecipeList*> order;
  Load request;
  std::vector<std::vector<size_t>> places;  // of each list's roots
};

std::vector<Group> GroupByIndex(absl::string_view load, absl::Span<const Upstream::Wanted> wanted) {
  std::map<const SourceIndex*, size_t> known;
  std::vector<Group> groups;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const RecipeList& list = *wanted[i].description.list;
    const auto [number, is_new] = known.emplace(list.index().get(), groups.size());
    if (is_new) groups.emplace_back().index = list.index().get();
    Group& group = groups[number->second];
    group.request.owner = std::string(load.substr(0, kMostNameBytes));
    const auto [place, new_list] = group.lists.emplace(&list, group.order.size());
    if (new_list) {
      group.order.push_back(&list);
      group.places.emplace_back();
      group.request.lists.emplace_back().recipes = std::string(list.bytes());
    }
    Load::List& into = group.request.lists[place->second];
    into.roots.push_back(static_cast<uint32_t>(wanted[i].description.root));
    into.names.push_back(wanted[i].name.substr(0, kMostNameBytes));
    group.places[place->second].push_back(i);
  }
  return groups;
}

// Two round trips: the files that the daemon has not seen yet, and the load.
absl::StatusOr<ClientLink::Granted> LoadGroup(ClientLink& link, Group& group,
                                              const LoadOptions& options) {
  std::vector<uint32_t> files;
  for (const RecipeList* list : group.order) {
    files.insert(files.end(), list->files().begin(), list->files().end());
  }
  NPUBANK_RETURN_IF_ERROR(link.OpenSources(*group.index, files, options));
  for (size_t i = 0; i < group.order.size(); ++i) {
    for (const uint32_t file : group.order[i]->files()) {
      group.request.lists[i].sources.push_back(link.NumberOf(group.index->file(file).identity));
    }
  }
  return link.Load(group.request, options);
}

// Believed only where it is what was asked for, and lies where it says.
bool IsWanted(const Upstream::Wanted& wanted, const Loaded::Tensor& tensor,
              const LeasedSegment& segment) {
  return tensor.digest == wanted.digest && tensor.stamp == wanted.stamp &&
         RangeFits(tensor.offset, wanted.bytes, segment.size());
}

}  // namespace

// One asks at a time.
class BankClient::Turn {
 public:
  static absl::StatusOr<std::unique_ptr<Turn>> Take(BankClient& client,
                                                    const LoadOptions& options) {
    for (;;) {
      if (options.cancelled && options.cancelled()) {
        return absl::CancelledError("cancelled while another load asked the daemon");
      }
      MutexLock lock(client.mutex_);
      if (client.busy_) WaitOnce(client.free_, client.mutex_, options.cancelled != nullptr);
      if (client.busy_) continue;
      client.busy_ = true;
      return std::make_unique<Turn>(client);
    }
  }
  explicit Turn(BankClient& client) : client_(client) {}
  ~Turn() {
    MutexLock lock(client_.mutex_);
    client_.busy_ = false;
    client_.free_.NotifyOne();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  BankClient& client_;
};

BankClient::BankClient(std::string path) : path_(std::move(path)) {}

BankClient::~BankClient() { ending_ = true; }

absl::StatusOr<std::shared_ptr<BankClient>> BankClient::Connect(const std::string& path) {
  std::shared_ptr<BankClient> client(new BankClient(path));
  NPUBANK_ASSIGN_OR_RETURN(client->watch_,
                           DaemonWatch::Start([self = client.get()] { return self->Reconnect(); }));
  bool is_new = false;
  NPUBANK_RETURN_IF_ERROR(client->GetLink(&is_new).status());
  return client;
}

absl::StatusOr<std::shared_ptr<BankClient>> BankClient::Over(Channel channel) {
  std::shared_ptr<BankClient> client(new BankClient(""));
  NPUBANK_ASSIGN_OR_RETURN(client->link_, ClientLink::Greet(std::move(channel)));
  return client;
}

std::string BankClient::name() const {
  return path_.empty() ? "npubankd" : absl::StrCat("npubankd at ", path_);
}

absl::StatusOr<std::shared_ptr<ClientLink>> BankClient::GetLink(bool* is_new) {
  *is_new = false;
  if (link_ == nullptr || (link_->lost() && !path_.empty())) {
    NPUBANK_ASSIGN_OR_RETURN(link_, MakeLink());
    *is_new = true;
    owes_ = true;
    watch_->Look(link_);
  }
  if (!owes_) return link_;
  const absl::Status again = LeaseAgain(*link_, Held());
  // What may pass is tried again (Reconnect), or with the next load.
  owes_ = absl::IsUnavailable(again) || absl::IsResourceExhausted(again);
  if (!again.ok() && !owes_) {
    Note(absl::StrCat("what this process has of an earlier daemon is not leased of ", name(), ": ",
                      again.message()));
  }
  return link_;
}

absl::StatusOr<std::shared_ptr<ClientLink>> BankClient::MakeLink() const {
  // One that dies while it greets may have been started again by the time that we know.
  constexpr int kMostTries = 3;
  absl::StatusOr<std::shared_ptr<ClientLink>> link;
  for (int tries = 0; tries < kMostTries; ++tries) {
    NPUBANK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect(path_));
    link = ClientLink::Greet(std::move(channel), [this] { return ending_.load(); });
    if (!absl::IsUnavailable(link.status())) break;
  }
  if (!link.ok()) return Annotate(link.status(), name());
  return link;
}

std::vector<std::shared_ptr<LeasedSegment>> BankClient::Held() {
  std::vector<std::shared_ptr<LeasedSegment>> held;
  for (const std::weak_ptr<LeasedSegment>& of : held_) {
    if (auto segment = of.lock()) held.push_back(std::move(segment));
  }
  held_.assign(held.begin(), held.end());
  return held;
}

void BankClient::Remember(const std::shared_ptr<LeasedSegment>& segment, const Wanted& wanted) {
  if (segment->tensors().empty()) held_.push_back(segment);
  segment->AddTensor(wanted);
}

// Other memory than what is held is given back at once: it would be a second copy.
absl::Status BankClient::LeaseAgain(ClientLink& link,
                                    absl::Span<const std::shared_ptr<LeasedSegment>> held) {
  std::vector<Wanted> wanted;
  std::map<LeasedSegment::Memory, std::shared_ptr<LeasedSegment>> by_memory;
  for (const auto& segment : held) {
    by_memory.emplace(segment->memory(), segment);
    for (const auto& [digest, tensor] : segment->tensors()) wanted.push_back(tensor);
  }
  LoadOptions options;
  options.cancelled = [this] { return ending_.load(); };
  for (Group& group : GroupByIndex("what it had before", wanted)) {
    group.request.if_there = true;
    NPUBANK_ASSIGN_OR_RETURN(const ClientLink::Granted granted, LoadGroup(link, group, options));
    for (const std::shared_ptr<LeasedSegment>& fresh : granted.segments) {
      const auto same = by_memory.find(fresh->memory());
      if (same != by_memory.end() && same->second != fresh) link.Renew(same->second, *fresh);
    }
  }
  return absl::OkStatus();
}

bool BankClient::Reconnect() {
  const auto turn =
      Turn::Take(*this, {.progress = {}, .cancelled = [this] { return ending_.load(); }});
  if (!turn.ok() || Held().empty()) return true;
  bool is_new = false;
  const absl::Status status = GetLink(&is_new).status();
  if (absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status)) {
    Note(absl::StrCat("the daemon that is there now is not used: ", status.message()));
  }
  return status.ok() && !owes_;
}

absl::StatusOr<std::vector<Upstream::Leased>> BankClient::Lease(absl::string_view load,
                                                                absl::Span<const Wanted> wanted,
                                                                const LoadOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const auto turn, Turn::Take(*this, options));
  bool is_new = false;
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<ClientLink> link, GetLink(&is_new));
  absl::StatusOr<std::vector<Leased>> leased = LeaseOver(link, load, wanted, options);
  const bool cancelled = options.cancelled && options.cancelled();
  if (leased.ok() || is_new || !link->lost() || path_.empty() || cancelled) return leased;
  // The daemon that was there is gone; there may be another.
  NPUBANK_ASSIGN_OR_RETURN(link, GetLink(&is_new));
  return LeaseOver(link, load, wanted, options);
}

absl::StatusOr<std::vector<Upstream::Leased>> BankClient::LeaseOver(
    const std::shared_ptr<ClientLink>& link, absl::string_view load,
    absl::Span<const Wanted> wanted, const LoadOptions& options) {
  std::vector<Leased> leased(wanted.size());
  for (Group& group : GroupByIndex(load, wanted)) {
    absl::StatusOr<ClientLink::Granted> granted = LoadGroup(*link, group, options);
    if (!granted.ok()) return Annotate(granted.status(), name());
    size_t tensor = 0;
    for (const std::vector<size_t>& places : group.places) {
      for (const size_t place : places) {
        if (tensor >= granted->loaded.tensors.size()) {
          return absl::InternalError(
              absl::StrCat(name(), " gave fewer tensors than were asked for"));
        }
        const Loaded::Tensor& given = granted->loaded.tensors[tensor++];
        const std::shared_ptr<LeasedSegment>& segment = granted->segments[given.segment];
        if (IsWanted(wanted[place], given, *segment)) {
          leased[place] = {segment, given.offset};
          Remember(segment, wanted[place]);
        } else {
          Note(absl::StrCat("tensor '", wanted[place].name, "' is another one for ", name(),
                            ": it is this process's own"));
        }
      }
    }
  }
  return leased;
}

absl::StatusOr<Message> BankClient::Ask(const Message& request) {
  NPUBANK_ASSIGN_OR_RETURN(const auto turn, Turn::Take(*this, {}));
  bool is_new = false;
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<ClientLink> link, GetLink(&is_new));
  absl::StatusOr<Message> answer = link->Ask(request);
  if (answer.ok() || is_new || !link->lost() || path_.empty()) return answer;
  NPUBANK_ASSIGN_OR_RETURN(link, GetLink(&is_new));
  return link->Ask(request);
}

absl::StatusOr<State> BankClient::GetState() {
  NPUBANK_ASSIGN_OR_RETURN(Message answer, Ask(service::GetState{}));
  if (auto* state = std::get_if<State>(&answer)) return std::move(*state);
  return absl::InternalError(absl::StrCat(name(), " answered with a ", NameOf(answer)));
}

absl::Status BankClient::SetBudget(uint64_t bytes) {
  return Ask(service::SetBudget{bytes}).status();
}

}  // namespace npubank::service
