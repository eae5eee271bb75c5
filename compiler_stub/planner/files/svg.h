// Pictures of a plan: memory over time, and a few lines of text.
//
//   std::ofstream("plan.svg") << DrawPlan(problem, plan, "prefill");
//   std::cout << DescribePlan(problem, plan);
//
// In the picture time runs to the right, an operation per step, and offsets upwards. Each buffer is
// a rectangle coloured by its kind; its name, values, life and place are its tooltip. A dashed line
// marks the lower bound: a plan that ends there is as small as any.
//
// Cost: linear. Threads: pure. Names are escaped; nothing in them can break the file.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_FILES_SVG_H_
#define NPUBANK_COMPILER_STUB_PLANNER_FILES_SVG_H_

#include <string>

#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/planner/plan.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

// A complete SVG file. `plan` belongs to `problem` (Validate passed).
std::string DrawPlan(const Problem& problem, const Plan& plan, absl::string_view title);

// Sum of all buffers, lower bound, plan, ratio and how it was found, a line each.
std::string DescribePlan(const Problem& problem, const Plan& plan);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_FILES_SVG_H_
