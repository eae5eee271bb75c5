// NotifySocket: what a service says to its manager: datagrams to the socket that NOTIFY_SOCKET names, as
// sd_notify(3) describes them.
//
//   std::unique_ptr<NotifySocket> socket = NotifySocket::FromEnvironment();   // null: no manager listens
//   NPUBANK_RETURN_IF_ERROR(socket->Send("READY=1\nSTATUS=listening"));
//   NPUBANK_RETURN_IF_ERROR(socket->Send("FDSTORE=1\nFDNAME=s7", segment.descriptor()));
//   NPUBANK_RETURN_IF_ERROR(socket->Barrier());       // all that was said is done
//
// libsystemd's own calls wait for ever for a manager that does not read: a daemon whose manager hangs would
// hang with it. These wait for `patience`, once: afterwards nothing more is said, at no cost.
// Ownership: unique. Threads: any. Errors: DeadlineExceeded for a manager that does not read or answer, and
// from then on; Unavailable for all else, saying what the system said. Cost: a system call each, but for
// Barrier, a round trip.
#ifndef NPUBANK_TOOLS_SERVICE_NOTIFY_SOCKET_H_
#define NPUBANK_TOOLS_SERVICE_NOTIFY_SOCKET_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank {

class NotifySocket {
 public:
  static std::unique_ptr<NotifySocket> FromEnvironment();
  // `name`: a path, or "@" and a name that is in no file system.
  explicit NotifySocket(std::string name,
                        std::chrono::milliseconds patience = std::chrono::seconds(5))
      : name_(std::move(name)), patience_(patience) {}

  // `descriptor`: none when negative; it stays the caller's.
  absl::Status Send(absl::string_view state, int descriptor = -1);
  absl::Status Barrier();

 private:
  absl::Status SendNow(absl::string_view state, int descriptor) const;

  const std::string name_;
  const std::chrono::milliseconds patience_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SERVICE_NOTIFY_SOCKET_H_
