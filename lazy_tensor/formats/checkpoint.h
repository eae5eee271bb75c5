// Checkpoint: a model on disk as named, lazy tensors.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> model, Checkpoint::Open("folder"));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor head, model->Tensor("lm_head.weight"));
//
// A folder holds config.json and either model.safetensors or model.safetensors.index.json with its
// shards. A .gguf file holds all of it. Opening reads headers only.
//
// Names: a tensor that a file stores goes by the name it has there, and Tensor gives a Constant over
// the file. A Hugging Face name that the model needs but no file stores as such, or as integers with scales
// beside them, is built over what is stored, in F32 where that is quantised: "model.layers.0.self_attn.q_proj.weight" over a
// GGUF file's "blk.0.attn_q.weight", or over "...q_proj.qweight" and its like (quantization.h). So
// the rooms above see one kind of model, and the leaves of any recipe are found again by name. Every
// tensor is one that the network uses or that is known to change nothing (model/network_names.h): a model with
// others is refused, since what it computes is not what would come out.
//
// Ownership: files stay open while the Checkpoint, or any tensor built over them, lives: drop the
// Checkpoint after loading. Its index may live on (an owner in a bank has it) and opens them again when
// they are wanted. Threads: immutable after Open.
// Errors: NotFound for a missing folder, file or tensor (naming it, and for a tensor the file it
// should be in); InvalidArgument for whatever the files get wrong.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/formats/quantization.h"
#include "npubank/lazy_tensor/formats/stored_weight.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

class Checkpoint {
 public:
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      const std::string& path, FileAccess access = FileAccess::kMap);
  // Of tensors that are indexed already, under the names that the network asks for.
  static std::shared_ptr<const Checkpoint> Over(ModelConfig config,
                                                std::shared_ptr<const SourceIndex> index);

  // As it was opened; the listing, for one made with Over.
  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return config_; }
  const std::shared_ptr<const SourceIndex>& index() const { return index_; }

  // A tensor by its name in the file, or by its Hugging Face name.
  absl::StatusOr<LazyTensor> Tensor(absl::string_view name) const;
  // The same as it is stored, by Hugging Face name: its form and parts.
  absl::StatusOr<StoredWeight> Stored(absl::string_view name) const;
  bool Contains(absl::string_view name) const;

 private:
  Checkpoint(std::string path, std::shared_ptr<const SourceIndex> index)
      : path_(std::move(path)), index_(index), use_(std::move(index)) {}
  struct FolderConfig {
    ModelConfig config;
    std::optional<Quantization> quantization;
  };
  static absl::StatusOr<FolderConfig> ReadFolder(const std::string& path);
  absl::Status Take(FolderConfig folder);
  absl::Status CheckIntegersHaveScales() const;
  absl::Status ReadGguf(const Gguf& gguf);

  const std::string path_;
  const std::shared_ptr<const SourceIndex> index_;
  const SourceIndex::Use use_;
  ModelConfig config_;
  std::optional<Quantization> quantization_;  // of a folder
  // Of a folder: the weights that are stored in parts.
  std::set<std::string> quantized_;
  // By Hugging Face name, where a GGUF file has no tensor of that name: what it is made of.
  std::map<std::string, std::string> stored_names_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
