// DaemonWatch: notices that a daemon has gone, and has its client try again until there is another.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto watch, DaemonWatch::Start([this] { return Reconnect(); }));
//   watch->Look(link);                       // from now on at the end of this one
//
// When a link's daemon is gone the link is marked lost, and `try_again` is called from the watch's thread: at
// once, and after pauses that grow to a second for as long as it returns false.
// Ownership: dropping it ends the thread, after the call that is under way. Threads: Look from any. Errors of
// Start: the system's. Cost: a thread that sleeps while the daemon is there.
#ifndef NPUBANK_BANK_SERVICE_CLIENT_DAEMON_WATCH_H_
#define NPUBANK_BANK_SERVICE_CLIENT_DAEMON_WATCH_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/bank/service/client/client_link.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class DaemonWatch {
 public:
  // False: there is still something to be done, and no daemon.
  using TryAgain = std::function<bool()>;

  static absl::StatusOr<std::unique_ptr<DaemonWatch>> Start(TryAgain try_again);
  ~DaemonWatch();
  DaemonWatch(const DaemonWatch&) = delete;
  DaemonWatch& operator=(const DaemonWatch&) = delete;

  void Look(std::shared_ptr<ClientLink> link);

 private:
  explicit DaemonWatch(TryAgain try_again) : try_again_(std::move(try_again)) {}
  void Run();
  // Until the daemon goes, somebody wakes it, or it has waited for so long; false at the end.
  bool AwaitNews(int milliseconds, bool& gone);
  void Wake() const;

  const TryAgain try_again_;
  FileDescriptor wake_;  // an eventfd
  Mutex mutex_;
  std::shared_ptr<ClientLink> link_ ABSL_GUARDED_BY(mutex_);  // null: none, or one that is lost
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_CLIENT_DAEMON_WATCH_H_
