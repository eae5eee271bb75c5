#include "npubank/runtime/model_files.h"

#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

ModelFiles::Use::Use(std::shared_ptr<ModelFiles> files) : files_(std::move(files)) {
  if (files_ == nullptr) return;
  MutexLock lock(files_->mutex_);
  ++files_->uses_;
}

ModelFiles::Use::~Use() {
  if (files_ == nullptr) return;
  std::shared_ptr<const LeafFinder> closed;  // after the lock
  MutexLock lock(files_->mutex_);
  if (--files_->uses_ == 0) closed.swap(files_->finder_);
}

absl::StatusOr<RecipePtr> ModelFiles::Find(absl::string_view name) {
  std::shared_ptr<const LeafFinder> finder;
  {
    MutexLock lock(mutex_);
    finder = finder_;
  }
  if (finder == nullptr) {
    NPUBANK_ASSIGN_OR_RETURN(LeafFinder opened, open_());
    finder = std::make_shared<const LeafFinder>(std::move(opened));
    MutexLock lock(mutex_);
    if (uses_ > 0 && finder_ == nullptr) finder_ = finder;
  }
  return (*finder)(name);
}

RecipeResolver ModelFiles::Resolver(std::shared_ptr<ModelFiles> files) {
  return [files = std::move(files)](absl::string_view name) { return files->Find(name); };
}

}  // namespace npubank
