// Desk: what the daemon has with one client, without any socket: messages and descriptors in, answers
// and descriptors out.
//
//   Desk desk(bank, memory, {.pid = 123, .uid = 1000, .program = "bank-run"}, host);
//   absl::StatusOr<Desk::Answer> answer = desk.Handle(message, std::move(descriptors), options);
//   if (!answer.ok()) ... it broke the rules: end the connection ...
//
// A client has here the files it brought, and what it leases. Each Load is an owner of its tensors in
// the bank, under the client's name; it goes when the client has given back the last segment that was
// granted for it, and all of it goes with the desk. A Load if_there makes nothing: its tensors are those
// that are resident; one that leaves at that very moment is made again. A request that cannot be met is answered with
// Failed; an error of Handle is a violation: a message out of order, of the wrong direction, with
// descriptors it should not have, or beyond the limits below.
//
// Ownership: keeps bank and memory. Threads: Handle by one thread at a time, but for a Release, which may
// come while another Handle loads; Describe from any. Cost: what is asked for; Load takes as long as
// its evaluations.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_DESK_H_
#define NPUBANK_BANK_SERVICE_DAEMON_DESK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/service/daemon/brought_recipes.h"
#include "npubank/bank/service/daemon/kept_segments.h"
#include "npubank/bank/service/daemon/source_proof.h"
#include "npubank/bank/service/segment.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class Desk {
 public:
  static constexpr size_t kMostSources = 1024;    // open at a time, of one client
  static constexpr size_t kMostLeases = 1 << 20;  // of tensors, each grant counted

  struct Client {
    uint32_t pid = 0;
    uint32_t uid = 0;
    std::string program;
    std::string InWords() const;  // "bank-run, pid 123, uid 1000"
  };
  // What lies above all clients.
  class Host {
   public:
    virtual ~Host() = default;
    virtual State Describe() = 0;
    virtual absl::Status SetBudget(uint64_t bytes) = 0;
    // Before any of it is handed to a client; returns when it may be.
    virtual void Publish(absl::Span<const PublishedTensor>) {}
  };
  struct Answer {
    Message message;
    std::vector<FileDescriptor> descriptors = {};
    bool none = false;  // nothing is to be sent
  };

  // `host` outlives it.
  Desk(std::shared_ptr<Bank> bank, std::shared_ptr<SharedMemory> memory, Client client, Host& host);
  ~Desk();

  absl::StatusOr<Answer> Handle(const Message& request, std::vector<FileDescriptor> descriptors,
                                const LoadOptions& options);
  // After an answer, when nobody waits: what makes the next one's quicker.
  void Prepare() const;
  // As if it went; what else comes is answered as before.
  void Clear();
  ClientState Describe() const;
  const Client& client() const { return client_; }

 private:
  // A segment that was granted, with all of its tensors that are leased in it and who owns them.
  struct Granted {
    std::shared_ptr<const Segment> segment;
    uint64_t grants = 0;
    std::vector<Lease> leases;
    std::vector<std::shared_ptr<Owner>> owners;
  };
  using AnswerOr = absl::StatusOr<Answer>;

  AnswerOr HandleHello(const Hello& hello);
  AnswerOr HandleOpen(const OpenSources& open, std::vector<FileDescriptor> descriptors);
  AnswerOr HandleLoad(const Load& load, const LoadOptions& options);
  AnswerOr HandleMore(const More& more);
  AnswerOr HandleRelease(const Release& release);
  AnswerOr HandleState();
  AnswerOr HandleSetBudget(const SetBudget& set);
  void KeepResident(BroughtRecipes& brought) const;
  absl::StatusOr<Loaded> LoadAndGrant(const Load& load, const LoadOptions& options);
  absl::StatusOr<Loaded> Grant(std::shared_ptr<Owner> owner, const BroughtRecipes& brought,
                               std::vector<Lease> leases);
  // Of the last answer's segments, from `first` on, as many as a message takes.
  absl::StatusOr<std::vector<FileDescriptor>> DescriptorsFrom(size_t first);
  void SayLoading(std::string what);

  const std::shared_ptr<Bank> bank_;
  const std::shared_ptr<SharedMemory> memory_;
  const Client client_;
  Host& host_;
  // Used by Handle only.
  bool greeted_ = false;
  std::vector<std::shared_ptr<BroughtFile>> files_;
  std::vector<std::shared_ptr<const Segment>> answered_;  // the last Load's segments

  mutable Mutex mutex_;
  std::map<uint64_t, Granted> granted_ ABSL_GUARDED_BY(mutex_);  // by the segment's id
  size_t leases_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sources_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string loading_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_DESK_H_
