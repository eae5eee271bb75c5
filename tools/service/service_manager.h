// ServiceManager: what systemd, or whoever plays it, hands to a program that it starts.
//
//   NPUBANK_ASSIGN_OR_RETURN(FileDescriptor listener, ServiceManager::TakeListener());
//   if (!listener.is_open()) ... it was started by hand: listen oneself ...
//   ServiceManager::Say("READY=1\nSTATUS=listening");
//
// Socket activation: the manager listens, and starts the program with the first connection; what the
// program does not accept waits in the queue, also while it is not running. The environment is
// believed only if it was made for this very process (LISTEN_PID), and is forgotten once read, so that
// no program that this one starts takes it for its own.
// Errors: InvalidArgument for anything but one listening socket of type SOCK_SEQPACKET.
// Threads: before others are started.
#ifndef NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_
#define NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_

#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank {

class ServiceManager {
 public:
  // Closed when no manager started this process with a socket.
  static absl::StatusOr<FileDescriptor> TakeListener();
  // To the manager, if there is one that listens: sd_notify(3). Nothing depends on its being heard.
  static void Say(const std::string& state);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_
