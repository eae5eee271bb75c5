// bank-inspect: prints what a bank held when its snapshot was taken, and the memory plan of a
// compiled submodel.
//
//   bank-inspect run.bank
//   bank-inspect run.bank --format json
//   bank-inspect plan prefill.npbs --svg prefill.svg
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bank/snapshot.h"
#include "lazy_tensor/status_macros.h"
#include "tools/command_line.h"
#include "tools/plan_text.h"
#include "tools/snapshot_text.h"

ABSL_FLAG(std::string, format, "table", "table or json");
ABSL_FLAG(std::string, svg, "", "plan: file to draw the arena to");
ABSL_FLAG(std::string, function, "", "plan: draw this function's scratch instead of the arena");

namespace npubank {
namespace {

absl::Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "plan")
    return InspectPlan(arguments[1], absl::GetFlag(FLAGS_svg), absl::GetFlag(FLAGS_function));
  const std::string format = absl::GetFlag(FLAGS_format);
  if (format != "table" && format != "json") {
    return absl::InvalidArgumentError(absl::StrCat("--format ", format, " is not table or json"));
  }
  if (arguments.size() != 1) {
    return absl::InvalidArgumentError(
        "give one file: bank-inspect SNAPSHOT, or bank-inspect plan BLOB");
  }
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, ReadSnapshot(arguments[0]));
  const std::string text = format == "json" ? SnapshotAsJson(snapshot) : SnapshotAsTable(snapshot);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const std::vector<std::string> arguments =
      npubank::ParseFlags("Prints the state of a bank from its snapshot.", argc, argv);
  return npubank::ExitStatus(npubank::Run(arguments));
}
