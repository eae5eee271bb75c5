// Early returns for absl::Status and absl::StatusOr.
//
//   NPUBANK_RETURN_IF_ERROR(file.Read(offset, bytes));
//   NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
#ifndef NPUBANK_LAZY_TENSOR_BASE_STATUS_MACROS_H_
#define NPUBANK_LAZY_TENSOR_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank {

// The same error with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace npubank

#define NPUBANK_CONCAT_INNER(a, b) a##b
#define NPUBANK_CONCAT(a, b) NPUBANK_CONCAT_INNER(a, b)

#define NPUBANK_RETURN_IF_ERROR(expression)          \
  do {                                               \
    absl::Status npubank_status = (expression);      \
    if (!npubank_status.ok()) return npubank_status; \
  } while (false)

#define NPUBANK_ASSIGN_OR_RETURN(declaration, expression) \
  NPUBANK_ASSIGN_OR_RETURN_INNER(NPUBANK_CONCAT(npubank_or_, __COUNTER__), declaration, expression)
#define NPUBANK_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) return std::move(temporary).status();               \
  declaration = *std::move(temporary)

#endif  // NPUBANK_LAZY_TENSOR_BASE_STATUS_MACROS_H_
