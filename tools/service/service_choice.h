// ServiceChoice: whether a program uses the bank of the machine, npubankd, as `--service` says it.
//
//   NPUBANK_ASSIGN_OR_RETURN(ServiceChoice service, ServiceChoice::Open("auto"));
//   options.upstream = service.client;      // null: not used, and `why` says so
//
//   auto   where a daemon is at its usual place ($NPUBANK_SERVICE, or npubank/socket in
//          $XDG_RUNTIME_DIR); what keeps it from being used is said, and is no error
//   off    never
//   PATH   the daemon there; errors are those of BankClient::Connect
#ifndef NPUBANK_TOOLS_SERVICE_SERVICE_CHOICE_H_
#define NPUBANK_TOOLS_SERVICE_SERVICE_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/bank/service/client/bank_client.h"

namespace npubank {

struct ServiceChoice {
  std::shared_ptr<service::BankClient> client;
  std::string why;  // there is no client

  static absl::StatusOr<ServiceChoice> Open(const std::string& choice);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SERVICE_SERVICE_CHOICE_H_
