#include "npubank/tools/service/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr std::chrono::seconds kPatience{5};  // with a manager that does not answer

// 0 of sd_notify means that nobody was told.
absl::Status Told(int result) {
  if (result > 0) return absl::OkStatus();
  if (result == -ETIMEDOUT) {
    return absl::DeadlineExceededError("the service manager does not answer");
  }
  const char* const why = result == 0 ? "there is none" : std::strerror(-result);
  return absl::UnavailableError(absl::StrCat("cannot tell the service manager: ", why));
}

class ManagersStore final : public service::DescriptorStore {
 public:
  absl::Status Keep(const std::string& name, int descriptor) override {
    const std::string state = absl::StrCat("FDSTORE=1\nFDNAME=", name);
    return Told(
        sd_pid_notify_with_fds(/*pid=*/0, /*unset_environment=*/0, state.c_str(), &descriptor, 1));
  }
  absl::Status Forget(const std::string& name) override {
    return Told(sd_notify(0, absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", name).c_str()));
  }
  absl::Status Barrier() override {
    return Told(sd_notify_barrier(0, std::chrono::microseconds(kPatience).count()));
  }
};

absl::Status TakeListener(FileDescriptor file, ServiceManager::Handed& handed) {
  if (handed.listener.is_open()) {
    return absl::InvalidArgumentError(
        "the service manager handed over two sockets; one is what is wanted");
  }
  if (sd_is_socket_unix(file.get(), SOCK_SEQPACKET, /*listening=*/1, nullptr, 0) <= 0) {
    return absl::InvalidArgumentError(
        "the service manager handed over what is no listening socket of type SOCK_SEQPACKET; its "
        "unit wants ListenSequentialPacket=");
  }
  handed.listener = std::move(file);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServiceManager::Handed> ServiceManager::Take() {
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  if (count < 0) return SystemError(-count, "cannot take", "what the service manager handed over");
  std::vector<service::NamedDescriptor> all;  // what is refused is closed
  for (int i = 0; i < count; ++i) {
    const bool named = names != nullptr && names[i] != nullptr;
    all.push_back({named ? names[i] : "", FileDescriptor(SD_LISTEN_FDS_START + i)});
    if (named) std::free(names[i]);
  }
  std::free(names);
  Handed handed;
  for (service::NamedDescriptor& of : all) {
    if (sd_is_socket(of.file.get(), AF_UNSPEC, 0, -1) > 0) {
      NPUBANK_RETURN_IF_ERROR(TakeListener(std::move(of.file), handed));
    } else {
      handed.kept.push_back(std::move(of));
    }
  }
  return handed;
}

std::unique_ptr<service::DescriptorStore> ServiceManager::Store() {
  const char* const socket = std::getenv("NOTIFY_SOCKET");
  if (socket == nullptr || *socket == '\0') return nullptr;
  return std::make_unique<ManagersStore>();
}

void ServiceManager::Say(const std::string& state) {
  (void)sd_notify(/*unset_environment=*/0, state.c_str());
}

}  // namespace npubank
