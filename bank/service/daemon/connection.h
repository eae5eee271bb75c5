// Connection: one client of the daemon: reads what it says, hands it to its desk, and answers.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto connection, Connection::Start(std::move(channel), ..., when_done));
//   connection->done();      // ended, for whatever reason: drop it
//   connection->End();       // from any thread; then drop it
//
// It lasts until the client closes it, its process ends (a child that keeps the socket open changes
// nothing), it breaks the rules, or does not read what it is sent. Then its desk goes: owners, leases,
// half-made loads and descriptors with it. A load under way is cancelled; the tensor that it is making is
// finished first when others wait for it, from the files that this client brought.
// A thread of its own reads; a load has another, so that a Cancel, a Release and the client's end are
// seen meanwhile. Ownership: dropping it ends it and waits for both. Threads: every method, from any.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_CONNECTION_H_
#define NPUBANK_BANK_SERVICE_DAEMON_CONNECTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/service/daemon/desk.h"
#include "npubank/bank/service/daemon/peer.h"
#include "npubank/bank/service/wire/channel.h"

namespace npubank::service {

class Connection {
 public:
  // `when_done` is told from the connection's own thread, which must not drop the connection.
  static absl::StatusOr<std::unique_ptr<Connection>> Start(Channel channel, Peer peer,
                                                           std::unique_ptr<Desk> desk,
                                                           std::function<void()> when_done);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void End();
  bool done() const { return done_; }
  // May outlive the connection, and is empty then.
  std::shared_ptr<const Desk> desk() const { return desk_; }

 private:
  Connection(Channel channel, Peer peer, std::unique_ptr<Desk> desk,
             std::function<void()> when_done)
      : channel_(std::move(channel)),
        peer_(std::move(peer)),
        desk_(std::move(desk)),
        when_done_(std::move(when_done)) {}

  absl::Status Serve();
  // False when there is nothing more to come.
  bool AwaitMessage() const;
  absl::Status HandleOne(Channel::Packet packet);
  absl::Status StartLoad(Message message);
  absl::Status Answer(absl::StatusOr<Desk::Answer> answer);
  void JoinLoad();

  Channel channel_;
  const Peer peer_;
  const std::shared_ptr<Desk> desk_;
  const std::function<void()> when_done_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> cancelled_ = false;  // the load under way
  std::atomic<bool> loading_ = false;
  std::atomic<bool> done_ = false;
  std::thread load_;
  std::thread reader_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_CONNECTION_H_
