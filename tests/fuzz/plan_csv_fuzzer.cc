// Whatever a CSV of buffers says, a problem that is accepted can be planned, and the plan is valid;
// and what is written out is read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/planner/files/csv.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/planner/validator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto csv = npubank::ParseCsv({reinterpret_cast<const char*>(data), size});
  if (!csv.ok() || csv->problem.buffers.size() > 200) return 0;
  const auto plan = npubank::PlanMemory(csv->problem, {.step_limit = 1000});
  if (!plan.ok() || !npubank::Validate(csv->problem, plan->offsets).ok()) abort();
  const auto text = npubank::FormatCsv(csv->problem, plan->offsets);
  if (!text.ok()) return 0;  // a stray carriage return in an id
  const auto again = npubank::ParseCsv(*text);
  if (!again.ok() || again->offsets != plan->offsets) abort();
  return 0;
}
