// Checkpoint: a model on disk as named, lazy tensors.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> model, Checkpoint::Open("folder"));
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr head, model->Find("lm_head.weight"));
//
// A folder holds config.json and either model.safetensors or model.safetensors.index.json with its
// shards; perhaps tokens.json. A .gguf file holds all of it. Opening reads headers only.
//
// Names: a tensor that a file stores goes by the name it has there, and Find gives a Constant over
// the file. A Hugging Face name that the model needs but no file stores as such is a recipe over
// what is stored, in F32 where that is quantised: "model.layers.0.self_attn.q_proj.weight" over a
// GGUF file's "blk.0.attn_q.weight", or over "...q_proj.qweight" and its like (quantization.h). So
// the rooms above see one kind of model, and the leaves of any recipe are found again by name.
//
// Ownership: files stay mapped while the Checkpoint or any recipe over them lives: drop the
// Checkpoint after loading. Threads: immutable after Open.
// Errors: NotFound for a missing folder, file or tensor (naming it, and for a tensor the file it
// should be in); InvalidArgument for whatever the files get wrong.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/model_config.h"
#include "npubank/lazy_tensor/formats/quantization.h"
#include "npubank/lazy_tensor/formats/safetensors.h"
#include "npubank/lazy_tensor/formats/vocabulary.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/recipe.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class Checkpoint {
 public:
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      const std::string& path, FileAccess access = FileAccess::kMap);

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return config_; }

  // A tensor by its name in the file, or by its Hugging Face name.
  absl::StatusOr<RecipePtr> Find(absl::string_view name) const;
  bool Contains(absl::string_view name) const;

  // tokens.json of the folder, or the vocabulary inside the GGUF file. NotFound when there is none,
  // Unimplemented for a GGUF vocabulary that is not SentencePiece's.
  absl::StatusOr<Vocabulary> LoadVocabulary() const;

 private:
  struct Stored {
    std::shared_ptr<Source> source;
    TensorEntry entry;  // for blocks: rows of bytes
    std::optional<kernels::BlockFormat> blocks;
  };
  Checkpoint() = default;
  absl::Status OpenFolder(FileAccess access);
  absl::Status OpenGguf(FileAccess access);
  absl::Status AddFolder(FileAccess access);
  absl::Status AddFile(const std::string& file, FileAccess access);
  absl::Status AddShards(const std::string& index, FileAccess access);
  absl::Status Add(Stored stored);
  absl::StatusOr<RecipePtr> Dequantized(const std::string& stored_name) const;

  std::string path_;
  std::string listing_;           // the file that names all tensors, for messages
  std::shared_ptr<Source> gguf_;  // null for a folder
  ModelConfig config_;
  std::optional<Quantization> quantization_;  // of a folder
  std::map<std::string, Stored> tensors_;     // by the name in the file
  // By Hugging Face name, where no file has a tensor of that name: what it is made of.
  std::map<std::string, std::string> stored_names_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_CHECKPOINT_H_
