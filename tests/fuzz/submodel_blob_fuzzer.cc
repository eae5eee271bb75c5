// Whatever a submodel blob says: what is accepted passes the checker, can be viewed, and is written
// back to a blob that reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/blob/submodel_check.h"
#include "npubank/compiler_stub/views/plan_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto blob =
      npubank::ReadSubmodelBlob(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!blob.ok()) return 0;
  if (!npubank::CheckSubmodel(*blob).ok()) abort();
  for (const npubank::Call& call : blob->calls) call.Closure();
  npubank::ViewPlan(*blob);
  const std::string again = npubank::WriteSubmodelBlob(*blob);
  const auto read = npubank::ReadSubmodelBlob(again);
  if (!read.ok() || npubank::WriteSubmodelBlob(*read) != again) abort();
  return 0;
}
