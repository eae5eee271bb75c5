// BlobReader: copies names, types and numbers out of a blob that FlatbufferRoot has opened.
//
//   BlobReader reader(bytes.size());
//   NPUBANK_ASSIGN_OR_RETURN(std::string name, reader.ReadName(root->name()));
//
// It copies no more than the blob has bytes, whatever its parts share (byte_budget.h).
// Errors: InvalidArgument. Threads: one.
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
#include "npubank/lazy_tensor/base/byte_budget.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

class BlobReader {
 public:
  explicit BlobReader(size_t bytes)
      : budget_(bytes, "parts: some of them are used more than once") {}

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

  absl::Status Spend(uint64_t bytes) { return budget_.Spend(bytes); }

 private:
  ByteBudget budget_;
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
