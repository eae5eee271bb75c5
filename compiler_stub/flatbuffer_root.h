// FlatbufferRoot: verified access to a flatbuffer that came from outside.
//
//   NPUBANK_ASSIGN_OR_RETURN(FlatbufferRoot<fbs::Function> root,
//       FlatbufferRoot<fbs::Function>::Open(bytes, fbs::FunctionIdentifier(), limits));
//   root->ops();
//
// Open bounds the size, checks the identifier, copies bytes that are not aligned as flatbuffers
// needs (reading them in place would be undefined), and runs the verifier with bounded depth and
// table count. `bytes` must outlive the root. Errors: InvalidArgument.
#ifndef NPUBANK_COMPILER_STUB_FLATBUFFER_ROOT_H_
#define NPUBANK_COMPILER_STUB_FLATBUFFER_ROOT_H_

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct FlatbufferLimits {
  uint32_t depth = 8;
  uint32_t tables = 1u << 20;
};

template <typename Table>
class FlatbufferRoot {
 public:
  static absl::StatusOr<FlatbufferRoot> Open(absl::string_view bytes, const char* identifier,
                                             FlatbufferLimits limits = {}) {
    constexpr size_t kSmallest =
        sizeof(flatbuffers::uoffset_t) + flatbuffers::kFileIdentifierLength;
    if (bytes.size() < kSmallest || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes.size(), " bytes are too few or too many for a blob"));
    }
    FlatbufferRoot root;
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    if (reinterpret_cast<uintptr_t>(data) % sizeof(uint64_t) != 0) {
      root.copy_.resize(bytes.size() / sizeof(uint64_t) + 1);
      std::memcpy(root.copy_.data(), data, bytes.size());
      data = reinterpret_cast<const uint8_t*>(root.copy_.data());
    }
    if (!flatbuffers::BufferHasIdentifier(data, identifier)) {
      return absl::InvalidArgumentError(
          absl::StrCat("not a blob of kind '", identifier, "': the identifier is another"));
    }
    flatbuffers::Verifier verifier(data, bytes.size(), limits.depth, limits.tables);
    if (!verifier.VerifyBuffer<Table>(identifier)) {
      return absl::InvalidArgumentError("the blob is damaged: an offset or a size does not hold");
    }
    root.table_ = flatbuffers::GetRoot<Table>(data);
    return root;
  }

  const Table* operator->() const { return table_; }
  const Table& operator*() const { return *table_; }

 private:
  FlatbufferRoot() = default;
  std::vector<uint64_t> copy_;  // moving it does not move the bytes
  const Table* table_ = nullptr;
};

// An absent flatbuffers vector is an empty one.
template <typename Vector>
uint32_t SizeOf(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

inline absl::string_view TextOf(const flatbuffers::String* text) {
  return text == nullptr ? absl::string_view() : absl::string_view(text->c_str(), text->size());
}

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FLATBUFFER_ROOT_H_
