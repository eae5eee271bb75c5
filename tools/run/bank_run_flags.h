// BankRunFlags: what bank-run was asked for, each option checked before anything is opened.
//
//   NPUBANK_ASSIGN_OR_RETURN(const BankRunFlags flags, BankRunFlags::Parse(argc, argv));
//
// Errors: InvalidArgument that names the option, its value and what it may be. --help and unknown
// options end the program (command_line.h).
#ifndef NPUBANK_TOOLS_RUN_BANK_RUN_FLAGS_H_
#define NPUBANK_TOOLS_RUN_BANK_RUN_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/runtime/level_zero/loader.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/tools/run/manifest_run.h"
#include "npubank/tools/run/model_run.h"
#include "npubank/tools/run/model_turns.h"

namespace npubank {

struct BankRunFlags {
  std::vector<ModelRunOptions> models;  // one for each --model; of manifests none
  ManifestRunOptions manifests;         // in place of models, when there are any
  std::vector<std::string> prompts;     // of several one each round
  std::vector<int32_t> prompt_ids;      // in place of them, when there are any
  TurnsOptions turns;
  level_zero::DeviceChoice device = level_zero::DeviceChoice::kAuto;
  NpuMemoryOptions memory;
  int workers = 0;
  uint64_t budget = 0;       // 0: no limit
  std::string cache;         // empty: none
  uint64_t cache_limit = 0;  // bytes of it; 0: none
  std::string service;       // auto, off or a path
  std::string snapshot;      // empty: not written
  bool load_only = false;
  bool sleep = false;
  bool ids = false;
  bool json = false;

  static absl::StatusOr<BankRunFlags> Parse(int argc, char** argv);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_BANK_RUN_FLAGS_H_
