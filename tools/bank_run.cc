// bank-run: loads models on one bank, generates text, and reports what it cost.
//
//   bank-run --model DIR --prompt "Once upon a time" --tokens 100
//   bank-run --model ORG/NAME --prompt-file - --temperature 0.8 < question.txt
//   bank-run --model DIR --prompt-ids 1,403,407 --ids --report json --snapshot run.bank
//   bank-run --model A --model B --budget 300000000 --rounds 3 --cache weights.cache
//   bank-run --manifest layers.json --input x=x.bin --output y=y.bin
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/run/bank_run_flags.h"
#include "npubank/tools/run/manifest_run.h"
#include "npubank/tools/run/model_run.h"
#include "npubank/tools/run/model_turns.h"
#include "npubank/tools/service/service_choice.h"
#include "npubank/tools/terminal/command_line.h"
#include "npubank/tools/terminal/interrupt.h"

namespace npubank {
namespace {

void Print(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

absl::StatusOr<BankPlace> OpenPlace(const BankRunFlags& flags, std::shared_ptr<CacheFile> cache,
                                    const ServiceChoice& service) {
  BankOptions options;
  if (flags.budget > 0) options.budget_bytes = flags.budget;
  options.cache = std::move(cache);
  options.upstream = service.client;
  return BankPlace::Open(flags.device, flags.workers, flags.memory, std::move(options));
}

absl::Status Speak(const BankRunFlags& flags, ModelTurns& turns) {
  const auto prompt = [&](const ModelRun& run,
                          int64_t round) -> absl::StatusOr<std::vector<int32_t>> {
    if (!flags.prompt_ids.empty()) return flags.prompt_ids;
    return run.Encode(flags.prompts.empty() ? "" : flags.prompts[round % flags.prompts.size()]);
  };
  // JSON stands alone on standard output.
  const auto emit = [&](absl::string_view text) {
    if (!flags.json) Print(text);
  };
  if (flags.load_only) return turns.Prepare();
  Interrupt::Catch();  // from here on there is something to report
  return turns.Take(prompt, flags.turns, emit);
}

// What was wrong with the cache, each thing once: it costs time, not the run.
std::vector<std::string> SaveCache(CacheFile& cache) {
  const absl::Status saved = cache.Save();
  std::vector<std::string> problems = cache.Report().problems;
  if (!saved.ok()) problems.emplace_back(saved.message());
  std::vector<std::string> notices;
  for (std::string& problem : problems)
    if (std::find(notices.begin(), notices.end(), problem) == notices.end())
      notices.push_back(std::move(problem));
  for (const std::string& notice : notices) std::fprintf(stderr, "warning: %s\n", notice.c_str());
  return notices;
}

void PrintReport(const BankRunFlags& flags, const RunReport& report) {
  if (flags.json) return Print(ReportAsJson(report));
  for (const TurnReport& turn : report.turns)
    if (flags.ids)
      Print(absl::StrCat(report.turns.size() > 1 ? absl::StrCat("ids of ", turn.model) : "ids",
                         ": ", absl::StrJoin(turn.ids, ","), "\n"));
  Print("\n" + ReportAsText(report));
}

absl::StatusOr<std::unique_ptr<ModelTurns>> LoadAndSpeak(const BankRunFlags& flags,
                                                         const BankPlace& place) {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelTurns> turns,
                           ModelTurns::Load(flags.models, place));
  NPUBANK_RETURN_IF_ERROR(Speak(flags, *turns));
  if (flags.sleep && !Interrupt::Came()) NPUBANK_RETURN_IF_ERROR(turns->SleepAndWake());
  return turns;
}

std::shared_ptr<CacheFile> OpenCache(const BankRunFlags& flags) {
  if (flags.cache.empty()) return nullptr;
  const auto tell = [](absl::string_view message) {
    std::fprintf(stderr, "%s\n", std::string(message).c_str());
  };
  return CacheFile::Open({.path = flags.cache, .limit_bytes = flags.cache_limit, .on_wait = tell});
}

// Why something did not come from the service: said where it is seen, and in the report.
std::vector<std::string> SayNotices(const ServiceChoice& service) {
  if (service.client == nullptr) return {};
  std::vector<std::string> notices = service.client->notices();
  for (const std::string& notice : notices)
    std::fprintf(stderr, "warning: service: %s\n", notice.c_str());
  return notices;
}

absl::Status RunForeign(const BankRunFlags& flags) {
  const std::shared_ptr<CacheFile> cache = OpenCache(flags);
  NPUBANK_ASSIGN_OR_RETURN(const ServiceChoice service, ServiceChoice::Open(flags.service));
  NPUBANK_ASSIGN_OR_RETURN(const BankPlace place, OpenPlace(flags, cache, service));
  const absl::StatusOr<ManifestRun> run = RunManifests(flags.manifests, place.npu, place.bank);
  if (cache != nullptr) SaveCache(*cache);
  SayNotices(service);
  NPUBANK_RETURN_IF_ERROR(run.status());
  Print(run->report);
  if (flags.snapshot.empty()) return absl::OkStatus();
  return WriteSnapshot(place.bank->Snapshot(), flags.snapshot);
}

absl::Status Run(const BankRunFlags& flags) {
  const std::shared_ptr<CacheFile> cache = OpenCache(flags);
  NPUBANK_ASSIGN_OR_RETURN(const ServiceChoice service, ServiceChoice::Open(flags.service));
  NPUBANK_ASSIGN_OR_RETURN(const BankPlace place, OpenPlace(flags, cache, service));
  const absl::StatusOr<std::unique_ptr<ModelTurns>> turns = LoadAndSpeak(flags, place);
  std::vector<std::string> notices;
  if (cache != nullptr) notices = SaveCache(*cache);  // also what a failed run has transformed
  NPUBANK_RETURN_IF_ERROR(turns.status());
  RunReport report = (*turns)->Report();
  report.budget_bytes = flags.budget;
  report.cache_notices = std::move(notices);
  report.service = service.client == nullptr ? service.why : service.client->name();
  report.service_notices = SayNotices(service);
  PrintReport(flags, report);
  if (!flags.snapshot.empty())
    NPUBANK_RETURN_IF_ERROR(WriteSnapshot(place.bank->Snapshot(), flags.snapshot));
  if (report.sleep && !report.sleep->same_ids)
    return absl::InternalError("after its sleep a model says something else than before");
  return absl::OkStatus();
}

absl::Status ParseAndRun(int argc, char** argv) {
  NPUBANK_ASSIGN_OR_RETURN(const BankRunFlags flags, BankRunFlags::Parse(argc, argv));
  return flags.manifests.manifests.empty() ? Run(flags) : RunForeign(flags);
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const int status = npubank::ExitStatus(npubank::ParseAndRun(argc, argv));
  return status == 0 && npubank::Interrupt::Came() ? npubank::Interrupt::kExitStatus : status;
}
