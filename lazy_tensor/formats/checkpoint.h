// Checkpoint: a model on disk as named, lazy tensors.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> model, Checkpoint::Open("folder"));
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr head, model->Find("lm_head.weight"));
//
// A folder holds config.json and either model.safetensors or model.safetensors.index.json with its
// shards. Opening reads headers only. Find makes a Constant over the file; the file stays mapped
// while the Checkpoint or any recipe over it lives, so drop the Checkpoint after loading.
//
// Threads: immutable after Open. Errors: NotFound for a missing folder, file or tensor (naming it,
// and for a tensor the file it should be in); InvalidArgument for whatever the files get wrong.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lazy_tensor/formats/model_config.h"
#include "lazy_tensor/formats/safetensors.h"
#include "lazy_tensor/recipe.h"
#include "lazy_tensor/source.h"

namespace npubank {

class Checkpoint {
 public:
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      const std::string& path, FileAccess access = FileAccess::kMap);

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return config_; }

  // A tensor as it is stored.
  absl::StatusOr<RecipePtr> Find(absl::string_view name) const;
  bool Contains(absl::string_view name) const;

 private:
  struct Stored {
    std::shared_ptr<Source> source;
    TensorEntry entry;
  };
  Checkpoint() = default;
  absl::Status AddFile(const std::string& file, FileAccess access);
  absl::Status AddShards(const std::string& index, FileAccess access);

  std::string path_;
  std::string listing_;  // the file that names all tensors, for messages
  ModelConfig config_;
  std::map<std::string, Stored> tensors_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
