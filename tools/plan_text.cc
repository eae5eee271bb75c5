#include "tools/plan_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bank/atomic_file.h"
#include "compiler_stub/plan_view.h"
#include "compiler_stub/planner/planner.h"
#include "compiler_stub/planner/svg.h"
#include "compiler_stub/schedule_view.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

double KiB(int64_t bytes) { return static_cast<double>(bytes) / 1024; }

std::string PlanLine(const std::string& name, const PlanView& view) {
  const double bound = static_cast<double>(std::max<int64_t>(view.lower_bound, 1));
  const double ratio = view.bytes == 0 ? 1 : static_cast<double>(view.bytes) / bound;
  return absl::StrFormat("%-32s %8d %7d %14.2f %14.2f %14.2f %8.4f\n", name, view.operations,
                         view.problem.buffers.size(), KiB(view.sum_of_values),
                         KiB(view.lower_bound), KiB(view.bytes), ratio);
}

std::string ScheduleLine(const std::string& name, const Schedules& s, int64_t bytes) {
  return absl::StrFormat("%-32s %14.2f %7d %14.2f %7d %14.2f %7d\n", name, KiB(s.serial.bytes),
                         s.serial.path, KiB(s.parallel.bytes), s.parallel.path, KiB(bytes),
                         s.path_as_planned);
}

std::string ScratchName(const SubmodelBlob& blob, size_t function) {
  const auto calls = std::count_if(blob.calls.begin(), blob.calls.end(),
                                   [&](const Call& call) { return call.function == function; });
  return absl::StrCat("scratch of ", blob.functions[function].name, " x", calls);
}

}  // namespace

absl::StatusOr<SubmodelBlob> ReadBlobFile(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path, kMaxFileBytes));
  absl::StatusOr<SubmodelBlob> blob = ReadSubmodelBlob(bytes);
  if (!blob.ok()) return Annotate(blob.status(), absl::StrCat("'", path, "'"));
  return blob;
}

absl::StatusOr<std::string> PlanText(const SubmodelBlob& blob) {
  std::string text = absl::StrFormat(
      "%s: %d positions at once, %d in the cache; %d calls of %d functions\n\n"
      "%-32s %8s %7s %14s %14s %14s %8s\n",
      blob.name, blob.chunk, blob.context, blob.calls.size(), blob.functions.size(), "plan (KiB)",
      "ops", "buffers", "sum of values", "lower bound", "plan", "ratio");
  std::string schedules =
      absl::StrFormat("\n%-32s %22s %22s %22s\n%-32s %14s %7s %14s %7s %14s %7s\n", "", "serial",
                      "parallel", "this plan", "schedules (KiB, operations)", "bytes", "path",
                      "bytes", "path", "bytes", "path");
  const PlanView arena = ViewPlan(blob);
  NPUBANK_ASSIGN_OR_RETURN(const Schedules whole, ViewSchedules(blob));
  text += PlanLine("arena", arena);
  schedules += ScheduleLine("arena", whole, arena.bytes);
  for (size_t i = 0; i < blob.functions.size(); ++i) {
    const Function& function = blob.functions[i].function;
    const PlanView scratch = ViewPlan(function);
    NPUBANK_ASSIGN_OR_RETURN(const Schedules one, ViewSchedules(function));
    text += PlanLine(ScratchName(blob, i), scratch);
    schedules += ScheduleLine(ScratchName(blob, i), one, scratch.bytes);
  }
  return absl::StrCat(text, schedules,
                      "\npath: the operations that must run one after the other; calls follow each "
                      "other.\n");
}

absl::StatusOr<std::string> PlanPicture(const SubmodelBlob& blob, absl::string_view function) {
  PlanView view;
  std::string title;
  if (function.empty()) {
    view = ViewPlan(blob);
    title = absl::StrCat("arena of ", blob.name);
  } else {
    const auto found = std::find_if(blob.functions.begin(), blob.functions.end(),
                                    [&](const SubmodelFunction& f) { return function == f.name; });
    if (found == blob.functions.end())
      return absl::NotFoundError(
          absl::StrCat("submodel ", blob.name, " has no function ", function));
    view = ViewPlan(found->function);
    title = absl::StrCat("scratch of ", blob.name, ", ", function);
  }
  Plan plan;
  plan.offsets = std::move(view.offsets);
  plan.bytes = view.bytes;
  plan.lower_bound = view.lower_bound;
  return DrawPlan(view.problem, plan, title);
}

absl::Status InspectPlan(const std::string& path, const std::string& svg,
                         absl::string_view function) {
  NPUBANK_ASSIGN_OR_RETURN(const SubmodelBlob blob, ReadBlobFile(path));
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, PlanText(blob));
  if (!svg.empty()) {
    NPUBANK_ASSIGN_OR_RETURN(const std::string picture, PlanPicture(blob, function));
    NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(svg));
    NPUBANK_RETURN_IF_ERROR(file.Append(picture));
    NPUBANK_RETURN_IF_ERROR(file.Commit());
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace npubank
