#include "npubank/lazy_tensor/formats/checkpoint.h"

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/gguf_model.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"
#include "npubank/lazy_tensor/formats/open_index.h"

namespace npubank {
namespace {

constexpr absl::string_view kWeightSuffix = ".weight";

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path,
                                                                   FileAccess access) {
  FolderConfig folder;
  std::error_code not_there;  // OpenIndex says so
  if (std::filesystem::is_directory(path, not_there)) {
    NPUBANK_ASSIGN_OR_RETURN(folder, ReadFolder(path));
  }
  NPUBANK_ASSIGN_OR_RETURN(const OpenedIndex opened, OpenIndex(path, access));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint(path, opened.index));
  if (opened.folder) {
    NPUBANK_RETURN_IF_ERROR(checkpoint->Take(std::move(folder)));
  } else if (opened.gguf.has_value()) {
    NPUBANK_RETURN_IF_ERROR(checkpoint->ReadGguf(*opened.gguf));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": is no GGUF file; a model in safetensors is named by its folder, with config.json"));
  }
  return checkpoint;
}

std::shared_ptr<const Checkpoint> Checkpoint::Over(ModelConfig config,
                                                   std::shared_ptr<const SourceIndex> index) {
  const std::string listing = index->listing();
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint(listing, std::move(index)));
  checkpoint->config_ = std::move(config);
  return checkpoint;
}

absl::StatusOr<Checkpoint::FolderConfig> Checkpoint::ReadFolder(const std::string& path) {
  FolderConfig folder;
  NPUBANK_ASSIGN_OR_RETURN(folder.config, ReadModelConfig(path + "/config.json"));
  NPUBANK_ASSIGN_OR_RETURN(folder.quantization, ReadQuantization(path + "/config.json"));
  return folder;
}

absl::Status Checkpoint::Take(FolderConfig folder) {
  config_ = std::move(folder.config);
  quantization_ = std::move(folder.quantization);
  const NetworkNames& network = *NetworkNames::Find(config_.model_type);
  for (const StoredTensor& tensor : index_->tensors()) {
    std::string name = quantization_ ? WeightOfPart(*quantization_, tensor.name) : tensor.name;
    NPUBANK_RETURN_IF_ERROR(
        CheckTensor(network, Naming::kHub, name, tensor, *index_, config_.num_layers));
    if (name == tensor.name) continue;
    // Integers beside a scale go by the weight's own name.
    const bool is_part = quantization_->method == Quantization::Method::kInt8;
    if (!is_part && index_->Find(name) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": has both ", Quote(name), " and ",
                                                     Quote(tensor.name),
                                                     "; remove the one that is not meant"));
    }
    quantized_.insert(std::move(name));
  }
  return CheckIntegersHaveScales();
}

absl::Status Checkpoint::CheckIntegersHaveScales() const {
  if (!quantization_ || quantization_->method != Quantization::Method::kInt8) return absl::OkStatus();
  for (const StoredTensor& tensor : index_->tensors()) {
    if (tensor.type.element() != ElementType::kI8 || quantized_.count(tensor.name) != 0) continue;
    if (!absl::EndsWith(tensor.name, kWeightSuffix)) continue;
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Quote(tensor.name), " is ",
                                                   tensor.type.ToString(), ", but there is no ",
                                                   Quote(tensor.name + "_scale")));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadGguf(const Gguf& gguf) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source, index_->Open(0));
  NPUBANK_ASSIGN_OR_RETURN(config_, GgufModelConfig(gguf, *source));
  const NetworkNames& network = *NetworkNames::Find(config_.model_type);
  for (const StoredTensor& tensor : index_->tensors()) {
    NPUBANK_RETURN_IF_ERROR(CheckTensor(network, Naming::kGguf, tensor.name, tensor, *index_,
                                        config_.num_layers));
    std::string name = HubName(network, tensor.name);
    if (name != tensor.name) stored_names_[std::move(name)] = tensor.name;
  }
  return absl::OkStatus();
}

bool Checkpoint::Contains(absl::string_view name) const {
  return index_->Find(name) != nullptr || stored_names_.count(std::string(name)) != 0 ||
         quantized_.count(std::string(name)) != 0;
}

absl::StatusOr<LazyTensor> Checkpoint::Tensor(absl::string_view name) const {
  const bool quantized = quantized_.count(std::string(name)) != 0;
  if (!quantized && index_->Find(name) != nullptr) return LazyTensor::Stored(*index_, name);
  NPUBANK_ASSIGN_OR_RETURN(const StoredWeight stored, Stored(name));
  return Dequantized(stored);
}

absl::StatusOr<StoredWeight> Checkpoint::Stored(absl::string_view name) const {
  if (quantized_.count(std::string(name)) != 0) {
    return QuantizedWeight(*quantization_, std::string(absl::StripSuffix(name, kWeightSuffix)),
                           *index_);
  }
  const auto made_of = stored_names_.find(std::string(name));
  const bool as_named = index_->Find(name) != nullptr || made_of == stored_names_.end();
  const std::string stored_name = as_named ? std::string(name) : made_of->second;
  NPUBANK_ASSIGN_OR_RETURN(LazyTensor tensor, LazyTensor::Stored(*index_, stored_name));
  const std::optional<kernels::BlockFormat>& blocks = index_->Find(stored_name)->blocks;
  return StoredWeight{blocks ? WeightForm::Blocks(*blocks) : WeightForm(), {std::move(tensor)}};
}

}  // namespace npubank
