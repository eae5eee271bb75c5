// PlanText: the memory plan in a compiled submodel's file, for people: lines of figures, a picture.
//
//   NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob blob, ReadBlobFile("prefill.npbs"));
//   NPUBANK_ASSIGN_OR_RETURN(std::string text, PlanText(blob));
//   NPUBANK_ASSIGN_OR_RETURN(std::string svg, PlanPicture(blob, "block"));
//
// Errors name the file or function. A blob is hostile until read (submodel_blob.h); a plan that
// would have two values in one place at one time does not get this far.
#ifndef NPUBANK_TOOLS_REPORTS_PLAN_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_PLAN_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"

namespace npubank {

absl::StatusOr<SubmodelBlob> ReadBlobFile(const std::string& path);

// For the arena and each function's scratch: every value in memory of its own, the lower bound, the
// plan and their ratio; then bytes and longest path under both schedules and as planned.
absl::StatusOr<std::string> PlanText(const SubmodelBlob& blob);

// An SVG of the arena through all calls or, with a function's name, of its scratch. NotFound when
// there is no such function.
absl::StatusOr<std::string> PlanPicture(const SubmodelBlob& blob, absl::string_view function);

// bank-inspect plan FILE [--svg FILE] [--function NAME]: prints the text, writes the picture.
absl::Status InspectPlan(const std::string& path, const std::string& svg,
                         absl::string_view function);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_PLAN_TEXT_H_
