// Whatever a function blob says: what is accepted passes the checker, can be viewed, and is written
// back to a blob that reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/views/plan_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto function =
      npubank::ReadFunctionBlob(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!function.ok()) return 0;
  if (!npubank::CheckFunction(*function).ok()) abort();
  npubank::ViewPlan(*function);
  const std::string again = npubank::WriteFunctionBlob(*function);
  const auto read = npubank::ReadFunctionBlob(again);
  if (!read.ok() || npubank::WriteFunctionBlob(*read) != again) abort();
  return 0;
}
