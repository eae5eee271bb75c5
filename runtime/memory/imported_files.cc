#include "npubank/runtime/memory/imported_files.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

void ImportedFiles::Add(const FileRange* range) {
  if (range == nullptr || range->source == nullptr) return;
  files_.emplace(range->source->identity(), range->source);
}

absl::Status ImportedFiles::CheckUnchanged(absl::string_view model) const {
  for (const auto& [identity, file] : files_) {
    const absl::Status status = file->CheckUnchanged();
    if (absl::IsDataLoss(status)) {
      return absl::DataLossError(
          absl::StrCat(model, " runs on imported pages of a file that has changed: load it again (",
                       status.message(), ")"));
    }
    NPUBANK_RETURN_IF_ERROR(Annotate(status, model));
  }
  return absl::OkStatus();
}

}  // namespace npubank
