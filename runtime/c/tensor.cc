#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/open_index.h"
#include "npubank/lazy_tensor/recipe/recipe_op.h"
#include "npubank/runtime/c/handles.h"

namespace npubank::c {
namespace {

absl::Status NoSuch(const char* what, uint64_t number) {
  return absl::InvalidArgumentError(absl::StrCat("no ", what, " has the number ", number));
}

absl::StatusOr<ElementType> ElementOf(uint32_t number) {
  if (const auto element = ElementTypeFromNumber(number)) return *element;
  return NoSuch("element type", number);
}

absl::StatusOr<kernels::BlockFormat> FormatOf(uint32_t number) {
  if (const auto format = kernels::BlockFormatFromNumber(number)) return *format;
  return NoSuch("block format", number);
}

// As many numbers lie at the caller's pointer, to be read and, in a message, told.
absl::Status CheckRank(size_t rank) {
  if (rank <= NPUBANK_MAX_RANK) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a rank of ", rank, ": at most ", NPUBANK_MAX_RANK));
}

// Runs `make`, a call that gives a LazyTensor, where all arguments are there.
template <typename Make>
npubank_error* MakeTensor(std::initializer_list<Argument> arguments, npubank_tensor** out,
                          Make make) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs(arguments));
    NPUBANK_RETURN_IF_ERROR(Needs({{out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor tensor, make());
    *out = new npubank_tensor{std::move(tensor)};
    return absl::OkStatus();
  });
}
using Made = absl::StatusOr<LazyTensor>;

absl::Status Tell(const SourceIndex& index, const StoredTensor& tensor, npubank_stored* out) {
  npubank_stored told = {};
  told.name = tensor.name.c_str();
  told.file = index.file(tensor.file).name.c_str();
  told.offset = tensor.offset;
  told.type = TypeOf(tensor.type);
  told.block_format = tensor.blocks ? static_cast<uint32_t>(*tensor.blocks) : 0;
  return Write(told, out, "npubank_stored");
}

}  // namespace

npubank_type TypeOf(const TensorType& type) {
  npubank_type told = {};
  told.element = static_cast<uint32_t>(type.element());
  told.rank = static_cast<uint32_t>(type.shape().rank());
  for (uint32_t axis = 0; axis < told.rank; ++axis) told.dims[axis] = type.shape().dim(axis);
  told.bytes = type.bytes();
  return told;
}

absl::StatusOr<TensorType> TypeOf(const npubank_type& type) {
  NPUBANK_ASSIGN_OR_RETURN(const ElementType element, ElementOf(type.element));
  if (type.rank > NPUBANK_MAX_RANK) {
    return absl::InvalidArgumentError(
        absl::StrCat("a type of rank ", type.rank, ": at most ", NPUBANK_MAX_RANK));
  }
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create({type.dims, type.rank}));
  return TensorType::Create(element, std::move(shape));
}

}  // namespace npubank::c

using namespace npubank;
using namespace npubank::c;

npubank_error* npubank_index_open(const char* path, npubank_index** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{path, "path"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(OpenedIndex opened, OpenIndex(path));
    *out = new npubank_index{std::move(opened.index)};
    return absl::OkStatus();
  });
}

void npubank_index_free(npubank_index* index) { delete index; }

size_t npubank_index_count(const npubank_index* index) {
  return index == nullptr ? 0 : index->index->tensors().size();
}

npubank_error* npubank_index_get(const npubank_index* index, size_t number, npubank_stored* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{index, "index"}, {out, "out"}}));
    const auto& tensors = index->index->tensors();
    if (number >= tensors.size()) {
      return absl::OutOfRangeError(absl::StrCat("tensor ", number, " of '", index->index->listing(),
                                                "', which has ", tensors.size()));
    }
    return Tell(*index->index, tensors[number], out);
  });
}

npubank_error* npubank_index_find(const npubank_index* index, const char* name,
                                  npubank_stored* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{index, "index"}, {name, "name"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const StoredTensor* tensor, index->index->Get(name));
    return Tell(*index->index, *tensor, out);
  });
}

npubank_error* npubank_tensor_stored(const npubank_index* index, const char* name,
                                     npubank_tensor** out) {
  return MakeTensor({{index, "index"}, {name, "name"}}, out,
                    [&] { return LazyTensor::Stored(*index->index, name); });
}

npubank_error* npubank_tensor_from_bytes(const npubank_type* type, const void* bytes, size_t size,
                                         const char* name, npubank_tensor** out) {
  return MakeTensor({{type, "type"}, {name, "name"}}, out, [&]() -> Made {
    if (size > 0) NPUBANK_RETURN_IF_ERROR(Needs({{bytes, "bytes"}}));
    NPUBANK_ASSIGN_OR_RETURN(const TensorType made, TypeOf(*type));
    if (made.bytes() != size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "': ", size, " bytes for ", made.ToString(), ", which has ", made.bytes()));
    }
    const auto* const begin = static_cast<const std::byte*>(bytes);
    return LazyTensor::Constant(Source::FromBuffer({begin, begin + size}, name), 0, made, name);
  });
}

npubank_error* npubank_tensor_splat(const npubank_type* type, uint64_t bits, npubank_tensor** out) {
  return MakeTensor({{type, "type"}}, out, [&]() -> Made {
    NPUBANK_ASSIGN_OR_RETURN(const TensorType made, TypeOf(*type));
    return LazyTensor::Splat(made, bits);
  });
}

npubank_error* npubank_tensor_concat(const npubank_tensor* const* inputs, size_t count, int axis,
                                     npubank_tensor** out) {
  return MakeTensor({{inputs, "inputs"}}, out, [&]() -> Made {
    std::vector<LazyTensor> tensors;
    for (size_t i = 0; i < count; ++i) {
      NPUBANK_RETURN_IF_ERROR(Needs({{inputs[i], "inputs[i]"}}));
      tensors.push_back(inputs[i]->tensor);
    }
    return LazyTensor::Concat(tensors, axis);
  });
}

npubank_error* npubank_tensor_slice(const npubank_tensor* tensor, const int64_t* start,
                                    const int64_t* size, size_t rank, npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}, {start, "start"}, {size, "size"}}, out, [&]() -> Made {
    NPUBANK_RETURN_IF_ERROR(CheckRank(rank));
    return tensor->tensor.Slice({start, rank}, {size, rank});
  });
}

npubank_error* npubank_tensor_reshape(const npubank_tensor* tensor, const int64_t* dims,
                                      size_t rank, npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}, {dims, "dims"}}, out, [&]() -> Made {
    NPUBANK_RETURN_IF_ERROR(CheckRank(rank));
    return tensor->tensor.Reshape({dims, rank});
  });
}

npubank_error* npubank_tensor_permute(const npubank_tensor* tensor, const int* order, size_t rank,
                                      npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}, {order, "order"}}, out, [&]() -> Made {
    NPUBANK_RETURN_IF_ERROR(CheckRank(rank));
    return tensor->tensor.Permute({order, rank});
  });
}

npubank_error* npubank_tensor_convert(const npubank_tensor* tensor, uint32_t to,
                                      npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}}, out, [&]() -> Made {
    NPUBANK_ASSIGN_OR_RETURN(const ElementType element, ElementOf(to));
    return tensor->tensor.Convert(element);
  });
}

npubank_error* npubank_tensor_unpack(const npubank_tensor* tensor, const npubank_tensor* scale,
                                     const npubank_tensor* zero, uint32_t to,
                                     npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}, {scale, "scale"}}, out, [&]() -> Made {
    NPUBANK_ASSIGN_OR_RETURN(const ElementType element, ElementOf(to));
    return tensor->tensor.Unpack(scale->tensor, zero == nullptr ? nullptr : &zero->tensor, element);
  });
}

npubank_error* npubank_tensor_gather(const npubank_tensor* tensor, const npubank_tensor* table,
                                     npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}, {table, "table"}}, out,
                    [&] { return tensor->tensor.Gather(table->tensor); });
}

npubank_error* npubank_tensor_shift(const npubank_tensor* tensor, npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}}, out, [&] { return tensor->tensor.Shift(); });
}

npubank_error* npubank_tensor_unpack_nibbles(const npubank_tensor* tensor, uint32_t layout,
                                             npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}}, out, [&]() -> Made {
    if (layout < 1 || layout > static_cast<uint32_t>(NibbleLayout::kByteRows)) return NoSuch("layout of nibbles", layout);
    return tensor->tensor.UnpackNibbles(static_cast<NibbleLayout>(layout));
  });
}

npubank_error* npubank_tensor_dequantize_blocks(const npubank_tensor* tensor, uint32_t format,
                                                uint32_t to, npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}}, out, [&]() -> Made {
    NPUBANK_ASSIGN_OR_RETURN(const kernels::BlockFormat blocks, FormatOf(format));
    NPUBANK_ASSIGN_OR_RETURN(const ElementType element, ElementOf(to));
    return tensor->tensor.DequantizeBlocks(blocks, element);
  });
}

npubank_error* npubank_tensor_copy_block_plane(const npubank_tensor* tensor, uint32_t format,
                                               uint32_t plane, npubank_tensor** out) {
  return MakeTensor({{tensor, "tensor"}}, out, [&]() -> Made {
    NPUBANK_ASSIGN_OR_RETURN(const kernels::BlockFormat blocks, FormatOf(format));
    if (plane > 2) return NoSuch("plane of blocks", plane);
    return tensor->tensor.CopyBlockPlane(blocks, static_cast<kernels::BlockPlane>(plane));
  });
}

npubank_error* npubank_tensor_type(const npubank_tensor* tensor, npubank_type* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{tensor, "tensor"}, {out, "out"}}));
    *out = TypeOf(tensor->tensor.type());
    return absl::OkStatus();
  });
}

uint64_t npubank_tensor_uid(const npubank_tensor* tensor) {
  return tensor == nullptr ? 0 : tensor->tensor.uid().value;
}

npubank_error* npubank_tensor_digest(const npubank_tensor* tensor, uint64_t out[2]) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{tensor, "tensor"}, {out, "out"}}));
    out[0] = tensor->tensor.digest().high;
    out[1] = tensor->tensor.digest().low;
    return absl::OkStatus();
  });
}

int npubank_tensor_detached(const npubank_tensor* tensor) {
  return tensor != nullptr && tensor->tensor.detached() ? 1 : 0;
}

void npubank_tensor_detach(npubank_tensor* tensor) {
  if (tensor != nullptr) tensor->tensor.Detach();
}

npubank_error* npubank_tensor_evaluate(const npubank_tensor* tensor, void* out, size_t size) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{tensor, "tensor"}, {out, "out"}}));
    return tensor->tensor.EvaluateInto({static_cast<std::byte*>(out), size});
  });
}

void npubank_tensor_free(npubank_tensor* tensor) { delete tensor; }
