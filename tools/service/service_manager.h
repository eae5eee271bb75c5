// ServiceManager: what systemd, or whoever plays it, hands to a program that it starts, and keeps for it.
//
//   NPUBANK_ASSIGN_OR_RETURN(ServiceManager::Handed handed, ServiceManager::Take());
//   if (!handed.listener.is_open()) ... it was started by hand: listen oneself ...
//   auto kept = std::make_shared<service::KeptSegments>(ServiceManager::Store());
//   ServiceManager::Say("READY=1\nSTATUS=listening");
//
// Socket activation: the manager listens, and starts the program with the first connection; what the
// program does not accept waits in the queue, also while it is not running. Descriptor store: what the
// program gave the manager to keep comes back with its next start. The environment is believed only if it
// was made for this very process (LISTEN_PID), and is forgotten once read, so that no program that this
// one starts takes it for its own.
// Errors: of Take, InvalidArgument for a socket that is no listening one of type SOCK_SEQPACKET, and for two.
// Threads: Take before others are started; the rest from any.
#ifndef NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_
#define NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/bank/service/daemon/descriptor_store.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank {

class ServiceManager {
 public:
  struct Handed {
    FileDescriptor listener;  // closed when no manager started this process with a socket
    std::vector<service::NamedDescriptor> kept;  // all that is no socket
  };
  static absl::StatusOr<Handed> Take();
  // Null when no manager listens. One that keeps nothing (systemd without FileDescriptorStoreMax=) does
  // not say so: it closes what it is given.
  static std::unique_ptr<service::DescriptorStore> Store();
  // To the manager, if there is one that listens (notify_socket.h). Nothing depends on its being heard.
  static void Say(const std::string& state);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SERVICE_SERVICE_MANAGER_H_
