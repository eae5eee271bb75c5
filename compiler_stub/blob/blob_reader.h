// Reading a flatbuffer that came from outside: FlatbufferRoot opens it, BlobReader copies out of
// it.
//
//   NPUBANK_ASSIGN_OR_RETURN(FlatbufferRoot<fbs::Function> root,
//       FlatbufferRoot<fbs::Function>::Open(bytes, fbs::FunctionIdentifier()));
//   BlobReader reader(bytes.size());
//   NPUBANK_ASSIGN_OR_RETURN(std::string name, reader.ReadName(root->name()));
//
// Open bounds the size, checks the identifier, copies bytes that are not aligned as flatbuffers
// needs (reading them in place would be undefined), and runs the verifier with bounded depth and
// table count. A verified buffer can still be hostile: thousands of its tables may share one
// vector, and copying each would take a thousand times the file. So a BlobReader copies no more
// than the file has bytes. `bytes` must outlive the root. Errors: InvalidArgument. Threads: none of
// their own.
#ifndef NPUBANK_COMPILER_STUB_BLOB_BLOB_READER_H_
#define NPUBANK_COMPILER_STUB_BLOB_BLOB_READER_H_

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/shape.h"

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

class BlobReader {
 public:
  explicit BlobReader(size_t bytes) : budget_(bytes) {}

  // Checked before any message can quote it.
  absl::StatusOr<std::string> ReadName(const flatbuffers::String* text) {
    const absl::string_view name = TextOf(text);
    NPUBANK_RETURN_IF_ERROR(Spend(name.size()));
    NPUBANK_RETURN_IF_ERROR(CheckName(name));
    return std::string(name);
  }

  absl::StatusOr<TensorType> ReadType(uint8_t number, const flatbuffers::Vector<int64_t>* dims) {
    const std::optional<ElementType> element = ElementTypeFromNumber(number);
    if (!element.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("element type ", number, " is not known"));
    }
    std::vector<int64_t> sizes;
    NPUBANK_RETURN_IF_ERROR(ReadNumbers(dims, sizes));
    NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(sizes));
    return TensorType::Create(*element, std::move(shape));
  }

  absl::StatusOr<std::string> ReadBytes(const flatbuffers::Vector<uint8_t>* bytes) {
    if (bytes == nullptr) return std::string();
    NPUBANK_RETURN_IF_ERROR(Spend(bytes->size()));
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

  template <typename Number>
  absl::Status ReadNumbers(const flatbuffers::Vector<Number>* from, std::vector<Number>& to) {
    if (from == nullptr) return absl::OkStatus();
    NPUBANK_RETURN_IF_ERROR(Spend(uint64_t{from->size()} * sizeof(Number)));
    // The verifier lets a vector of eight-byte numbers begin at any multiple of four.
    to.resize(from->size());
    for (size_t i = 0; i < to.size(); ++i) {
      std::memcpy(&to[i], from->Data() + i * sizeof(Number), sizeof(Number));
      to[i] = flatbuffers::EndianScalar(to[i]);
    }
    return absl::OkStatus();
  }

  // Each table of `from` through `read`, which returns a StatusOr of what `to` holds.
  template <typename Table, typename Item, typename Read>
  absl::Status ReadAll(const flatbuffers::Vector<flatbuffers::Offset<Table>>* from,
                       absl::string_view what, uint32_t limit, Read read, std::vector<Item>& to) {
    if (SizeOf(from) > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(SizeOf(from), " ", what, "s, more than ", limit));
    }
    to.reserve(SizeOf(from));
    for (uint32_t i = 0; i < SizeOf(from); ++i) {
      absl::StatusOr<Item> item = read(*from->Get(i));
      if (!item.ok()) return Annotate(item.status(), absl::StrCat(what, " ", i));
      to.push_back(*std::move(item));
    }
    return absl::OkStatus();
  }

  absl::Status Spend(uint64_t bytes) {
    if (bytes > budget_) {
      return absl::InvalidArgumentError("parts of the blob are used more than once");
    }
    budget_ -= bytes;
    return absl::OkStatus();
  }

 private:
  uint64_t budget_;
};

// The fields of a TensorType that ReadType reads.
inline uint8_t ElementNumber(const TensorType& type) {
  return static_cast<uint8_t>(type.element());
}

inline flatbuffers::Offset<flatbuffers::Vector<int64_t>> WriteDims(
    flatbuffers::FlatBufferBuilder& builder, const TensorType& type) {
  return builder.CreateVector(type.shape().dims().data(), type.shape().dims().size());
}

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_BLOB_READER_H_
