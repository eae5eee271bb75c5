// Server: the clients of one bank: accepts them, and knows who is there.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto listener, ServiceSocket::Listen(path));
//   NPUBANK_ASSIGN_OR_RETURN(auto server, Server::Start(std::move(listener), bank, memory, options));
//   server->AwaitIdle(...);    // or whatever the program waits for
//   server.reset();            // ends every connection; clients keep the pages they have
//
// One thread accepts, and one reads for each client (connection.h). Only processes of the same user, and
// root, are served: others are told so and let go. At a limit of descriptors or threads, or when
// kMostClients are there, nobody is accepted until somebody has gone; who waits, waits in the
// socket's queue.
//
// What nobody has wanted for `idle_age` leaves within a second.
// Ownership: keeps bank and memory. Threads: every method, from any. Errors: of the system.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_SERVER_H_
#define NPUBANK_BANK_SERVICE_DAEMON_SERVER_H_

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/service/daemon/connection.h"
#include "npubank/bank/service/daemon/desk.h"
#include "npubank/bank/service/daemon/kept_segments.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class Server final : public Desk::Host {
 public:
  static constexpr size_t kMostClients = 256;

  struct Options {
    // What nobody has wanted for so long leaves; 0: it stays until its room is needed.
    std::chrono::milliseconds idle_age{0};
    // What keeps for the next daemon what is handed out; null: nobody.
    std::shared_ptr<KeptSegments> kept = nullptr;
  };

  // `listener`: a listening socket of type SOCK_SEQPACKET; invalid for none, when clients come by Add.
  static absl::StatusOr<std::unique_ptr<Server>> Start(FileDescriptor listener,
                                                       std::shared_ptr<Bank> bank,
                                                       std::shared_ptr<SharedMemory> memory,
                                                       Options options);
  ~Server() override;

  // A client that is connected already.
  absl::Status Add(Channel channel);
  // All that bank-inspect shows.
  State Describe() override;
  absl::Status SetBudget(uint64_t bytes) override;
  void Publish(absl::Span<const PublishedTensor> tensors) override;
  // How many clients there are, and since when there have been none.
  size_t clients() const;
  std::chrono::milliseconds idle_for() const;

 private:
  Server(FileDescriptor listener, std::shared_ptr<Bank> bank, std::shared_ptr<SharedMemory> memory,
         Options options);
  void Run();
  // False when it has to wait for somebody to go.
  bool AcceptOne();
  void DropDone();
  void TrimByAge() const;
  void Wake();

  const FileDescriptor listener_;
  const std::shared_ptr<Bank> bank_;
  const std::shared_ptr<SharedMemory> memory_;
  const Options options_;
  FileDescriptor wake_;  // an eventfd: somebody has gone, or the server ends
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point idle_since_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();
  std::thread thread_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_SERVER_H_
