#include "npubank/tools/service/service_manager.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/service/notify_socket.h"

namespace npubank {
namespace {

class ManagersStore final : public service::DescriptorStore {
 public:
  explicit ManagersStore(std::unique_ptr<NotifySocket> manager) : manager_(std::move(manager)) {}
  absl::Status Keep(const std::string& name, int descriptor) override {
    return manager_->Send(absl::StrCat("FDSTORE=1\nFDNAME=", name), descriptor);
  }
  absl::Status Forget(const std::string& name) override {
    return manager_->Send(absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", name));
  }
  absl::Status Barrier() override { return manager_->Barrier(); }

 private:
  const std::unique_ptr<NotifySocket> manager_;
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
  std::unique_ptr<NotifySocket> manager = NotifySocket::FromEnvironment();
  if (manager == nullptr) return nullptr;
  return std::make_unique<ManagersStore>(std::move(manager));
}

void ServiceManager::Say(const std::string& state) {
  if (const auto manager = NotifySocket::FromEnvironment()) (void)manager->Send(state);
}

}  // namespace npubank
