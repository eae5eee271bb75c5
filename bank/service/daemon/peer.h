// Peer: who is at the other end of a Unix socket, as the system says, and whether that process lives.
//
//   NPUBANK_ASSIGN_OR_RETURN(Peer peer, Peer::Of(channel.descriptor()));
//   peer.uid, peer.pid, peer.program;
//   poll on peer.process: readable when it has ended, also where a child of it keeps the socket open
//
// Threads: none of its own. Errors: SystemError; Unavailable for a process that has ended already.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_PEER_H_
#define NPUBANK_BANK_SERVICE_DAEMON_PEER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank::service {

struct Peer {
  uint32_t pid = 0;
  uint32_t uid = 0;
  std::string program;     // as it calls itself; may be anything
  FileDescriptor process;  // a pidfd

  static absl::StatusOr<Peer> Of(int socket);
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_PEER_H_
