// ClientLink: one connection of a BankClient: requests and their answers, the sources that the daemon has
// been given on it, and the segments that are leased over it.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto link, ClientLink::Greet(std::move(channel)));
//   NPUBANK_ASSIGN_OR_RETURN(const uint32_t number, link->SourceOf(*index, file));
//   NPUBANK_ASSIGN_OR_RETURN(ClientLink::Granted granted, link->Load(request, options));
//
// Ownership: shared with every segment that was leased over it, so that its last lease is given back.
// Threads: one asks at a time; a segment may be let go of from any. Errors: as BankClient; when
// lost() the link is of no more use than keeping what it leased.
#ifndef NPUBANK_BANK_SERVICE_CLIENT_CLIENT_LINK_H_
#define NPUBANK_BANK_SERVICE_CLIENT_CLIENT_LINK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/bank_options.h"
#include "npubank/bank/service/client/leased_segment.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank::service {

class ClientLink : public std::enable_shared_from_this<ClientLink> {
 public:
  struct Granted {
    Loaded loaded;
    std::vector<std::shared_ptr<LeasedSegment>> segments;  // one for each of loaded.segments
  };

  // Cancelled soon after `ending`, if there is one, says so.
  static absl::StatusOr<std::shared_ptr<ClientLink>> Greet(
      Channel channel, const std::function<bool()>& ending = nullptr);

  // Gives the daemon the descriptors of these files that it has not been given yet. FailedPrecondition for
  // what is no file, and where the daemon found another file than the index.
  absl::Status OpenSources(const SourceIndex& index, absl::Span<const uint32_t> files,
                           const LoadOptions& options);
  // Of a file that was opened.
  uint32_t NumberOf(const Digest& identity) const { return sources_.at(identity); }
  absl::StatusOr<Granted> Load(const service::Load& request, const LoadOptions& options);
  // `held`, of a link that is lost, is the same memory as `fresh`, of this one: it is leased over this one
  // from now on.
  void Renew(const std::shared_ptr<LeasedSegment>& held, LeasedSegment& fresh);
  // The answer to a request; Failed becomes its Status.
  absl::StatusOr<Message> Ask(const Message& request);

  bool lost() const { return lost_; }
  // For poll(2); and what to say when that shows that the daemon is gone.
  int descriptor() const { return channel_.descriptor(); }
  void MarkLost() { lost_ = true; }

 private:
  explicit ClientLink(Channel channel) : channel_(std::move(channel)) {}
  absl::StatusOr<Channel::Packet> AskFor(const Message& request, absl::Span<const int> descriptors,
                                         Message& answer, const LoadOptions& options);
  absl::StatusOr<Channel::Packet> AwaitPacket(const LoadOptions& options, bool& cancelled);
  absl::Status OpenBatch(const SourceIndex& index, absl::Span<const uint32_t> files,
                         const LoadOptions& options);
  absl::StatusOr<std::shared_ptr<LeasedSegment>> Take(const Loaded::Segment& segment,
                                                      FileDescriptor file);
  void Release(uint64_t number, uint32_t grants);
  absl::Status Lose(absl::Status why);
  // What it said before it went, if it did.
  absl::Status LastWords(absl::Status otherwise);

  Channel channel_;
  std::atomic<bool> lost_ = false;
  std::map<Digest, uint32_t> sources_;  // the daemon's numbers, by identity
  Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<LeasedSegment>> segments_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_CLIENT_CLIENT_LINK_H_
