#include "npubank/bank/service/daemon/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/service/daemon/peer.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank::service {
namespace {

constexpr std::chrono::milliseconds kTick{500};

absl::Status CheckUser(const Peer& peer) {
  if (peer.uid == geteuid() || peer.uid == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("this daemon serves user ", geteuid(), ", not ",
                                                  peer.uid, ": start one of your own"));
}

}  // namespace

Server::Server(FileDescriptor listener, std::shared_ptr<Bank> bank,
               std::shared_ptr<SharedMemory> memory, Options options)
    : listener_(std::move(listener)),
      bank_(std::move(bank)),
      memory_(std::move(memory)),
      options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(FileDescriptor listener,
                                                      std::shared_ptr<Bank> bank,
                                                      std::shared_ptr<SharedMemory> memory,
                                                      Options options) {
  std::unique_ptr<Server> server(
      new Server(std::move(listener), std::move(bank), std::move(memory), std::move(options)));
  server->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wake_.is_open()) return SystemError(errno, "cannot make", "an eventfd");
  NPUBANK_ASSIGN_OR_RETURN(server->thread_, StartThread([self = server.get()] { self->Run(); }));
  return server;
}

Server::~Server() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
  std::vector<std::unique_ptr<Connection>> connections;
  {
    MutexLock lock(mutex_);
    connections.swap(connections_);
  }
  for (const auto& connection : connections) connection->End();  // all at once, then each
}

void Server::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void Server::Run() {
  bool accepts = listener_.is_open();
  for (;;) {
    pollfd ends[2] = {{wake_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}};
    (void)poll(ends, 2, static_cast<int>(kTick.count()));
    if (ends[0].revents != 0) {
      uint64_t count = 0;
      (void)!read(wake_.get(), &count, sizeof(count));
    }
    {
      MutexLock lock(mutex_);
      if (ending_) return;
    }
    DropDone();
    // Again when somebody has gone, or at the next tick: who else has descriptors does not say when he
    // gives them back.
    if (!accepts) accepts = listener_.is_open();
    if (accepts && (ends[1].revents & POLLIN) != 0) accepts = AcceptOne();
    TrimByAge();
  }
}

bool Server::AcceptOne() {
  if (clients() >= kMostClients) return false;
  FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN;
  (void)Add(Channel(std::move(socket)));  // what it is refused for, it was told
  return true;
}

absl::Status Server::Add(Channel channel) {
  absl::StatusOr<Peer> peer = Peer::Of(channel.descriptor());
  absl::Status status = peer.status();
  if (status.ok()) status = CheckUser(*peer);
  if (!status.ok()) {
    (void)channel.Send(Encode(Failed{status}));
    return status;
  }
  auto desk = std::make_unique<Desk>(
      bank_, memory_, Desk::Client{.pid = peer->pid, .uid = peer->uid, .program = peer->program},
      *this);
  // Started under the lock: it is among the clients before it can ask who they are.
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(auto connection, Connection::Start(std::move(channel), *std::move(peer),
                                                              std::move(desk), [this] { Wake(); }));
  connections_.push_back(std::move(connection));
  return absl::OkStatus();
}

void Server::DropDone() {
  std::vector<std::unique_ptr<Connection>> done;  // joined after the lock
  MutexLock lock(mutex_);
  const auto end = std::stable_partition(connections_.begin(), connections_.end(),
                                         [](const auto& of) { return !of->done(); });
  std::move(end, connections_.end(), std::back_inserter(done));
  connections_.erase(end, connections_.end());
  if (!connections_.empty() || !done.empty()) idle_since_ = std::chrono::steady_clock::now();
}

void Server::TrimByAge() const {
  if (options_.idle_age.count() > 0) bank_->Trim(options_.idle_age);
}

size_t Server::clients() const {
  MutexLock lock(mutex_);
  return connections_.size();
}

std::chrono::milliseconds Server::idle_for() const {
  MutexLock lock(mutex_);
  if (!connections_.empty()) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               idle_since_);
}

State Server::Describe() {
  State state;
  std::vector<std::shared_ptr<const Desk>> desks;
  {
    MutexLock lock(mutex_);
    for (const auto& connection : connections_) {
      if (!connection->done()) desks.push_back(connection->desk());
    }
  }
  for (const auto& desk : desks) state.clients.push_back(desk->Describe());
  state.snapshot = EncodeSnapshot(bank_->Snapshot());
  const BankTotals totals = bank_->Totals();
  state.evaluations = totals.evaluations;
  state.transformations = totals.transformations;
  state.evictions = totals.evictions;
  state.cache_hits = totals.cache_hits;
  state.waits = totals.waits;
  state.budget = totals.budget;
  state.budget_used = totals.budget_used;
  state.memory_bytes = memory_->DriverBytes().value_or(0);
  state.pid = static_cast<uint32_t>(getpid());
  state.audit = bank_->Audit().discrepancies;
  for (const auto& segment : memory_->Segments()) {
    const bool kept = options_.kept != nullptr && options_.kept->Has(*segment);
    state.segments.push_back({.number = segment->id(),
                              .name = segment->name(),
                              .bytes = segment->sealed_bytes(),
                              .memory_bytes = segment->MemoryBytes().value_or(0),
                              .tensors = memory_->TensorsIn(*segment),
                              .kept = kept});
  }
  std::sort(state.segments.begin(), state.segments.end(),
            [](const SegmentState& a, const SegmentState& b) { return a.number < b.number; });
  if (options_.kept != nullptr) {
    state.adopted = options_.kept->adopted();
    state.kept_problems = options_.kept->problems();
  }
  return state;
}

void Server::Publish(absl::Span<const PublishedTensor> tensors) {
  if (options_.kept != nullptr) options_.kept->Keep(tensors);
}

absl::Status Server::SetBudget(uint64_t bytes) { return bank_->SetBudget(bytes); }

}  // namespace npubank::service
