// GeneratedIds: what a model that was loaded says, to be compared with what another load of it says.
#ifndef NPUBANK_TESTS_INTEGRATION_GENERATED_IDS_H_
#define NPUBANK_TESTS_INTEGRATION_GENERATED_IDS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {

// The ids of a prompt that needs both submodels, and of `count` that follow it.
inline std::vector<int32_t> GeneratedIds(ModelRun& run, int64_t count = 3) {
  const absl::Status status = run.Generate({1, 5, 9, 2, 7, 3}, count, [](absl::string_view) {});
  EXPECT_TRUE(status.ok()) << status;
  return run.speech().ids;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_GENERATED_IDS_H_
