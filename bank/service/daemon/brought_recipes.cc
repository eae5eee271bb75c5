#include "npubank/bank/service/daemon/brought_recipes.h"

#include <map>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/lazy_tensor/sources/source_opener.h"

namespace npubank::service {
namespace {

class BroughtOpener final : public SourceOpener {
 public:
  explicit BroughtOpener(std::shared_ptr<BroughtFile> file) : file_(std::move(file)) {}
  absl::StatusOr<std::shared_ptr<Source>> Open() override { return file_->Open(); }

 private:
  const std::shared_ptr<BroughtFile> file_;
};

// One index for all lists of a load: they are over one model.
class IndexMaker {
 public:
  IndexMaker(absl::Span<const std::shared_ptr<BroughtFile>> files, absl::string_view client)
      : files_(files), index_(std::make_shared<SourceIndex>(std::string(client))) {}

  absl::Status Add(const Load::List& list) {
    NPUBANK_ASSIGN_OR_RETURN(const EncodedRecipes recipes, EncodedRecipes::Open(list.recipes));
    if (list.sources.size() != recipes.source_count()) {
      return absl::InvalidArgumentError(absl::StrCat("recipes over ", recipes.source_count(),
                                                     " sources with ", list.sources.size(),
                                                     " files"));
    }
    for (const uint32_t root : list.roots) {
      if (root < recipes.root_count()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", root, " of ", recipes.root_count(), " is wanted"));
    }
    for (size_t i = 0; i < recipes.node_count(); ++i) {
      if (!recipes.is_constant(i)) continue;
      NPUBANK_ASSIGN_OR_RETURN(const EncodedRecipes::Node node, recipes.node(i));
      NPUBANK_RETURN_IF_ERROR(AddConstant(list, node));
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const SourceIndex> index() const { return index_; }

 private:
  absl::StatusOr<uint32_t> FileOf(uint32_t number) {
    if (number >= files_.size() || files_[number] == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("source ", number, " was not opened on this connection"));
    }
    const auto known = numbers_.find(number);
    if (known != numbers_.end()) return known->second;
    NPUBANK_ASSIGN_OR_RETURN(const uint32_t file,
                             index_->AddFile(std::make_unique<BroughtOpener>(files_[number])));
    numbers_.emplace(number, file);
    return file;
  }

  absl::Status AddConstant(const Load::List& list, const EncodedRecipes::Node& node) {
    const auto& constant = std::get<ConstantOp>(node.op);
    if (node.source >= list.sources.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a constant in source ", node.source, " of ", list.sources.size()));
    }
    NPUBANK_ASSIGN_OR_RETURN(const uint32_t file, FileOf(list.sources[node.source]));
    const StoredTensor* known = index_->Find(constant.name);
    if (known != nullptr && known->file == file && known->offset == constant.offset &&
        known->type == node.type) {
      return absl::OkStatus();
    }
    return index_->Add(
        {.name = constant.name, .type = node.type, .file = file, .offset = constant.offset});
  }

  const absl::Span<const std::shared_ptr<BroughtFile>> files_;
  const std::shared_ptr<SourceIndex> index_;
  std::map<uint32_t, uint32_t> numbers_;  // of the index's files, by the client's
};

}  // namespace

absl::StatusOr<BroughtRecipes> BroughtRecipes::Bind(
    const Load& load, absl::Span<const std::shared_ptr<BroughtFile>> files,
    absl::string_view client) {
  IndexMaker maker(files, client);
  for (const Load::List& list : load.lists) NPUBANK_RETURN_IF_ERROR(maker.Add(list));
  BroughtRecipes brought;
  brought.index = maker.index();
  uint64_t bytes = 0;
  for (const Load::List& list : load.lists) {
    NPUBANK_ASSIGN_OR_RETURN(const auto recipes, RecipeList::Bind(list.recipes, brought.index));
    for (size_t i = 0; i < list.roots.size(); ++i) {
      const uint64_t size = recipes->type(list.roots[i]).bytes();
      if (size > kMostTensorBytes || (bytes += size) > kMostTensorBytes) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "tensor '", absl::CEscape(list.names[i]), "': all that is wanted would take more than ",
            kMostTensorBytes, " bytes"));
      }
      brought.tensors.push_back({recipes, list.roots[i]});
      brought.names.push_back(list.names[i]);
    }
  }
  return brought;
}

}  // namespace npubank::service
