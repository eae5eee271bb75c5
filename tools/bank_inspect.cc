// bank-inspect: prints what a bank held when its snapshot was taken, the memory plan of a compiled
// submodel, the tensors that a checkpoint stores, and what a driver says of a native function.
//
//   bank-inspect run.bank
//   bank-inspect run.bank --format json
//   bank-inspect run.bank --sort bytes --filter layers.0
//   bank-inspect diff before.bank after.bank
//   bank-inspect leaks run.bank --format csv      # exit status 2 when there are any
//   bank-inspect --service                        # what the machine's bank holds now, and for whom
//   bank-inspect leaks --service DIR/socket       # what no living process explains
//   bank-inspect plan prefill.npbs --svg prefill.svg
//   bank-inspect model model.safetensors
//   bank-inspect function layer.blob
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/open_index.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/tools/reports/function_text.h"
#include "npubank/tools/reports/model_text.h"
#include "npubank/tools/reports/plan_text.h"
#include "npubank/tools/reports/service_text.h"
#include "npubank/tools/reports/snapshot_findings.h"
#include "npubank/tools/reports/snapshot_text.h"
#include "npubank/tools/reports/weights_text.h"
#include "npubank/tools/terminal/command_line.h"

ABSL_FLAG(std::string, format, "table", "table, json or csv");
ABSL_FLAG(
    std::string, sort, "",
    "name, uid, state, bytes, device-bytes, leases, hits or seconds; registration order else");
ABSL_FLAG(std::string, filter, "",
          "only tensors with this in a name, state, owner or recipe; totals stay");
ABSL_FLAG(bool, service, false,
          "ask npubankd, at the path that is given or at its usual place, not a snapshot's file");
ABSL_FLAG(std::string, svg, "", "file to draw the arena to");
ABSL_FLAG(std::string, function, "", "draw this function's scratch instead of the arena");
ABSL_FLAG(std::string, device, "auto", "whose driver is asked: auto, software or hardware");

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

ProgramHelp Help() {
  return {.name = "bank-inspect",
          .purpose =
              "prints what a bank held when its snapshot was taken, and the memory plan of "
              "a compiled submodel",
          .examples =
              {"bank-inspect run.bank                        a line for each tensor, totals",
               "bank-inspect run.bank --sort bytes --filter layers.0",
               "bank-inspect diff before.bank after.bank     what came, went and changed",
               "bank-inspect leaks run.bank --format csv     what a bank that is done still "
               "holds: status 2",
               "bank-inspect --service [PATH]                npubankd: its clients and tensors",
               "bank-inspect leaks --service [PATH]          what no living process explains: "
               "status 2",
               "bank-inspect weights run.bank               each weight with its parts, and how "
               "it came to the device",
               "bank-inspect function layer.blob            what the driver says of a native "
               "function's arguments",
               "bank-inspect plan prefill.npbs --svg prefill.svg --function block"},
          .groups = {{"Snapshots", {{"format", "FORM"}, {"sort", "KEY"}, {"filter", "TEXT"}}},
                     {"The bank of the machine", {{"service", ""}}},
                     {"Plans", {{"svg", "FILE"}, {"function", "NAME"}}},
                     {"Functions", {{"device", "KIND"}}}}};
}

// Each command takes the options of its own group only.
constexpr absl::string_view kSnapshotFlags[] = {"format", "sort", "filter"};
constexpr absl::string_view kPlanFlags[] = {"svg", "function"};
constexpr uint64_t kMostBlobBytes = uint64_t{1} << 30;

// Commands return the exit status.

absl::StatusOr<int> Plan(const std::string& blob) {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags(kSnapshotFlags, "is for snapshots, not for plan"));
  NPUBANK_RETURN_IF_ERROR(
      InspectPlan(blob, absl::GetFlag(FLAGS_svg), absl::GetFlag(FLAGS_function)));
  return 0;
}

absl::StatusOr<std::string> Format() {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags(kPlanFlags, "is for plan only"));
  const std::string format = absl::GetFlag(FLAGS_format);
  if (format == "table" || format == "json" || format == "csv") return format;
  return absl::InvalidArgumentError(
      absl::StrCat("--format '", format, "' is not one of table, json, csv"));
}

absl::StatusOr<int> Diff(const std::string& old, const std::string& young) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot before, Read(old));
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot after, Read(young));
  Print(FindingsAsText(DiffSnapshots(before, after, absl::GetFlag(FLAGS_filter)), format));
  return 0;
}

absl::StatusOr<int> Leaks(const std::string& path) {
  // All of it: a filter would make bytes look as if no tensor accounted for them.
  NPUBANK_RETURN_IF_ERROR(
      RefuseFlags({"sort", "filter"}, "is not for leaks, which shows them all"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, ReadSnapshot(path));
  const std::vector<SnapshotFinding> leaks = FindLeaks(snapshot);
  Print(FindingsAsText(leaks, format));
  return leaks.empty() ? 0 : kLeaksFound;
}

absl::StatusOr<int> Dump(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, Read(path));
  const std::string filter = absl::GetFlag(FLAGS_filter);
  Print(format == "json"  ? SnapshotAsJson(snapshot, filter)
        : format == "csv" ? SnapshotAsCsv(snapshot, filter)
                          : SnapshotAsTable(snapshot, filter));
  return 0;
}

absl::StatusOr<int> Model(const std::string& path) {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags({"sort"}, "is for snapshots, not for model"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const OpenedIndex model, OpenIndex(path));
  const std::string filter = absl::GetFlag(FLAGS_filter);
  Print(format == "json"  ? ModelAsJson(*model.index, filter)
        : format == "csv" ? ModelAsCsv(*model.index, filter)
                          : ModelAsTable(*model.index, filter));
  return 0;
}

absl::StatusOr<int> DriverSays(const std::string& path) {
  NPUBANK_RETURN_IF_ERROR(
      RefuseFlags({"sort", "filter"}, "is not for function, which shows all arguments"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  const std::string device = absl::GetFlag(FLAGS_device);
  const auto choice = level_zero::DeviceChoiceFromName(device);
  if (!choice)
    return absl::InvalidArgumentError(
        absl::StrCat("--device '", device, "' is not one of auto, software, hardware"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string blob, ReadTextFile(path, kMostBlobBytes));
  NPUBANK_ASSIGN_OR_RETURN(auto driver, level_zero::Device::Open(*choice));
  NPUBANK_ASSIGN_OR_RETURN(const DriverFunction function,
                           DriverFunction::Create(std::move(driver), blob, path));
  Print(format == "json"  ? FunctionAsJson(function)
        : format == "csv" ? FunctionAsCsv(function)
                          : FunctionAsTable(function));
  return 0;
}

absl::StatusOr<int> Weights(const std::string& path) {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags(kPlanFlags, "is for plan only"));
  NPUBANK_RETURN_IF_ERROR(RefuseFlags({"format"}, "is not for weights, which has a table only"));
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, Read(path));
  Print(WeightsAsTable(snapshot, absl::GetFlag(FLAGS_filter)));
  return 0;
}

// Of the daemon at `path`; empty: at its usual place.
absl::StatusOr<service::State> AskService(std::string path) {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags({"sort"}, "is for snapshots, not for --service"));
  if (path.empty()) path = service::ServiceSocket::DefaultPath();
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "where is npubankd? Give its socket's path, or set NPUBANK_SERVICE");
  }
  NPUBANK_ASSIGN_OR_RETURN(const auto client, service::BankClient::Connect(path));
  return client->GetState();
}

absl::StatusOr<int> Service(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const service::State state, AskService(path));
  NPUBANK_ASSIGN_OR_RETURN(const std::string text,
                           ServiceAsText(state, format, absl::GetFlag(FLAGS_filter)));
  Print(text);
  return 0;
}

absl::StatusOr<int> ServiceLeaks(const std::string& path) {
  NPUBANK_RETURN_IF_ERROR(RefuseFlags({"filter"}, "is not for leaks, which shows them all"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string format, Format());
  NPUBANK_ASSIGN_OR_RETURN(const service::State state, AskService(path));
  NPUBANK_ASSIGN_OR_RETURN(const auto leaks, FindServiceLeaks(state, IsAlive));
  Print(FindingsAsText(leaks, format));
  return leaks.empty() ? 0 : kLeaksFound;
}

absl::StatusOr<int> RunOnService(std::vector<std::string> arguments) {
  const bool leaks = !arguments.empty() && arguments[0] == "leaks";
  if (leaks) arguments.erase(arguments.begin());
  if (arguments.size() > 1) {
    return absl::InvalidArgumentError(
        "bank-inspect --service [PATH] or leaks --service [PATH]: one path at most");
  }
  const std::string path = arguments.empty() ? "" : arguments[0];
  return leaks ? ServiceLeaks(path) : Service(path);
}

absl::StatusOr<int> Run(const std::vector<std::string>& arguments) {
  const bool function = arguments.size() == 2 && arguments[0] == "function";
  if (!function) NPUBANK_RETURN_IF_ERROR(RefuseFlags({"device"}, "is for function only"));
  if (absl::GetFlag(FLAGS_service)) return RunOnService(arguments);
  if (function) return DriverSays(arguments[1]);
  if (arguments.size() == 1) return Dump(arguments[0]);
  if (arguments.size() == 2 && arguments[0] == "plan") return Plan(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "model") return Model(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "weights") return Weights(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "leaks") return Leaks(arguments[1]);
  if (arguments.size() == 3 && arguments[0] == "diff") return Diff(arguments[1], arguments[2]);
  return absl::InvalidArgumentError(
      "give one file: bank-inspect SNAPSHOT, weights SNAPSHOT, leaks SNAPSHOT, plan BLOB, "
      "function BLOB or model PATH; or two: diff A B");
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const std::vector<std::string> arguments = npubank::ParseFlags(npubank::Help(), argc, argv);
  const absl::StatusOr<int> exit_status = npubank::Run(arguments);
  return exit_status.ok() ? *exit_status : npubank::ExitStatus(exit_status.status());
}
