// ServiceSocket: the place in the file system where a daemon listens.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto socket, ServiceSocket::Listen("/run/user/1000/npubank/socket"));
//   NPUBANK_ASSIGN_OR_RETURN(auto server, Server::Start(socket->TakeListener(), ...));
//
// A lock beside it, "<path>.lock", says whether a daemon lives; so the socket file that a killed one
// left is replaced without asking, and one that is in use never. The folder is made, and must be,
// its owner's alone (0700): nobody else can connect, whatever the socket's own mode.
// Ownership: removes socket and lock at its end. Errors: AlreadyExists where a daemon listens already;
// FailedPrecondition for a folder that others may enter, or that is another's; else of the system.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_SERVICE_SOCKET_H_
#define NPUBANK_BANK_SERVICE_DAEMON_SERVICE_SOCKET_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/files/file_lock.h"

namespace npubank::service {

class ServiceSocket {
 public:
  // Where a program looks that is told "auto": $NPUBANK_SERVICE, or npubank/socket in
  // $XDG_RUNTIME_DIR; empty where there is neither.
  static std::string DefaultPath();

  static absl::StatusOr<std::unique_ptr<ServiceSocket>> Listen(const std::string& path);
  ~ServiceSocket();
  ServiceSocket(const ServiceSocket&) = delete;
  ServiceSocket& operator=(const ServiceSocket&) = delete;

  FileDescriptor TakeListener() { return std::move(listener_); }

 private:
  ServiceSocket(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  absl::Status Bind();

  const std::string path_;
  const FileLock lock_;
  FileDescriptor listener_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_SERVICE_SOCKET_H_
