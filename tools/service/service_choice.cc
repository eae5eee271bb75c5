#include "npubank/tools/service/service_choice.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::StatusOr<ServiceChoice> ServiceChoice::Open(const std::string& choice) {
  ServiceChoice made;
  if (choice == "off") {
    made.why = "off";
    return made;
  }
  if (choice != "auto") {
    NPUBANK_ASSIGN_OR_RETURN(made.client, service::BankClient::Connect(choice));
    return made;
  }
  const std::string path = service::ServiceSocket::DefaultPath();
  if (path.empty()) {
    made.why = "none: neither NPUBANK_SERVICE nor XDG_RUNTIME_DIR says where";
    return made;
  }
  auto client = service::BankClient::Connect(path);
  if (client.ok()) {
    made.client = *std::move(client);
  } else if (absl::IsNotFound(client.status())) {
    made.why = absl::StrCat("none at ", path);
  } else {
    made.why = absl::StrCat("not used: ", client.status().message());
  }
  return made;
}

}  // namespace npubank
