#include "npubank/tools/reports/model_text.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/tools/reports/report_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

std::string TypeOf(const StoredTensor& tensor) {
  if (tensor.blocks) return kernels::BlockFormatName(*tensor.blocks);
  return std::string(ElementTypeName(tensor.type.element()));
}

// In elements: rows of blocks are stored as rows of bytes.
std::vector<int64_t> ShapeOf(const StoredTensor& tensor) {
  const absl::Span<const int64_t> dims = tensor.type.shape().dims();
  std::vector<int64_t> shape(dims.begin(), dims.end());
  if (tensor.blocks && !shape.empty())
    shape.back() = shape.back() / static_cast<int64_t>(kernels::BlockBytes(*tensor.blocks)) *
                   static_cast<int64_t>(kernels::BlockLength(*tensor.blocks));
  return shape;
}

std::vector<const StoredTensor*> Shown(const SourceIndex& index, const std::string& filter) {
  std::vector<const StoredTensor*> shown;
  for (const StoredTensor& tensor : index.tensors())
    if (absl::StrContains(tensor.name, filter)) shown.push_back(&tensor);
  return shown;
}

uint64_t TotalBytes(const SourceIndex& index) {
  uint64_t bytes = 0;
  for (const StoredTensor& tensor : index.tensors()) bytes += tensor.type.bytes();
  return bytes;
}

TextTable Tensors(const SourceIndex& index, const std::string& filter) {
  TextTable table({{"name"},
                   {"type"},
                   {"shape"},
                   {"bytes", TextTable::kRight},
                   {"offset", TextTable::kRight},
                   {"file"}});
  for (const StoredTensor* tensor : Shown(index, filter))
    table.AddRow({tensor->name, TypeOf(*tensor),
                  absl::StrCat("[", absl::StrJoin(ShapeOf(*tensor), ","), "]"),
                  absl::StrCat(tensor->type.bytes()), absl::StrCat(tensor->offset),
                  index.file(tensor->file).name});
  return table;
}

}  // namespace

std::string ModelAsTable(const SourceIndex& index, const std::string& filter) {
  const size_t shown = Shown(index, filter).size();
  return absl::StrCat(Tensors(index, filter).AsColumns(), "\n",
                      shown < index.tensors().size() ? absl::StrCat(shown, " shown of ") : "",
                      index.tensors().size(), " tensors in ", index.file_count(),
                      index.file_count() == 1 ? " file, " : " files, ", TotalBytes(index),
                      " bytes\n");
}

std::string ModelAsCsv(const SourceIndex& index, const std::string& filter) {
  return Tensors(index, filter).AsCsv();
}

std::string ModelAsJson(const SourceIndex& index, const std::string& filter) {
  using Json = nlohmann::ordered_json;
  Json tensors = Json::array();
  for (const StoredTensor* tensor : Shown(index, filter))
    tensors.push_back({{"name", tensor->name},
                       {"type", TypeOf(*tensor)},
                       {"shape", ShapeOf(*tensor)},
                       {"bytes", tensor->type.bytes()},
                       {"offset", tensor->offset},
                       {"file", index.file(tensor->file).name}});
  Json files = Json::array();
  for (uint32_t i = 0; i < index.file_count(); ++i)
    files.push_back({{"name", index.file(i).name}, {"bytes", index.file(i).size}});
  return JsonText(
      {{"tensors", std::move(tensors)},
       {"files", std::move(files)},
       {"totals", {{"tensors", index.tensors().size()}, {"bytes", TotalBytes(index)}}}});
}

}  // namespace npubank
