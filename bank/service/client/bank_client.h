// BankClient: the bank of the machine, npubankd, as this process's bank asks it (bank/upstream.h).
//
//   NPUBANK_ASSIGN_OR_RETURN(auto client, service::BankClient::Connect("/run/user/1000/npubank/socket"));
//   std::shared_ptr<Bank> bank = Bank::Create(memory, {.upstream = client});
//   ...
//   NPUBANK_ASSIGN_OR_RETURN(service::State state, client->GetState());  // what bank-inspect shows
//
// What a load is missing is asked for at once: the daemon is given the recipes as they are, and open
// descriptors of the files they are made from, which prove that this process may read them. It answers
// with sealed memory that holds the evaluated tensors. What comes back has the digest and the stamp that
// were asked for, or is not taken.
//
// The pages are this process's as soon as they are leased: the daemon's end takes nothing away. A thread
// notices that end and connects, as a load does, to whatever daemon comes after it; what of that one's
// memory this process has from before (a daemon whose service manager kept it) is leased again at once,
// so that the daemon counts it and does not let it go. Nothing is made for that, and what this process
// has that the new daemon has not stays as it is.
//
// Ownership: shared; what was leased keeps its connection, not the client. Threads: every method, from
// any; one asks at a time, the others wait. Do not use it on both sides of a fork().
// Errors: NotFound or Unavailable where there is no daemon; FailedPrecondition for one that does not
// fit (protocol, recipe codec, result revision), PermissionDenied for another user's, each saying so;
// of a load, those of Bank::Load in the daemon. After any other answer than it should have given the
// connection is dropped.
// Cost: Connect one round trip (some 100 us) and a thread that sleeps; a load two, and one more for each 252 segments.
#ifndef NPUBANK_BANK_SERVICE_CLIENT_BANK_CLIENT_H_
#define NPUBANK_BANK_SERVICE_CLIENT_BANK_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/bank/upstream.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class ClientLink;
class DaemonWatch;
class LeasedSegment;

class BankClient final : public Upstream {
 public:
  static absl::StatusOr<std::shared_ptr<BankClient>> Connect(const std::string& path);
  // Over a channel that is connected already; there is no connecting again.
  static absl::StatusOr<std::shared_ptr<BankClient>> Over(Channel channel);
  ~BankClient() override;

  std::string name() const override;
  absl::StatusOr<std::vector<Leased>> Lease(absl::string_view load, absl::Span<const Wanted> wanted,
                                            const LoadOptions& options) override;

  absl::StatusOr<State> GetState();
  // The daemon's: Bank::SetBudget.
  absl::Status SetBudget(uint64_t bytes);

 private:
  class Turn;

  explicit BankClient(std::string path);
  // The connection, made again where it was lost; what was held before is leased over it.
  absl::StatusOr<std::shared_ptr<ClientLink>> GetLink(bool* is_new);
  absl::StatusOr<std::shared_ptr<ClientLink>> MakeLink() const;
  // What is left of what was leased; forgets the rest.
  std::vector<std::shared_ptr<LeasedSegment>> Held();
  absl::Status LeaseAgain(ClientLink& link, absl::Span<const std::shared_ptr<LeasedSegment>> held);
  // The daemon has gone. False: there is none to lease again from what is held.
  bool Reconnect();
  void Remember(const std::shared_ptr<LeasedSegment>& segment, const Wanted& wanted);
  absl::StatusOr<std::vector<Leased>> LeaseOver(const std::shared_ptr<ClientLink>& link,
                                                absl::string_view load,
                                                absl::Span<const Wanted> wanted,
                                                const LoadOptions& options);
  absl::StatusOr<Message> Ask(const Message& request);

  const std::string path_;  // empty: Over
  Mutex mutex_;
  CondVar free_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  // Of whose turn it is.
  std::shared_ptr<ClientLink> link_;
  std::vector<std::weak_ptr<LeasedSegment>> held_;
  bool owes_ = false;  // what is held is not leased over the link yet
  std::atomic<bool> ending_ = false;
  std::unique_ptr<DaemonWatch> watch_;  // null: Over
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_CLIENT_BANK_CLIENT_H_
