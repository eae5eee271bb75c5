#include "npubank/tools/service/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace npubank {

absl::StatusOr<FileDescriptor> ServiceManager::TakeListener() {
  const int count = sd_listen_fds(/*unset_environment=*/1);
  if (count < 0) return SystemError(-count, "cannot take", "what the service manager handed over");
  std::vector<FileDescriptor> handed;  // what is refused is closed
  for (int i = 0; i < count; ++i) handed.emplace_back(SD_LISTEN_FDS_START + i);
  if (handed.empty()) return FileDescriptor();
  if (handed.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the service manager handed over ", count,
                                                   " descriptors; one socket is what is wanted"));
  }
  if (sd_is_socket_unix(handed[0].get(), SOCK_SEQPACKET, /*listening=*/1, nullptr, 0) <= 0) {
    return absl::InvalidArgumentError(
        "the service manager handed over what is no listening socket of type SOCK_SEQPACKET; its "
        "unit wants ListenSequentialPacket=");
  }
  return std::move(handed[0]);
}

void ServiceManager::Say(const std::string& state) {
  (void)sd_notify(/*unset_environment=*/0, state.c_str());
}

}  // namespace npubank
