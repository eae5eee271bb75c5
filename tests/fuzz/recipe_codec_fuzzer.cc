// Any bytes as a recipe list: refused with a Status, or recipes that are what the list said of them
// before they were made, describe themselves, encode again to a list with the same digests, and
// evaluate when they are small.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

constexpr int64_t kSmall = 1 << 16;

// Zeros whose identity is the same in every run, so that seeds of an earlier one still fit.
class Zeros final : public Source {
 public:
  Zeros() : Source("zeros", Digest{7, 7}, kSmall) {}
  bool persistent() const override { return true; }
  absl::Status Read(uint64_t, absl::Span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    return absl::OkStatus();
  }
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
    return absl::FailedPreconditionError("not mapped");
  }
  void Release(uint64_t, uint64_t) const override {}
};

// One tensor for each kind of input that an operation takes.
const std::shared_ptr<const SourceIndex>& Index() {
  static const auto& index = *new std::shared_ptr<const SourceIndex>([] {
    auto made = std::make_shared<SourceIndex>("zeros");
    bool ok = made->AddFile(SourceOpener::Held(std::make_shared<Zeros>())).ok();
    const auto add = [&](const char* name, ElementType element, std::vector<int64_t> dims) {
      ok &= made->Add({name, *TensorType::Create(element, *Shape::Create(dims)), 0, 0}).ok();
    };
    add("w", ElementType::kBF16, {6, 4});
    add("blocks", ElementType::kU8, {4, 144});
    add("words", ElementType::kI32, {4, 8});
    add("bytes", ElementType::kU8, {6, 4});
    add("table", ElementType::kF32, {256});
    add("rows", ElementType::kI32, {5});
    add("scale", ElementType::kF16, {6, 1});
    if (!ok) std::abort();
    return made;
  }());
  return index;
}

void Use(const RecipePtr& recipe) {
  if (recipe->type().bytes() > kSmall || recipe->depth() > 8) return;
  std::vector<std::byte> out(recipe->type().bytes());
  const absl::Status status = Evaluate(*recipe, absl::MakeSpan(out), {});
  // Which rows are gathered is known when it is evaluated.
  if (!status.ok() && status.message().find("gather of rows") == absl::string_view::npos) std::abort();
}

}  // namespace
}  // namespace npubank

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto list = RecipeList::Bind(bytes, Index());
  if (!list.ok()) return 0;
  std::vector<RecipePtr> recipes;
  for (size_t i = 0; i < (*list)->size() && i < 64; ++i) {
    (*list)->Describe(i);
    const absl::StatusOr<RecipePtr> recipe = (*list)->Make(i);
    if (!recipe.ok()) continue;
    if ((*recipe)->type() != (*list)->type(i)) std::abort();
    recipes.push_back(*recipe);
    Use(*recipe);
  }
  const absl::StatusOr<std::string> again = EncodeRecipes(recipes);
  if (!again.ok()) return 0;
  const auto back = RecipeList::Bind(*again, Index());
  if (!back.ok() || (*back)->size() != recipes.size()) std::abort();
  for (size_t i = 0; i < recipes.size(); ++i) {
    if ((*back)->digest(i) != recipes[i]->digest()) std::abort();
  }
  return 0;
}
