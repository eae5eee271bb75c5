#include "npubank/tools/reports/plan_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "npubank/compiler_stub/planner/files/svg.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/views/plan_view.h"
#include "npubank/compiler_stub/views/schedule_view.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

double KiB(uint64_t bytes) { return static_cast<double>(bytes) / 1024; }

double Ratio(uint64_t bytes, uint64_t bound) {
  return bytes == bound ? 1 : static_cast<double>(bytes) / static_cast<double>(bound);
}

// A plan that costs no parallelism is held against what such plans need at least.
uint64_t LowerBound(const PlanView& view, const Schedules& s) {
  if (s.path_as_planned > s.parallel.path) return view.lower_bound;
  return std::max(view.lower_bound, s.parallel.lower_bound);
}

std::string PlanLine(const std::string& name, const PlanView& view, const Schedules& s) {
  const uint64_t bound = LowerBound(view, s);
  return absl::StrFormat("%-32s %8d %7d %14.2f %14.2f %14.2f %8.4f\n", name, view.operations,
                         view.problem.buffers.size(), KiB(view.sum_of_values), KiB(bound),
                         KiB(view.bytes), Ratio(view.bytes, bound));
}

std::string ScheduleLine(const std::string& name, const Schedules& s, uint64_t bytes) {
  return absl::StrFormat("%-32s %14.2f %7d %14.2f %7d %14.2f %7d\n", name, KiB(s.serial.bytes),
                         s.serial.path, KiB(s.parallel.bytes), s.parallel.path, KiB(bytes),
                         s.path_as_planned);
}

std::string ScratchName(const SubmodelBlob& blob, size_t function) {
  const auto calls = std::count_if(blob.calls.begin(), blob.calls.end(),
                                   [&](const Call& call) { return call.function == function; });
  return absl::StrCat("scratch of ", blob.functions[function].name, " x", calls);
}

absl::StatusOr<const Function*> FindFunction(const SubmodelBlob& blob, absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const SubmodelFunction& function : blob.functions) {
    if (name == function.name) return &function.function;
    known.push_back(function.name);
  }
  return absl::NotFoundError(absl::StrCat("submodel '", blob.name, "' has no function '", name,
                                          "', only ", absl::StrJoin(known, ", ")));
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
  text += PlanLine("arena", arena, whole);
  schedules += ScheduleLine("arena", whole, arena.bytes);
  for (size_t i = 0; i < blob.functions.size(); ++i) {
    const Function& function = blob.functions[i].function;
    const PlanView scratch = ViewPlan(function);
    NPUBANK_ASSIGN_OR_RETURN(const Schedules one, ViewSchedules(function));
    text += PlanLine(ScratchName(blob, i), scratch, one);
    schedules += ScheduleLine(ScratchName(blob, i), one, scratch.bytes);
  }
  return absl::StrCat(text, schedules,
                      "\npath: operations that must run one after the other; calls follow each "
                      "other.\n");
}

absl::StatusOr<std::string> PlanPicture(const SubmodelBlob& blob, absl::string_view function) {
  PlanView view;
  Schedules schedules;
  std::string title;
  if (function.empty()) {
    view = ViewPlan(blob);
    NPUBANK_ASSIGN_OR_RETURN(schedules, ViewSchedules(blob));
    title = absl::StrCat("arena of ", blob.name);
  } else {
    NPUBANK_ASSIGN_OR_RETURN(const Function* found, FindFunction(blob, function));
    view = ViewPlan(*found);
    NPUBANK_ASSIGN_OR_RETURN(schedules, ViewSchedules(*found));
    title = absl::StrCat("scratch of ", blob.name, ", ", function);
  }
  Plan plan;
  plan.bytes = view.bytes;
  plan.lower_bound = LowerBound(view, schedules);
  plan.offsets = std::move(view.offsets);
  return DrawPlan(view.problem, plan, title);
}

absl::Status InspectPlan(const std::string& path, const std::string& svg,
                         absl::string_view function) {
  NPUBANK_ASSIGN_OR_RETURN(const SubmodelBlob blob, ReadBlobFile(path));
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, PlanText(blob));
  if (!function.empty()) NPUBANK_RETURN_IF_ERROR(FindFunction(blob, function).status());
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
