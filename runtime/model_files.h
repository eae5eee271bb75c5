// ModelFiles: a model's stored tensors, found again after its checkpoint was closed.
//
//   auto files = std::make_shared<ModelFiles>([path]() -> absl::StatusOr<LeafFinder> {
//     NPUBANK_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open(path));
//     return [checkpoint](absl::string_view name) { return checkpoint->Find(name); };
//   });
//   bank->AddOwner("prefill", {.resolver = ModelFiles::Resolver(files)});
//   ModelFiles::Use use(files);                    // while many evicted tensors come back
//
// Weights that left the device come back from where they are stored, but nobody wants a file open
// in between. While a Use lives, the first look-up opens the model for all that follow; a look-up
// without one, because another model wants a shared weight, opens it for itself.
//
// Threads: every method, from any thread; nothing is opened or closed under a lock. Errors: those
// of the function that opens.
#ifndef NPUBANK_RUNTIME_MODEL_FILES_H_
#define NPUBANK_RUNTIME_MODEL_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/owner.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/recipe.h"

namespace npubank {

// The checkpoint's tensor of this name, as a recipe.
using LeafFinder = std::function<absl::StatusOr<RecipePtr>(absl::string_view name)>;
// Opens a model's files; they stay open as long as the finder lives.
using OpenModel = std::function<absl::StatusOr<LeafFinder>()>;

class ModelFiles {
 public:
  class Use {
   public:
    explicit Use(std::shared_ptr<ModelFiles> files);  // of nothing when null
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::shared_ptr<ModelFiles> files_;
  };

  explicit ModelFiles(OpenModel open) : open_(std::move(open)) {}

  absl::StatusOr<RecipePtr> Find(absl::string_view name);
  // For an owner in a bank; keeps `files` alive, not open.
  static RecipeResolver Resolver(std::shared_ptr<ModelFiles> files);

 private:
  const OpenModel open_;
  Mutex mutex_;
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const LeafFinder> finder_ ABSL_GUARDED_BY(mutex_);  // null without a use
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MODEL_FILES_H_
