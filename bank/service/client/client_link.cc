#include "npubank/bank/service/client/client_link.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr int kBetweenLooksMilliseconds = 10;  // at whether a load is cancelled
constexpr std::chrono::seconds kPatience{5};   // for a greeting, and for an answer once it is

std::string ThisProgram() {
  return program_invocation_short_name == nullptr ? "" : program_invocation_short_name;
}

absl::Status Unexpected(const Message& answer, absl::string_view request) {
  return absl::InternalError(
      absl::StrCat("the daemon answered a ", request, " with a ", NameOf(answer)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClientLink>> ClientLink::Greet(Channel channel,
                                                              const std::function<bool()>& ending) {
  std::shared_ptr<ClientLink> link(new ClientLink(std::move(channel)));
  // One that hangs, or has as many clients as it takes, is no reason to wait for ever.
  LoadOptions options;
  options.cancelled = [&ending, until = std::chrono::steady_clock::now() + kPatience] {
    return std::chrono::steady_clock::now() > until || (ending && ending());
  };
  Message answer;
  NPUBANK_RETURN_IF_ERROR(
      link->AskFor(Hello{.program = ThisProgram()}, {}, answer, options).status());
  const auto* hello = std::get_if<Hello>(&answer);
  if (hello == nullptr) return Unexpected(answer, "Hello");
  const Hello ours;
  if (hello->protocol == ours.protocol && hello->recipe_codec == ours.recipe_codec &&
      hello->result_revision == ours.result_revision) {
    return link;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the daemon has protocol ", hello->protocol, ", recipe codec ", hello->recipe_codec,
      " and result revision ", hello->result_revision, "; this program ", ours.protocol, ", ",
      ours.recipe_codec, " and ", ours.result_revision, ": start a daemon of the same build"));
}

absl::Status ClientLink::Lose(absl::Status why) {
  lost_ = true;
  channel_.End();
  return why;
}

// A daemon that refuses somebody says why and goes, whether he has asked for anything yet or not; the system
// tells first that it went.
absl::Status ClientLink::LastWords(absl::Status otherwise) {
  pollfd end = {channel_.descriptor(), POLLIN, 0};
  if (poll(&end, 1, 0) <= 0 || (end.revents & POLLIN) == 0) return otherwise;
  const absl::StatusOr<Channel::Packet> packet = channel_.Receive();
  if (!packet.ok()) return otherwise;
  const absl::StatusOr<Message> message = Decode(packet->bytes);
  const auto* failed = message.ok() ? std::get_if<Failed>(&*message) : nullptr;
  return failed == nullptr ? otherwise : failed->status;
}

absl::StatusOr<Message> ClientLink::Ask(const Message& request) {
  Message answer;
  NPUBANK_RETURN_IF_ERROR(AskFor(request, {}, answer, {}).status());
  return answer;
}

// What was asked for is answered, or the link is lost: nothing is left to be mistaken for the answer to
// the next request.
absl::StatusOr<Channel::Packet> ClientLink::AskFor(const Message& request,
                                                   absl::Span<const int> descriptors,
                                                   Message& answer, const LoadOptions& options) {
  const absl::Status sent = channel_.Send(Encode(request), descriptors);
  if (!sent.ok()) return Lose(LastWords(sent));
  bool cancelled = false;
  for (;;) {
    absl::StatusOr<Channel::Packet> packet = AwaitPacket(options, cancelled);
    if (!packet.ok()) return Lose(LastWords(packet.status()));
    absl::StatusOr<Message> message = Decode(packet->bytes);
    if (!message.ok()) return Lose(message.status());
    if (const auto* progress = std::get_if<Progress>(&*message)) {
      if (options.progress && !cancelled) {
        options.progress({progress->bytes_done, progress->bytes_total, progress->tensor});
      }
      continue;
    }
    if (const auto* failed = std::get_if<Failed>(&*message)) return failed->status;
    answer = *std::move(message);
    return packet;
  }
}

absl::StatusOr<Channel::Packet> ClientLink::AwaitPacket(const LoadOptions& options,
                                                        bool& cancelled) {
  if (options.cancelled == nullptr) return channel_.Receive();
  auto deadline = std::chrono::steady_clock::time_point::max();
  for (;;) {
    if (!cancelled && options.cancelled()) {
      cancelled = true;
      NPUBANK_RETURN_IF_ERROR(channel_.Send(Encode(Cancel{})));
    }
    if (cancelled && deadline == std::chrono::steady_clock::time_point::max()) {
      deadline = std::chrono::steady_clock::now() + kPatience;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::CancelledError("the daemon does not answer");
    }
    pollfd end = {channel_.descriptor(), POLLIN, 0};
    if (poll(&end, 1, kBetweenLooksMilliseconds) > 0) return channel_.Receive();
  }
}

absl::Status ClientLink::OpenSources(const SourceIndex& index, absl::Span<const uint32_t> files,
                                     const LoadOptions& options) {
  std::vector<uint32_t> unknown;
  for (const uint32_t file : files) {
    const bool known = sources_.contains(index.file(file).identity) ||
                       std::find(unknown.begin(), unknown.end(), file) != unknown.end();
    if (!known) unknown.push_back(file);
  }
  for (size_t first = 0; first < unknown.size(); first += Channel::kMostDescriptors) {
    NPUBANK_RETURN_IF_ERROR(OpenBatch(
        index, absl::MakeConstSpan(unknown).subspan(first, Channel::kMostDescriptors), options));
  }
  return absl::OkStatus();
}

absl::Status ClientLink::OpenBatch(const SourceIndex& index, absl::Span<const uint32_t> files,
                                   const LoadOptions& options) {
  service::OpenSources request;
  std::vector<std::shared_ptr<Source>> sources;  // open while they are sent
  std::vector<int> descriptors;
  for (const uint32_t file : files) {
    NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, index.Open(file));
    if (source->descriptor() < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", source->name(), "' is no file whose descriptor could be shown"));
    }
    request.names.push_back(source->name().substr(0, kMostNameBytes));
    descriptors.push_back(source->descriptor());
    sources.push_back(std::move(source));
  }
  Message answer;
  NPUBANK_RETURN_IF_ERROR(AskFor(request, descriptors, answer, options).status());
  const auto* opened = std::get_if<SourcesOpened>(&answer);
  if (opened == nullptr || opened->sources.size() != files.size()) {
    return Lose(Unexpected(answer, "OpenSources"));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const SourceIndex::File& file = index.file(files[i]);
    const SourcesOpened::Source& theirs = opened->sources[i];
    if (theirs.identity != file.identity || theirs.samples != file.samples) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", file.name, "' is another file for the daemon than for this process"));
    }
    sources_.emplace(file.identity, theirs.number);
  }
  return absl::OkStatus();
}

absl::StatusOr<ClientLink::Granted> ClientLink::Load(const service::Load& request,
                                                     const LoadOptions& options) {
  Message answer;
  NPUBANK_ASSIGN_OR_RETURN(Channel::Packet packet, AskFor(request, {}, answer, options));
  auto* loaded = std::get_if<Loaded>(&answer);
  if (loaded == nullptr) return Lose(Unexpected(answer, "Load"));
  Granted granted{.loaded = std::move(*loaded), .segments = {}};
  const std::vector<Loaded::Segment>& segments = granted.loaded.segments;
  for (;;) {
    const size_t done = granted.segments.size();
    const size_t due = std::min(segments.size() - done, Channel::kMostDescriptors);
    if (packet.descriptors.size() != due) {
      return Lose(absl::InternalError(absl::StrCat("the daemon sent ", packet.descriptors.size(),
                                                   " of ", due, " descriptors")));
    }
    for (size_t i = 0; i < due; ++i) {
      auto segment = Take(segments[done + i], std::move(packet.descriptors[i]));
      if (!segment.ok()) return Lose(segment.status());
      granted.segments.push_back(*std::move(segment));
    }
    if (granted.segments.size() == segments.size()) return granted;
    const More more{static_cast<uint32_t>(granted.segments.size())};
    absl::StatusOr<Channel::Packet> next = AskFor(more, {}, answer, {});
    if (!next.ok()) return Lose(next.status());  // what was granted goes back with the link
    packet = *std::move(next);
  }
}

absl::StatusOr<std::shared_ptr<LeasedSegment>> ClientLink::Take(const Loaded::Segment& segment,
                                                                FileDescriptor file) {
  {
    MutexLock lock(mutex_);
    const auto known = segments_.find(segment.number);
    if (known != segments_.end()) {
      if (auto alive = known->second.lock()) {
        alive->AddGrant();
        return alive;
      }
    }
  }
  NPUBANK_ASSIGN_OR_RETURN(
      auto taken,
      LeasedSegment::Take(segment.number, segment.bytes, std::move(file),
                          [link = shared_from_this()](uint64_t number, uint32_t grants) {
                            link->Release(number, grants);
                          }));
  MutexLock lock(mutex_);
  segments_[segment.number] = taken;
  return taken;
}

void ClientLink::Renew(const std::shared_ptr<LeasedSegment>& held, LeasedSegment& fresh) {
  held->SwapGrants(fresh);
  MutexLock lock(mutex_);
  segments_[held->number()] = held;
}

// May come while another thread waits for an answer.
void ClientLink::Release(uint64_t number, uint32_t grants) {
  {
    MutexLock lock(mutex_);
    const auto known = segments_.find(number);
    if (known != segments_.end() && known->second.expired()) segments_.erase(known);
  }
  if (lost_) return;
  service::Release release;
  release.segments.push_back(number);
  release.grants.push_back(grants);
  if (!channel_.Send(Encode(release)).ok()) lost_ = true;
}

}  // namespace npubank::service
