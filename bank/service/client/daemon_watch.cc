#include "npubank/bank/service/client/daemon_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank::service {
namespace {

constexpr int kFirstPauseMilliseconds = 10;
constexpr int kLongestPauseMilliseconds = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonWatch>> DaemonWatch::Start(TryAgain try_again) {
  std::unique_ptr<DaemonWatch> watch(new DaemonWatch(std::move(try_again)));
  watch->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch->wake_.is_open()) return SystemError(errno, "cannot make", "an eventfd");
  NPUBANK_ASSIGN_OR_RETURN(watch->thread_, StartThread([self = watch.get()] { self->Run(); }));
  return watch;
}

DaemonWatch::~DaemonWatch() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  Wake();
  thread_.join();
}

void DaemonWatch::Look(std::shared_ptr<ClientLink> link) {
  {
    MutexLock lock(mutex_);
    link_ = std::move(link);
  }
  Wake();
}

void DaemonWatch::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void DaemonWatch::Run() {
  bool trying = false;
  int pause = 0;
  for (bool gone = false; AwaitNews(trying ? pause : -1, gone);) {
    if (gone) pause = kFirstPauseMilliseconds;
    if (!gone && !trying) continue;
    trying = !try_again_();
    pause = std::min(gone ? pause : 2 * pause, kLongestPauseMilliseconds);
  }
}

bool DaemonWatch::AwaitNews(int milliseconds, bool& gone) {
  std::shared_ptr<ClientLink> link;
  {
    MutexLock lock(mutex_);
    if (ending_) return false;
    link = link_;
  }
  pollfd ends[2] = {{wake_.get(), POLLIN, 0},
                    {link == nullptr ? -1 : link->descriptor(), POLLRDHUP, 0}};
  (void)poll(ends, 2, milliseconds);
  uint64_t count = 0;
  if (ends[0].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
  gone = ends[1].revents != 0;
  if (gone) link->MarkLost();
  MutexLock lock(mutex_);
  if (gone && link_ == link) link_ = nullptr;  // dropped by whoever else has it
  return !ending_;
}

}  // namespace npubank::service
