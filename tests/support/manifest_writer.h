// ManifestWriter: a submodel description as another compiler would hand it over: a folder with a
// manifest and its functions' blobs (runtime/manifest/manifest.h).
//
//   NPUBANK_ASSIGN_OR_RETURN(CompiledSubmodel compiled, ReadCompiledSubmodel(blob, index));
//   NPUBANK_ASSIGN_OR_RETURN(std::string path, WriteManifest(compiled.description, folder));
//
// The converter from this project's own submodels: nothing of theirs but native functions is left
// in the folder.
#ifndef NPUBANK_TESTS_SUPPORT_MANIFEST_WRITER_H_
#define NPUBANK_TESTS_SUPPORT_MANIFEST_WRITER_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/runtime/submodel_description.h"

namespace npubank {

// The recipe in a manifest's words.
nlohmann::json WordsOf(const Recipe& recipe);

// FOLDER/NAME.json and its blobs beside it; the manifest's path. Errors: those of RecipeList::Make.
absl::StatusOr<std::string> WriteManifest(const SubmodelDescription& submodel,
                                          const std::string& folder);

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_MANIFEST_WRITER_H_
