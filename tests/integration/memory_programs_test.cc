// bank-run on every driver that a machine may have: what it lacks is said once, and changes neither
// whether a program runs nor what it computes.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using nlohmann::json;

CheckpointShape TwoLayers() {
  CheckpointShape shape = PaddedShape();
  shape.layers = 2;
  return shape;
}

class MemoryProgramsTest : public ::testing::Test {
 protected:
  json Run(const std::string& memory, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {NPUBANK_BIN "/bank-run",
                                          "--device",
                                          "software",
                                          "--model",
                                          model_.folder(),
                                          "--memory",
                                          memory,
                                          "--weights",
                                          "keep",
                                          "--chunk",
                                          "4",
                                          "--prompt-ids",
                                          "1,2,3,4,5,6,7",
                                          "--tokens",
                                          "4",
                                          "--report",
                                          "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.error;
    EXPECT_EQ(result.error, "") << "the report has said it";
    const json report = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(report.is_object()) << result.out;
    return report;
  }
  // How many of the notices say `what`.
  static int64_t Said(const json& report, const std::string& what) {
    const json& notices = report["memory_notices"];
    return std::count_if(notices.begin(), notices.end(), [&](const json& notice) {
      return notice.get<std::string>().find(what) != std::string::npos;
    });
  }

  const TestModel model_{TwoLayers()};
};

TEST_F(MemoryProgramsTest, EveryStrategyRunsOnEveryDriverAndSaysOnceWhatItLacks) {
  const json ids = Run("committed")["ids"];
  ASSERT_GT(ids.size(), 7u);
  for (const bool virtual_memory : {false, true}) {
    for (const bool import : {false, true}) {
      for (const bool host_access : {false, true}) {
        const NpuSwitches switches({{"NPUBANK_NPU_VIRTUAL_MEMORY", virtual_memory ? "1" : "0"},
                                    {"NPUBANK_NPU_IMPORT", import ? "1" : "0"},
                                    {"NPUBANK_NPU_HOST_ACCESS", host_access ? "1" : "0"}});
        for (const std::string memory : {"auto", "committed", "placed", "tiled", "imported"}) {
          SCOPED_TRACE(memory + (virtual_memory ? ", virtual memory" : "") +
                       (import ? ", import" : "") + (host_access ? ", host access" : ""));
          const json report = Run(memory, {"--sleep"});
          EXPECT_EQ(report["ids"], ids);
          const bool imports = memory == "auto" || memory == "imported";
          const bool tiles = imports || memory == "tiled";
          EXPECT_EQ(report["memory_strategy"], !tiles           ? memory
                                               : virtual_memory ? "tiled"
                                                                : "placed");
          EXPECT_EQ(Said(report, "no virtual memory"), tiles && !virtual_memory);
          EXPECT_EQ(Said(report, "cannot import"), imports && !import);
          EXPECT_EQ(report["memory_notices"].size(),
                    (tiles && !virtual_memory) + (imports && !import));
          EXPECT_EQ(report["imported_bytes"] > 0, imports && import);
          EXPECT_EQ(report["device_weight_bytes"] == 0, imports && import);
          EXPECT_GE(report["device_peak_bytes"], report["device_bytes"]);
          EXPECT_EQ(report["audit"]["clean"], true) << report["audit"];
          EXPECT_EQ(report["audit"]["imported_bytes"], report["imported_bytes"]);
          EXPECT_EQ(report["sleep"]["imported_bytes_given_back"], report["imported_bytes"]);
          EXPECT_EQ(report["sleep"]["bytes_given_back"], report["device_weight_bytes"]);
          EXPECT_EQ(report["sleep"]["same_ids"], true);
        }
      }
    }
  }
}

TEST_F(MemoryProgramsTest, EveryStrategyRunsOnADeviceThatWantsItsArgumentsAtPages) {
  const json ids = Run("committed")["ids"];
  const NpuSwitches switches({{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", "4096"},
                              {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                              {"NPUBANK_NPU_IMPORT", "1"}});
  for (const std::string memory : {"committed", "placed", "tiled", "imported"}) {
    SCOPED_TRACE(memory);
    const json report = Run(memory, {"--argument-alignment", "4096", "--sleep"});
    EXPECT_EQ(report["ids"], ids);
    EXPECT_EQ(report["audit"]["clean"], true) << report["audit"];
    EXPECT_EQ(report["sleep"]["same_ids"], true);
  }
}

// It refuses what breaks the interface's rules, and newer ones say so on standard error.
TEST_F(MemoryProgramsTest, TheLoadersValidationLayerFindsNothing) {
  void* const layer = dlopen("libze_validation_layer.so.1", RTLD_NOW | RTLD_LOCAL);
  if (layer == nullptr) GTEST_SKIP() << "this loader has no validation layer: " << dlerror();
  dlclose(layer);
  const json ids = Run("committed")["ids"];
  for (const char* host_access : {"0", "1"}) {
    const NpuSwitches switches({{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                                {"NPUBANK_NPU_IMPORT", "1"},
                                {"NPUBANK_NPU_HOST_ACCESS", host_access},
                                {"ZE_ENABLE_VALIDATION_LAYER", "1"},
                                {"ZE_ENABLE_PARAMETER_VALIDATION", "1"}});
    for (const std::string memory : {"committed", "placed", "tiled", "imported"}) {
      SCOPED_TRACE(memory);
      EXPECT_EQ(Run(memory, {"--sleep"})["ids"], ids);
    }
  }
}

TEST_F(MemoryProgramsTest, TheNumberOfTheDevicesThreadsChangesNoNumber) {
  const json ids = Run("auto")["ids"];
  for (const std::string threads : {"1", "2", "5"}) {
    const NpuSwitches switches({{"NPUBANK_NPU_THREADS", threads}});
    EXPECT_EQ(Run("auto")["ids"], ids) << threads;
  }
}

TEST_F(MemoryProgramsTest, AFileThatTheKernelRefusesToPinIsCopiedAndThatIsSaidOnce) {
  const json ids = Run("committed")["ids"];
  // The first host memory that is asked for is the import.
  const NpuSwitches switches({{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                              {"NPUBANK_NPU_IMPORT", "1"},
                              {"NPUBANK_NPU_FAIL", "zeMemAllocHost:1"}});
  const json report = Run("imported");
  EXPECT_EQ(report["ids"], ids);
  EXPECT_EQ(report["imported_bytes"], 0);
  EXPECT_EQ(report["memory_notices"].size(), 1u);
  EXPECT_EQ(Said(report, "model.safetensors"), 1);
}

}  // namespace
}  // namespace npubank
