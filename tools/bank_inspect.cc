// bank-inspect: prints what a bank held when its snapshot was taken, and the memory plan of a
// compiled submodel.
//
//   bank-inspect run.bank
//   bank-inspect run.bank --format json
//   bank-inspect run.bank --sort bytes --filter layers.0
//   bank-inspect diff before.bank after.bank
//   bank-inspect leaks run.bank --format csv      # exit status 2 when there are any
//   bank-inspect plan prefill.npbs --svg prefill.svg
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/command_line.h"
#include "npubank/tools/reports/plan_text.h"
#include "npubank/tools/reports/snapshot_findings.h"
#include "npubank/tools/reports/snapshot_text.h"

ABSL_FLAG(std::string, format, "table", "table, json or csv");
ABSL_FLAG(
    std::string, sort, "",
    "name, uid, state, bytes, device-bytes, leases, hits or seconds; registration order else");
ABSL_FLAG(std::string, filter, "",
          "only tensors with this in a name, state, owner or recipe; totals stay");
ABSL_FLAG(std::string, svg, "", "plan: file to draw the arena to");
ABSL_FLAG(std::string, function, "", "plan: draw this function's scratch instead of the arena");

namespace npubank {
namespace {

constexpr int kLeaksFound = 2;

absl::StatusOr<BankSnapshot> Read(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(BankSnapshot snapshot, ReadSnapshot(path));
  const std::string key = absl::GetFlag(FLAGS_sort);
  if (!key.empty()) NPUBANK_RETURN_IF_ERROR(SortTensors(key, snapshot));
  return snapshot;
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Returns the exit status.
absl::StatusOr<int> Run(const std::vector<std::string>& arguments) {
  const std::string command = arguments.size() < 2 ? "" : arguments[0];
  if (command == "plan" && arguments.size() == 2) {
    NPUBANK_RETURN_IF_ERROR(
        InspectPlan(arguments[1], absl::GetFlag(FLAGS_svg), absl::GetFlag(FLAGS_function)));
    return 0;
  }
  const std::string filter = absl::GetFlag(FLAGS_filter);
  const std::string format = absl::GetFlag(FLAGS_format);
  if (format != "table" && format != "json" && format != "csv") {
    return absl::InvalidArgumentError(
        absl::StrCat("--format ", format, " is not table, json or csv"));
  }
  if (command == "diff" && arguments.size() == 3) {
    NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot before, Read(arguments[1]));
    NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot after, Read(arguments[2]));
    Print(FindingsAsText(DiffSnapshots(before, after, filter), format));
    return 0;
  }
  if (command == "leaks" && arguments.size() == 2) {
    // All of it: a filter would make bytes look as if no tensor accounted for them.
    NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, ReadSnapshot(arguments[1]));
    const std::vector<SnapshotFinding> leaks = FindLeaks(snapshot);
    Print(FindingsAsText(leaks, format));
    return leaks.empty() ? 0 : kLeaksFound;
  }
  if (arguments.size() != 1) {
    return absl::InvalidArgumentError(
        "give one file: bank-inspect SNAPSHOT, leaks SNAPSHOT or plan BLOB; or two: diff A B");
  }
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, Read(arguments[0]));
  Print(format == "json"  ? SnapshotAsJson(snapshot, filter)
        : format == "csv" ? SnapshotAsCsv(snapshot, filter)
                          : SnapshotAsTable(snapshot, filter));
  return 0;
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const std::vector<std::string> arguments =
      npubank::ParseFlags("Prints the state of a bank from its snapshot.", argc, argv);
  const absl::StatusOr<int> exit_status = npubank::Run(arguments);
  return exit_status.ok() ? *exit_status : npubank::ExitStatus(exit_status.status());
}
