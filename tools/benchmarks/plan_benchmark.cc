// plan_benchmark [FOLDER]: how close plans come to their lower bounds, and what each kind of reuse
// saves.
//
// Prints tables for the networks of example_graphs.h, for what the compiler makes of Llama's sizes
// and, from FOLDER (default: planner_cases in the shared data beside the source tree), for hard
// problems in CSV and the graph of an image decoder.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "npubank/compiler_stub/planner/chains.h"
#include "npubank/compiler_stub/planner/files/csv.h"
#include "npubank/compiler_stub/planner/files/example_graphs.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/compiler_stub/views/plan_view.h"
#include "npubank/compiler_stub/views/schedule_view.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/benchmarks/fake_model.h"
#include "npubank/tools/terminal/command_line.h"

namespace npubank {
namespace {

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

double Ratio(uint64_t bytes, uint64_t bound) {
  return bound == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(bound);
}

// One line: a problem as it is, within `capacity` if there is one.
absl::Status PlanCsv(const std::string& folder, const std::string& name,
                     std::optional<int64_t> capacity) {
  const std::optional<std::string> text = ReadFile(folder + "/" + name + ".csv");
  if (!text.has_value())
    return absl::NotFoundError(absl::StrCat("cannot open '", folder, "/", name, ".csv'"));
  NPUBANK_ASSIGN_OR_RETURN(CsvProblem csv, ParseCsv(*text));
  csv.problem.capacity = capacity;
  const absl::Time start = absl::Now();
  NPUBANK_ASSIGN_OR_RETURN(const Plan plan, PlanMemory(csv.problem, {}));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  NPUBANK_RETURN_IF_ERROR(Validate(csv.problem, plan.offsets));
  const Layout greedy = GreedyBySize(csv.problem);
  const int64_t base = capacity.value_or(plan.lower_bound);
  absl::PrintF("%-30s %5d %9.3f %9.3f %9.3f %7.4f %9.4f %8.3f %9d  %s\n", name,
               csv.problem.buffers.size(), MiB(SumOfSizes(csv.problem)), MiB(base), MiB(plan.bytes),
               Ratio(plan.bytes, base), Ratio(greedy.bytes, base), seconds, plan.steps,
               plan.method);
  return absl::OkStatus();
}

absl::Status PlanAllCsv(const std::string& folder) {
  absl::PrintF("%-30s %5s %9s %9s %9s %7s %9s %8s %9s  %s\n", "CSV", "n", "sum MiB", "bound",
               "plan", "ratio", "by size", "seconds", "steps", "method");
  for (const char* name : {"A", "B", "C", "D", "E", "F"}) {
    NPUBANK_RETURN_IF_ERROR(PlanCsv(folder, std::string(name) + ".1048576", 1048576));
  }
  for (const char* name : {"C", "D"}) {  // whose bound is below that capacity
    NPUBANK_RETURN_IF_ERROR(PlanCsv(folder, std::string(name) + ".1048576", std::nullopt));
  }
  for (const char* name : {"llama1b_prefill1024", "llama1b_prefill1024_perhead",
                           "llama1b_decode_ctx1024", "sd15_vae_decoder_512"}) {
    NPUBANK_RETURN_IF_ERROR(PlanCsv(folder, name, std::nullopt));
  }
  return absl::OkStatus();
}

absl::Status PlanGraphLine(const std::string& name, const PlanGraph& graph) {
  NPUBANK_ASSIGN_OR_RETURN(const Lifetimes over, FindLifetimes(graph, {}));
  NPUBANK_ASSIGN_OR_RETURN(const GraphPlan sharing,
                           PlanGraphMemory(graph, {.in_place = false, .fused_add = false}, {}));
  const absl::Time start = absl::Now();
  NPUBANK_ASSIGN_OR_RETURN(const GraphPlan both, PlanGraphMemory(graph, {}, {}));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  NPUBANK_ASSIGN_OR_RETURN(const GraphPlan parallel,
                           PlanGraphMemory(graph, {.schedule = Schedule::kParallel}, {}));
  NPUBANK_ASSIGN_OR_RETURN(const Chains chains, FindChains(graph));
  absl::PrintF("%-30s %5d %9.2f %9.2f %9.2f %9.2f %9.2f %7.4f %8.3f %9.2f %7.4f %9d\n", name,
               graph.ops.size(), MiB(over.sum_of_values), MiB(SumOfSizes(over.problem)),
               MiB(sharing.plan.bytes), MiB(both.plan.lower_bound), MiB(both.plan.bytes),
               Ratio(both.plan.bytes, both.plan.lower_bound), seconds, MiB(parallel.plan.bytes),
               Ratio(parallel.plan.bytes, parallel.plan.lower_bound), chains.critical_path);
  return absl::OkStatus();
}

absl::Status PlanAllGraphs(const std::string& folder) {
  absl::PrintF("\n%-30s %5s %9s %9s %9s %9s %9s %7s %8s %9s %7s %9s\n", "graph (MiB)", "ops", "sum",
               "in place", "sharing", "bound", "both", "ratio", "seconds", "parallel", "ratio",
               "path");
  const std::string path = folder + "/sd15_vae_decoder_512.graph.json";
  if (const std::optional<std::string> text = ReadFile(path); text.has_value()) {
    NPUBANK_ASSIGN_OR_RETURN(const PlanGraph graph, ParseGraphJson(*text));
    NPUBANK_RETURN_IF_ERROR(PlanGraphLine("sd15 vae decoder 512", graph));
  }
  NPUBANK_RETURN_IF_ERROR(PlanGraphLine("unet", UNetGraph()));
  struct Case {
    const char* name;
    LlamaShape shape;
    int64_t rows;
  };
  for (const Case& c :
       {Case{"llama 1b prefill 1024", kLlama1B, 1024}, Case{"llama 1b kvcache", kLlama1B, 1},
        Case{"llama 7b prefill 1024", kLlama7B, 1024}, Case{"llama 7b kvcache", kLlama7B, 1}}) {
    for (bool per_head : {false, true}) {
      NPUBANK_RETURN_IF_ERROR(PlanGraphLine(std::string(c.name) + (per_head ? " per head" : ""),
                                            LlamaGraph(c.shape, c.rows, 1024, per_head)));
    }
  }
  return absl::OkStatus();
}

// What the blob carries, whole submodel: the plan of the arena with every call's scratch.
absl::Status CompileLine(const std::string& name, const ModelConfig& config,
                         CompileOptions options) {
  options.name = "submodel";
  options.context = 1024;
  const FakeModel model(config);
  const absl::Time start = absl::Now();
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes, Compile(*model.Over(config), options));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  NPUBANK_ASSIGN_OR_RETURN(const SubmodelBlob blob, ReadSubmodelBlob(bytes));
  NPUBANK_ASSIGN_OR_RETURN(const Schedules schedules, ViewSchedules(blob));
  const PlanView view = ViewPlan(blob);
  NPUBANK_RETURN_IF_ERROR(Validate(view.problem, view.offsets));
  const bool parallel = options.schedule == Schedule::kParallel;
  const int64_t bound = parallel ? schedules.parallel.lower_bound : view.lower_bound;
  absl::PrintF("%-40s %5d %10.3f %9.3f %9.3f %7.4f %8.3f %6d\n", name, view.operations,
               MiB(view.sum_of_values), MiB(bound), MiB(view.bytes), Ratio(view.bytes, bound),
               seconds, schedules.path_as_planned);
  return absl::OkStatus();
}

absl::Status CompileAll() {
  absl::PrintF("\n%-40s %5s %10s %9s %9s %7s %8s %6s\n", "compiled (MiB)", "ops", "sum", "bound",
               "plan", "ratio", "seconds", "path");
  for (bool large : {false, true}) {
    for (int64_t chunk : {1024, 1}) {
      for (AttentionForm form : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
        for (Schedule schedule : {Schedule::kSerial, Schedule::kParallel}) {
          CompileOptions options;
          options.chunk = chunk;
          options.attention = form;
          options.schedule = schedule;
          const std::string name = absl::StrCat(
              large ? "llama 7b" : "llama 1b", chunk > 1 ? " prefill 1024" : " kvcache",
              form == AttentionForm::kPerHead ? " per head" : "",
              schedule == Schedule::kParallel ? ", parallel" : "");
          NPUBANK_RETURN_IF_ERROR(
              CompileLine(name, large ? Llama7BConfig() : Llama1BConfig(), options));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const npubank::ProgramHelp help = {
      .name = "plan_benchmark",
      .purpose =
          "says how close plans come to their lower bounds, and what each kind of reuse saves",
      .examples =
          {"plan_benchmark            the planner_cases in the shared data beside the source",
           "plan_benchmark FOLDER"},
      .groups = {}};
  const std::vector<std::string> folders = npubank::ParseFlags(help, argc, argv);
  const std::string folder =
      folders.empty() ? NPUBANK_SOURCE_DIR "/../shared/planner_cases" : folders[0];
  for (const absl::Status& status :
       {npubank::PlanAllCsv(folder), npubank::PlanAllGraphs(folder), npubank::CompileAll()})
    if (!status.ok()) return npubank::ExitStatus(status);
  return 0;
}
