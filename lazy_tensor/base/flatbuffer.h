// FlatbufferRoot: a flatbuffer that came from outside, opened and verified.
//
//   NPUBANK_ASSIGN_OR_RETURN(const auto root,
//       FlatbufferRoot<fbs::Function>::Open(bytes, fbs::FunctionIdentifier(), "function blob"));
//   for (const fbs::Op* op : *root->ops()) ...
//
// Open bounds the size, asks for the identifier, copies bytes that are not aligned as flatbuffers
// needs (reading them where they lie would be undefined) and runs the verifier, whose depth and
// number of tables are bounded. After that every offset stays inside. What is still hostile:
// - every field may be absent (a null vector or text: SizeOf, TextOf), and every number is any
//   number: the reader checks each version, index, size and enumeration;
// - parts may share their bytes: copying them is paid from a ByteBudget (byte_budget.h);
// - a vector of eight-byte numbers or structs may begin at any multiple of four: copy each one out
//   with memcpy instead of reading it where it lies.
//
// Ownership: `bytes` must outlive the root, which reads them in place where it can. Threads: none
// of its own; reading is const. Cost: O(bytes), and a copy of bytes that are not aligned.
// Errors: InvalidArgument that names `what`: too few or too many bytes, another identifier, or
// damage.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FLATBUFFER_H_
#define NPUBANK_LAZY_TENSOR_BASE_FLATBUFFER_H_

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct FlatbufferLimits {
  uint64_t bytes = uint64_t{1} << 30;  // of the whole buffer; flatbuffers itself ends at 2^31
  uint32_t depth = 8;                  // of tables in tables
  uint32_t tables = uint32_t{1} << 20;
};

template <typename Table>
class FlatbufferRoot {
 public:
  // `identifier`: the schema's four letters; `what`: what it is, for messages.
  static absl::StatusOr<FlatbufferRoot> Open(absl::string_view bytes, const char* identifier,
                                             absl::string_view what, FlatbufferLimits limits = {}) {
    constexpr uint64_t kSmallest =
        sizeof(flatbuffers::uoffset_t) + flatbuffers::kFileIdentifierLength;
    const uint64_t most = std::min<uint64_t>(limits.bytes, FLATBUFFERS_MAX_BUFFER_SIZE - 1);
    if (bytes.size() < kSmallest || bytes.size() > most) {
      return absl::InvalidArgumentError(absl::StrCat("not a ", what, ": it has ", bytes.size(),
                                                     " bytes, not ", kSmallest, " to ", most));
    }
    FlatbufferRoot root;
    const uint8_t* const data = root.Aligned(bytes);
    if (!flatbuffers::BufferHasIdentifier(data, identifier)) {
      return absl::InvalidArgumentError(
          absl::StrCat("not a ", what, ": its identifier is not '", identifier, "'"));
    }
    flatbuffers::Verifier verifier(data, bytes.size(), limits.depth, limits.tables);
    if (!verifier.VerifyBuffer<Table>(identifier)) {
      return absl::InvalidArgumentError(
          absl::StrCat("corrupt ", what, ": it refers beyond its end"));
    }
    root.table_ = flatbuffers::GetRoot<Table>(data);
    return root;
  }

  const Table* operator->() const { return table_; }
  const Table& operator*() const { return *table_; }

 private:
  FlatbufferRoot() = default;

  // The bytes where numbers of eight bytes may be read.
  const uint8_t* Aligned(absl::string_view bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    if (reinterpret_cast<uintptr_t>(data) % sizeof(uint64_t) == 0) return data;
    copy_.resize(bytes.size() / sizeof(uint64_t) + 1);
    std::memcpy(copy_.data(), data, bytes.size());
    return reinterpret_cast<const uint8_t*>(copy_.data());
  }

  std::vector<uint64_t> copy_;  // moving it does not move the bytes
  const Table* table_ = nullptr;
};

// An absent vector is an empty one, an absent text too.
template <typename Vector>
uint32_t SizeOf(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

inline absl::string_view TextOf(const flatbuffers::String* text) {
  return text == nullptr ? absl::string_view() : absl::string_view(text->c_str(), text->size());
}

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FLATBUFFER_H_
