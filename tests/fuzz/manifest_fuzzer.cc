// Whatever a manifest says: what is accepted passes the description's check, every argument has a
// type, and every tensor that is put into words can be made.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/runtime/manifest/manifest.h"

namespace {

using npubank::ElementType;

// A buffer that is a matrix of floats, blocks, GPTQ's words and a scale at once.
std::shared_ptr<const npubank::SourceIndex> MakeIndex() {
  auto index = std::make_shared<npubank::SourceIndex>("fuzzed model");
  const uint32_t file = index
                            ->AddFile(npubank::SourceOpener::Held(npubank::Source::FromBuffer(
                                std::vector<std::byte>(4096), "buffer")))
                            .value();
  const auto add = [&](const char* name, ElementType element, std::vector<int64_t> dims) {
    const auto type =
        npubank::TensorType::Create(element, npubank::Shape::Create(dims).value()).value();
    if (!index->Add({name, type, file, 0}).ok()) abort();
  };
  add("f", ElementType::kF32, {16, 32});
  add("s", ElementType::kF32, {16, 1});
  add("b", ElementType::kU8, {4, 18});
  add("w", ElementType::kI32, {8, 8});
  add("n", ElementType::kU4, {16, 32});
  add("i", ElementType::kI8, {16, 32});
  return index;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const npubank::SourceIndex> index = MakeIndex();
  const auto read = npubank::ParseManifest(
      absl::string_view(reinterpret_cast<const char*>(data), size), "fuzzed.json", index,
      [](const std::string& file) { return absl::StatusOr<std::string>(file); });
  if (!read.ok()) return 0;
  if (!read->Check().ok()) abort();
  for (const auto& call : read->calls)
    for (const auto& argument : call.arguments) read->TypeOf(argument).bytes();
  for (size_t i = 0; i < read->weights.size(); ++i)
    if (!read->recipes->Make(i).ok()) abort();
  return 0;
}
