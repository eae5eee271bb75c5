// load-benchmark: what loading a model costs, beside what memcpy needs for as many bytes.
//
//   load-benchmark                       a made-up checkpoint of 1.1 G parameters, 2.2 GB in BF16
//   load-benchmark --small               one of 110 M parameters
//   load-benchmark --model DIR           your own
//   load-benchmark --gguf                GGUF files of either size and of twice as many layers, imported
//
// Both submodels (prefill, kvcache) are loaded on the software NPU, which can import files here, with
// two workers, from a warm page cache: as they are stored; transformed to F16, transposed and converted;
// transformed with content sharing off; and transformed with a cache file that is not there yet, then
// with the one that was written. Each load has a process of its own, so that its peak is its own, and
// every phase is run --rounds times in turn; medians count. memcpy has two threads as well and copies
// W bytes from touched memory: to device memory that was touched before, and to device memory that
// nobody has touched, as a load does, which has to wait for the system's pages.
//
// GGUF files are loaded as they are stored and imported, which costs time for each tensor and none for its bytes: at
// most 5 ms and 50 us for each, and 64 MiB of anonymous memory, is the aim.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tools/checkpoints/checkpoint_writer.h"
#include "npubank/tools/run/bank_place.h"
#include "npubank/tools/run/memory_monitor.h"
#include "npubank/tools/run/model_turns.h"
#include "npubank/tools/terminal/command_line.h"
#include "npubank/tools/terminal/stopwatch.h"

ABSL_FLAG(std::string, model, "",
          "checkpoint folder in BF16; empty: a made-up one, for the run only");
ABSL_FLAG(bool, small, false, "make up a checkpoint of 110 M parameters instead of 1.1 G");
ABSL_FLAG(bool, gguf, false, "Q4_0 and Q4_K files of one and of two sizes instead, imported");
ABSL_FLAG(int, rounds, 3, "runs of each phase");
ABSL_FLAG(std::string, phase, "", "one phase, in this process: what the program calls itself with");
ABSL_FLAG(std::string, cache, "", "the cache file of a phase that has one");

extern char** environ;

namespace npubank {
namespace {

constexpr int kWorkers = 2;
constexpr double kMebibyte = 1 << 20;

using Figures = std::map<std::string, double>;

// The phases: each prints its figures as NAME=VALUE.

absl::StatusOr<BankPlace> OpenPlace(BankOptions options) {
  setenv("NPUBANK_NPU_IMPORT", "1", /*overwrite=*/0);  // read when the driver is loaded
  return BankPlace::Open(level_zero::DeviceChoice::kSoftware, kWorkers, {}, std::move(options));
}

absl::StatusOr<Figures> Load(WeightFormat weights, BankOptions options) {
  const std::shared_ptr<CacheFile> cache = options.cache;
  NPUBANK_ASSIGN_OR_RETURN(const BankPlace place, OpenPlace(std::move(options)));
  const uint64_t before = ProcessMemoryNow().anonymous_bytes;
  ModelRunOptions run_options;
  run_options.model = absl::GetFlag(FLAGS_model);
  run_options.weights = weights;
  NPUBANK_ASSIGN_OR_RETURN(const std::unique_ptr<ModelTurns> run,
                           ModelTurns::Load({run_options}, place));
  NPUBANK_RETURN_IF_ERROR(run->Prepare());
  const RunReport report = run->Report();
  if (cache != nullptr) NPUBANK_RETURN_IF_ERROR(cache->Save());
  level_zero::SoftwareNpuStatistics statistics;
  place.device->software()->pfnGetStatistics(&statistics);
  return Figures{
      {"seconds", report.load_seconds()},
      {"compile_seconds", report.compile_seconds()},
      {"weight_bytes", static_cast<double>(report.weight_bytes)},
      {"activation_bytes", static_cast<double>(report.arena_bytes + report.cache_bytes)},
      {"anonymous_bytes", static_cast<double>(report.peak_memory.anonymous_bytes - before)},
      {"imported_bytes", static_cast<double>(report.imported_bytes)},
      {"copied_bytes", static_cast<double>(statistics.copied_bytes)},
      {"transformations", static_cast<double>(report.transformations)},
      {"cache_hits", static_cast<double>(report.cache_hits)},
  };
}

absl::StatusOr<double> SecondsToCopy(const std::vector<std::byte>& in, std::byte* out) {
  const auto part = [&](size_t number) {
    const size_t first = in.size() * number / kWorkers;
    std::memcpy(out + first, in.data() + first, in.size() * (number + 1) / kWorkers - first);
  };
  const Stopwatch stopwatch;
  NPUBANK_ASSIGN_OR_RETURN(std::thread other, StartThread([&] { part(1); }));
  part(0);
  other.join();
  return stopwatch.Seconds();
}

absl::StatusOr<Figures> Memcpy() {
  NPUBANK_ASSIGN_OR_RETURN(const BankPlace place, OpenPlace({}));
  const std::filesystem::path file =
      std::filesystem::path(absl::GetFlag(FLAGS_model)) / "model.safetensors";
  const std::vector<std::byte> in(std::filesystem::file_size(file), std::byte{1});
  NPUBANK_ASSIGN_OR_RETURN(const auto memory, place.memory->Allocate(in.size(), "copy"));
  std::byte* const out = memory->host_bytes().data();
  Figures figures;
  NPUBANK_ASSIGN_OR_RETURN(figures["fresh_seconds"], SecondsToCopy(in, out));
  std::vector<double> seconds(5);
  for (double& one : seconds) {
    NPUBANK_ASSIGN_OR_RETURN(one, SecondsToCopy(in, out));
  }
  std::sort(seconds.begin(), seconds.end());
  figures["seconds"] = seconds[2];
  return figures;
}

absl::StatusOr<Figures> RunPhase(const std::string& phase) {
  if (phase == "memcpy") return Memcpy();
  if (phase == "kept") return Load(WeightFormat::kKeep, {});
  if (phase == "transformed") return Load(WeightFormat::kF16, {});
  if (phase == "unshared") return Load(WeightFormat::kF16, {.share_content = false});
  if (phase == "cold" || phase == "cached") {
    return Load(WeightFormat::kF16,
                {.cache = CacheFile::Open({.path = absl::GetFlag(FLAGS_cache)})});
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no phase '", phase, "'"));
}

absl::Status PrintPhase(const std::string& phase) {
  NPUBANK_ASSIGN_OR_RETURN(const Figures figures, RunPhase(phase));
  for (const auto& [name, value] : figures) std::printf("%s=%.9g\n", name.c_str(), value);
  return absl::OkStatus();
}

// The program that runs them and compares.

absl::Status ReadThrough(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const auto file, Source::OpenFile(path));
  std::vector<std::byte> piece(1 << 20);
  for (uint64_t offset = 0; offset < file->size(); offset += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), file->size() - offset));
    NPUBANK_RETURN_IF_ERROR(file->Read(offset, absl::MakeSpan(piece)));
  }
  return absl::OkStatus();
}

// This program again, with these arguments; its output.
absl::StatusOr<std::string> CallItself(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::InternalError("no pipe");
  std::string name = "load-benchmark";
  std::vector<char*> words = {name.data()};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.data()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  char piece[4096];
  for (ssize_t count = 1; error == 0 && count > 0;) {
    count = read(ends[0], piece, sizeof(piece));
    if (count > 0) output.append(piece, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child || status != 0)
    return absl::InternalError(absl::StrCat("the phase failed: ", absl::StrJoin(arguments, " ")));
  return output;
}

absl::StatusOr<Figures> CallPhase(const std::vector<std::string>& arguments) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string output, CallItself(arguments));
  Figures figures;
  for (absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> figure = absl::StrSplit(line, '=');
    double value = 0;
    if (absl::SimpleAtod(figure.second, &value)) figures[figure.first] = value;
  }
  return figures;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Comparison {
 public:
  Comparison(std::string model, std::string cache)
      : model_(std::move(model)), cache_(std::move(cache)) {}

  absl::Status Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      std::filesystem::remove(cache_);
      for (const char* phase : {"memcpy", "kept", "transformed", "unshared", "cold", "cached"})
        NPUBANK_RETURN_IF_ERROR(RunOne(phase));
    }
    Print();
    return absl::OkStatus();
  }

 private:
  absl::Status RunOne(const std::string& phase) {
    NPUBANK_RETURN_IF_ERROR(ReadThrough(model_ + "/model.safetensors"));
    if (phase == "cached") NPUBANK_RETURN_IF_ERROR(ReadThrough(cache_));
    NPUBANK_ASSIGN_OR_RETURN(const Figures figures,
                             CallPhase({"--phase", phase, "--model", model_, "--cache", cache_}));
    for (const auto& [name, value] : figures) {
      figures_[absl::StrCat(phase, " ", name)].push_back(value);
    }
    return absl::OkStatus();
  }

  double Median(const std::string& name) const { return MedianOf(figures_.at(name)); }

  void Print() const {
    const double weights = Median("kept weight_bytes");
    const double copy = Median("memcpy seconds");
    const double fresh = Median("memcpy fresh_seconds");
    std::printf(
        "W = %.0f MiB of weights; memcpy, two threads: %.3f s, to fresh device memory %.3f s\n",
        weights / kMebibyte, copy, fresh);
    const double kept = Median("kept seconds");
    std::printf(
        "kept:        %.4f s = %.4f of memcpy (aim: at most 0.02), %.4f without compiling; "
        "%.1f MiB anonymous (aim: below 32), %.0f bytes copied (aim: 0), %.0f MiB imported\n",
        kept, kept / copy, (kept - Median("kept compile_seconds")) / copy,
        Median("kept anonymous_bytes") / kMebibyte, Median("kept copied_bytes"),
        Median("kept imported_bytes") / kMebibyte);
    const double room = Median("transformed weight_bytes") + Median("transformed activation_bytes");
    const double over = Median("transformed anonymous_bytes") - room;
    std::printf(
        "transformed: %.3f s; memcpy takes %.2f of it, to fresh memory %.2f (aim: 0.85); "
        "anonymous W + A %+.1f MiB (aim: at most +64)\n",
        Median("transformed seconds"), copy / Median("transformed seconds"),
        fresh / Median("transformed seconds"), over / kMebibyte);
    std::printf("unshared:    %.3f s: content sharing on takes %.3f of it\n",
                Median("unshared seconds"),
                Median("transformed seconds") / Median("unshared seconds"));
    std::printf("cold cache:  %.3f s, %.0f transformations\n", Median("cold seconds"),
                Median("cold transformations"));
    std::printf("warm cache:  %.3f s = %.2f of cold, %.0f transformations (aim: 0), %.0f hits\n",
                Median("cached seconds"), Median("cached seconds") / Median("cold seconds"),
                Median("cached transformations"), Median("cached cache_hits"));
  }

  const std::string model_;
  const std::string cache_;
  std::map<std::string, std::vector<double>> figures_;
};

CheckpointShape Shape() {
  if (absl::GetFlag(FLAGS_small)) return {};
  return {.layers = 22, .hidden = 2048, .heads = 32, .kv_heads = 4, .intermediate = 5632};
}

absl::Status MakeModel(const std::string& folder) {
  CheckpointShape shape = Shape();
  shape.padded = true;  // what is timed as kept is an import: data where a device takes its arguments
  return WriteCheckpoint(shape, folder).status();
}

// One GGUF file, kept and imported, in a process of its own each time.
absl::Status TimeGguf(const char* name, const CheckpointShape& shape, const std::string& folder,
                      int rounds) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string model, WriteCheckpoint(shape, folder));
  NPUBANK_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model));
  const size_t tensors = checkpoint->index()->tensors().size();
  std::vector<double> seconds, anonymous;
  Figures figures;
  for (int round = 0; round < rounds; ++round) {
    NPUBANK_RETURN_IF_ERROR(ReadThrough(model));
    NPUBANK_ASSIGN_OR_RETURN(figures, CallPhase({"--phase", "kept", "--model", model}));
    seconds.push_back(figures["seconds"]);
    anonymous.push_back(figures["anonymous_bytes"]);
  }
  std::printf(
      "%s, %2d layers: %7.2f ms for %zu tensors (aim: at most %.2f), %.1f MiB anonymous (aim: below 64), "
      "%.0f MiB imported, %.0f bytes copied\n",
      name, static_cast<int>(shape.layers), MedianOf(seconds) * 1e3, tensors,
      5 + 0.05 * static_cast<double>(tensors), MedianOf(anonymous) / kMebibyte,
      figures["imported_bytes"] / kMebibyte, figures["copied_bytes"]);
  std::filesystem::remove(model);
  return absl::OkStatus();
}

absl::Status TimeGgufs(const std::string& folder, int rounds) {
  for (const auto& [name, format] : {std::pair{"Q4_0", CheckpointFormat::kGgufQ4_0},
                                     {"Q4_K", CheckpointFormat::kGgufQ4_K}}) {
    CheckpointShape shape = Shape();
    shape.format = format;
    NPUBANK_RETURN_IF_ERROR(TimeGguf(name, shape, folder, rounds));
    shape.layers *= 2;
    NPUBANK_RETURN_IF_ERROR(TimeGguf(name, shape, folder, rounds));
  }
  return absl::OkStatus();
}

ProgramHelp Help() {
  return {.name = "load-benchmark",
          .purpose = "loads a model kept, transformed and from a cache file, beside memcpy",
          .examples = {"load-benchmark            a made-up checkpoint of 1.1 G parameters, 2.2 GB",
                       "load-benchmark --small    one of 110 M parameters",
                       "load-benchmark --model DIR --rounds 5"},
          .groups = {{"What to load", {{"model", "DIR"}, {"small", ""}, {"gguf", ""}, {"rounds", "N"}}},
                     {"What it calls itself with", {{"phase", "NAME"}, {"cache", "FILE"}}}}};
}

absl::Status Compare() {
  const char* place = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(place != nullptr ? place : "/tmp", "/load-benchmark-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr)
    return absl::InternalError(absl::StrCat("cannot make '", folder, "'"));
  std::string model = absl::GetFlag(FLAGS_model);
  absl::Status status;
  const bool gguf = absl::GetFlag(FLAGS_gguf);
  if (gguf) {
    status = TimeGgufs(folder, absl::GetFlag(FLAGS_rounds));
  } else if (model.empty()) {
    model = folder + "/model";
    status = MakeModel(model);
  }
  if (status.ok() && !gguf) {
    status = Comparison(model, folder + "/weights.cache").Run(absl::GetFlag(FLAGS_rounds));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const absl::Status extra =
      npubank::RefuseArguments(npubank::ParseFlags(npubank::Help(), argc, argv));
  if (!extra.ok()) return npubank::ExitStatus(extra);
  const std::string phase = absl::GetFlag(FLAGS_phase);
  return npubank::ExitStatus(phase.empty() ? npubank::Compare() : npubank::PrintPhase(phase));
}
