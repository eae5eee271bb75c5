// Operations whose elements come in groups or from several inputs.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/produce.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/dequantize.h"
#include "npubank/lazy_tensor/kernels/packing.h"

namespace npubank {
namespace {

// Parts of a block start on cache lines.
uint64_t Rounded(uint64_t bytes) { return AlignUp<uint64_t>(bytes, 64); }

uint64_t RoundedBytesOf(int64_t elements, int bits) { return Rounded(BytesOf(elements, bits)); }

// Calls visit(line) for each line along the last axis of a box of these extents, in order. `index`
// is that of the line's first element. Rank 0 has one line.
template <typename Visit>
void ForEachLine(const Box& box, Visit visit) {
  AxisValues index = {};
  const int64_t length = box.rank == 0 ? 1 : box.extent[box.rank - 1];
  const int64_t lines = box.elements() / length;
  for (int64_t line = 0; line < lines; ++line) {
    visit(line, index);
    for (int a = box.rank - 2; a >= 0; --a) {
      if (++index[a] < box.extent[a]) break;
      index[a] = 0;
    }
  }
}

int64_t LineLength(const Box& box) { return box.rank == 0 ? 1 : box.extent[box.rank - 1]; }

// Strides of lines that lie `pitch` elements apart.
AxisValues PitchedStrides(const Box& box, int64_t pitch) {
  AxisValues strides = {};
  int64_t stride = pitch;
  for (int a = box.rank - 1; a >= 0; --a) {
    strides[a] = a == box.rank - 1 ? 1 : stride;
    if (a != box.rank - 1) stride *= box.extent[a];
  }
  return strides;
}

// `box` with its axis in units of `unit` elements: the units that it touches.
Box InUnits(Box box, int axis, int64_t unit) {
  const int64_t begin = box.start[axis] / unit;
  const int64_t end = (box.start[axis] + box.extent[axis] + unit - 1) / unit;
  box.start[axis] = begin;
  box.extent[axis] = end - begin;
  return box;
}

}  // namespace

absl::Status Producer::ProduceOp(const SplatOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const int bits = BitWidth(recipe.type().element());
  const auto need = [&](const Box& piece) { return RoundedBytesOf(piece.elements(), bits); };
  return InPieces(
      recipe, box, target.IsDenseFor(box), need, [&](const Box& piece, std::byte* block) {
        std::byte* const direct = target.WholeBytes(box, piece, bits);
        std::byte* const out = direct != nullptr ? direct : block;
        const uint64_t bytes = BytesOf(piece.elements(), bits);
        const auto size = static_cast<uint64_t>(std::max(bits / 8, 1));
        const uint64_t pattern = bits == 4 ? op.bits * 0x11 : op.bits;
        for (uint64_t i = 0; i < bytes; i += size) {
          std::memcpy(out + i, &pattern, size);  // little-endian
        }
        if (direct == nullptr) {
          CopyBox(piece, bits, out, 0, DenseStrides(piece.extents()), target.At(box, piece));
        }
        return absl::OkStatus();
      });
}

// Rows move as what they are in their table: those that follow each other there together.
absl::Status Producer::ProduceRows(const Recipe& recipe, const Box& box, const Target& target) {
  const Recipe& indices = *recipe.inputs()[0];
  const Recipe& table = *recipe.inputs()[1];
  const int64_t rows = table.type().shape().dim(0);
  const auto need = [](const Box& piece) { return RoundedBytesOf(piece.extent[0], 32); };
  const auto fill = [&](const Box& piece, std::byte* block) -> absl::Status {
    const Box which = {1, {piece.start[0]}, {piece.extent[0]}};
    NPUBANK_ASSIGN_OR_RETURN(const std::byte* const numbers, Dense(indices, which, block));
    const auto row_of = [&](int64_t i) {
      int32_t row = 0;
      std::memcpy(&row, numbers + 4 * i, sizeof(row));
      return int64_t{row};
    };
    Target place = target.At(box, piece);
    for (int64_t i = 0, next = 0; i < piece.extent[0]; i = next) {
      const int64_t row = row_of(i);
      for (next = i + 1; next < piece.extent[0] && row_of(next) == row + next - i;) ++next;
      if (row < 0 || row + next - i > rows) {
        const int64_t missing = row < 0 ? row : std::max(row, rows);
        return absl::InvalidArgumentError(absl::StrCat("gather of rows of ", table.type().ToString(), ": number ",
                                                       piece.start[0] + i + missing - row, " asks for row ", missing));
      }
      Box part = piece;
      part.start[0] = row;
      part.extent[0] = next - i;
      NPUBANK_RETURN_IF_ERROR(Produce(table, part, place));
      place.offset += (next - i) * place.stride[0];
    }
    return absl::OkStatus();
  };
  return InPieces(recipe, box, target.IsDenseFor(box), need, fill);
}

absl::Status Producer::ProduceOp(const GatherOp&, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const Recipe& indices = *recipe.inputs()[0];
  const Recipe& table = *recipe.inputs()[1];
  if (indices.type().element() == ElementType::kI32) return ProduceRows(recipe, box, target);
  const int index_bits = BitWidth(indices.type().element());
  const int bits = BitWidth(recipe.type().element());
  const uint64_t table_bytes = Rounded(table.type().bytes());
  const auto need = [&](const Box& piece) {
    return table_bytes + RoundedBytesOf(piece.elements(), index_bits) + RoundedBytesOf(piece.elements(), bits);
  };
  const std::byte* entries = nullptr;
  const auto fill = [&](const Box& piece, std::byte* block) -> absl::Status {
    if (entries == nullptr) {
      NPUBANK_ASSIGN_OR_RETURN(entries, Dense(table, Box::Whole(table.type().shape()), block));
    }
    const int64_t count = piece.elements();
    std::byte* const room = block + table_bytes;
    NPUBANK_ASSIGN_OR_RETURN(const std::byte* index, Dense(indices, piece, room));
    std::byte* out = target.WholeBytes(box, piece, bits);
    const bool direct = out != nullptr;
    if (!direct) out = room + RoundedBytesOf(count, index_bits);
    const int64_t size = bits / 8;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t entry = index_bits == 4 ? static_cast<int>(index[i / 2] >> (i % 2 * 4)) & 15
                                            : static_cast<int>(index[i]);
      std::memcpy(out + i * size, entries + entry * size, static_cast<size_t>(size));
    }
    if (!direct) {
      CopyBox(piece, bits, out, 0, DenseStrides(piece.extents()), target.At(box, piece));
    }
    return absl::OkStatus();
  };
  return InPieces(recipe, box, target.IsDenseFor(box), need, fill);
}

absl::Status Producer::Widen(const Recipe& recipe, const Box& part, std::byte* stored,
                             float* wide) {
  NPUBANK_ASSIGN_OR_RETURN(const std::byte* in, Dense(recipe, part, stored));
  kernels::Convert(recipe.type().element(), in, ElementType::kF32, wide,
                   static_cast<size_t>(part.elements()));
  return absl::OkStatus();
}

namespace {

// Which scales a piece of the weights needs.
class ScaleMap {
 public:
  ScaleMap(const Shape& weights, const Shape& scales) : scales_(scales) {
    for (int a = 0; a < weights.rank(); ++a) {
      group_[a] = scales.num_elements() == 1 ? std::max<int64_t>(weights.dim(a), 1)
                                             : weights.dim(a) / std::max<int64_t>(scales.dim(a), 1);
    }
  }

  // The part of the scales' tensor. A single scale may have any rank.
  Box PartFor(const Box& piece) const {
    if (scales_.num_elements() == 1) return Box::Whole(scales_);
    Box part = piece;
    for (int a = 0; a < piece.rank; ++a) part = InUnits(part, a, group_[a]);
    return part;
  }

  // The position in that part of the scale of the first element of a line of the piece.
  int64_t PositionOf(const Box& piece, const AxisValues& index, const Box& part) const {
    if (scales_.num_elements() == 1) return 0;
    int64_t position = 0;
    for (int a = 0; a < piece.rank; ++a) {
      const int64_t scale = (piece.start[a] + index[a]) / group_[a] - part.start[a];
      position = position * part.extent[a] + scale;
    }
    return position;
  }

  // Along the last axis.
  int64_t group(int rank) const { return rank == 0 ? 1 : group_[rank - 1]; }

 private:
  const Shape& scales_;
  AxisValues group_ = {};
};

// From the start of one line of weights to that of the next; four-bit ones must start on a byte.
int64_t PitchOf(const Box& piece, ElementType weights) {
  const int64_t length = LineLength(piece);
  return BitWidth(weights) == 4 ? (length + 1) / 2 * 2 : length;
}

// Where the parts of Unpack's block begin, for a piece with this many scales.
struct UnpackRoom {
  UnpackRoom(const Box& piece, int64_t scale_count, ElementType from, ElementType to) {
    const int64_t lines = piece.elements() / LineLength(piece);
    stored = weights + RoundedBytesOf(lines * PitchOf(piece, from), BitWidth(from));
    scales = stored + RoundedBytesOf(scale_count, 64);  // the widest type a zero point may have
    zeros = scales + RoundedBytesOf(scale_count, 32);
    out = zeros + RoundedBytesOf(scale_count, 32);
    bytes = out + RoundedBytesOf(piece.elements(), BitWidth(to));
  }
  uint64_t weights = 0;
  uint64_t stored;
  uint64_t scales;
  uint64_t zeros;
  uint64_t out;
  uint64_t bytes;
};

// Every line of a piece. `run` holds the first of the scales and zero points of `part`.
void DequantizeLines(const Box& piece, const ScaleMap& map, const Box& part,
                     const kernels::QuantizedRun& run, ElementType to, std::byte* out) {
  const auto* const weights = static_cast<const std::byte*>(run.weights);
  const int64_t length = LineLength(piece);
  const uint64_t in_bytes = BytesOf(PitchOf(piece, run.type), BitWidth(run.type));
  const int64_t start = piece.rank == 0 ? 0 : piece.start[piece.rank - 1];
  ForEachLine(piece, [&](int64_t line, const AxisValues& index) {
    const int64_t position = map.PositionOf(piece, index, part);
    kernels::QuantizedRun one = run;
    one.weights = weights + static_cast<uint64_t>(line) * in_bytes;
    one.scales = run.scales + position;
    one.zeros = run.zeros != nullptr ? run.zeros + position : nullptr;
    one.group = static_cast<size_t>(map.group(piece.rank));
    one.first = static_cast<size_t>(start) % one.group;
    kernels::Dequantize(one, to, out + line * length * BitWidth(to) / 8,
                        static_cast<size_t>(length));
  });
}

}  // namespace

absl::Status Producer::ProduceOp(const UnpackOp&, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const Recipe& weights = *recipe.inputs()[0];
  const Recipe& scale = *recipe.inputs()[1];
  const Recipe* zero = recipe.inputs().size() > 2 ? recipe.inputs()[2].get() : nullptr;
  const ElementType type = weights.type().element();
  const ElementType to = recipe.type().element();
  const int bits = BitWidth(to);
  const ScaleMap map(weights.type().shape(), scale.type().shape());
  const bool one_zero = zero != nullptr && zero->type().num_elements() == 1;

  const auto need = [&](const Box& piece) {
    return UnpackRoom(piece, map.PartFor(piece).elements(), type, to).bytes;
  };
  const auto fill = [&](const Box& piece, std::byte* block) -> absl::Status {
    const Box part = map.PartFor(piece);
    const UnpackRoom room(piece, part.elements(), type, to);
    auto* const scales = reinterpret_cast<float*>(block + room.scales);
    auto* const zeros = reinterpret_cast<float*>(block + room.zeros);
    NPUBANK_RETURN_IF_ERROR(Widen(scale, part, block + room.stored, scales));
    if (zero != nullptr) {
      const Box zero_part = one_zero ? Box::Whole(zero->type().shape()) : part;
      NPUBANK_RETURN_IF_ERROR(Widen(*zero, zero_part, block + room.stored, zeros));
      if (one_zero) std::fill_n(zeros, part.elements(), zeros[0]);
    }
    // Lines without padding are one run, often where they already lie.
    const int64_t pitch = PitchOf(piece, type);
    const std::byte* in = block + room.weights;
    if (pitch == LineLength(piece)) {
      NPUBANK_ASSIGN_OR_RETURN(in, Dense(weights, piece, block + room.weights));
    } else {
      NPUBANK_RETURN_IF_ERROR(
          Produce(weights, piece, Target{block + room.weights, 0, PitchedStrides(piece, pitch)}));
    }
    std::byte* out = target.WholeBytes(box, piece, bits);
    const bool direct = out != nullptr;
    if (!direct) out = block + room.out;
    kernels::QuantizedRun run;
    run.type = type;
    run.weights = in;
    run.scales = scales;
    run.zeros = zero != nullptr ? zeros : nullptr;
    run.stream = direct && target.stream;
    DequantizeLines(piece, map, part, run, to, out);
    if (!direct) {
      CopyBox(piece, bits, out, 0, DenseStrides(piece.extents()), target.At(box, piece));
    }
    return absl::OkStatus();
  };
  return InPieces(recipe, box, target.IsDenseFor(box), need, fill);
}

absl::Status Producer::ProduceOp(const UnpackNibblesOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const Recipe& words = *recipe.inputs()[0];
  const bool rows = HoldsRows(op.layout);
  const int axis = rows ? 0 : box.rank - 1;
  const int64_t per_word = NumbersInWord(op.layout);
  const int bits = BitWidth(recipe.type().element());
  // Of the output in the block: lines start on a byte, and where columns are packed on a word.
  const auto pitch_of = [&](const Box& piece, const Box& part) {
    return rows ? (LineLength(piece) + 1) / 2 * 2 : LineLength(part) * per_word;
  };
  const auto need = [&](const Box& piece) {
    const Box part = InUnits(piece, axis, per_word);
    const int64_t lines = piece.elements() / LineLength(piece);
    return RoundedBytesOf(part.elements(), 32) + RoundedBytesOf(lines * pitch_of(piece, part), bits);
  };
  const auto fill = [&](const Box& piece, std::byte* block) -> absl::Status {
    const Box part = InUnits(piece, axis, per_word);
    NPUBANK_ASSIGN_OR_RETURN(const std::byte* in, Dense(words, part, block));
    std::byte* const out = block + RoundedBytesOf(part.elements(), 32);
    const auto count = static_cast<size_t>(part.elements());
    const int64_t pitch = pitch_of(piece, part);
    const int64_t skipped =
        piece.start[axis] % per_word;  // numbers of the first word in front of the piece
    switch (op.layout) {
      case NibbleLayout::kRows:
      case NibbleLayout::kByteRows: {
        const auto unpack = per_word == 8 ? kernels::GptqRows : kernels::GptqByteRows;
        const int64_t columns = piece.extent[1];
        const int64_t pitch_bytes = pitch * bits / 8;
        std::byte* row = out;
        for (int64_t word = 0; word < part.extent[0]; ++word) {
          const int64_t first = word == 0 ? skipped : 0;
          const int64_t end = std::min(per_word, skipped + piece.extent[0] - word * per_word);
          unpack(in + word * columns * 4, static_cast<size_t>(columns), static_cast<size_t>(first),
                 static_cast<size_t>(end - first), row, static_cast<size_t>(pitch_bytes));
          row += (end - first) * pitch_bytes;
        }
        break;
      }
      case NibbleLayout::kBytesPlusOne:
        kernels::GptqByteZeros(in, count, out);
        break;
      case NibbleLayout::kColumns:
      case NibbleLayout::kBytes:
        std::memcpy(out, in, 4 * count);
        break;
      case NibbleLayout::kColumnsPlusOne:
        kernels::GptqZeros(in, count, out);
        break;
      case NibbleLayout::kColumnsAwq:
        kernels::AwqToU4(in, count, out);
        break;
    }
    CopyBox(piece, bits, out, rows ? 0 : skipped, PitchedStrides(piece, pitch), target.At(box, piece));
    return absl::OkStatus();
  };
  return InPieces(recipe, box, target.IsDenseFor(box), need, fill);
}

absl::Status Producer::ProduceBlocks(const Recipe& recipe, const Box& box, const Target& target,
                                     int64_t length, uint64_t block_bytes, DecodeBlocks decode) {
  const Recipe& bytes = *recipe.inputs()[0];
  const int bits = BitWidth(recipe.type().element());
  const int axis = box.rank - 1;
  const auto need = [&](const Box& piece) {
    const int64_t blocks = InUnits(piece, axis, length).elements();
    return Rounded(static_cast<uint64_t>(blocks) * block_bytes) + RoundedBytesOf(blocks * length, bits);
  };
  const auto fill = [&](const Box& piece, std::byte* block) -> absl::Status {
    const Box part = InUnits(piece, axis, length);
    const auto blocks = static_cast<uint64_t>(part.elements());
    Box stored = part;  // elements of one byte
    stored.start[axis] *= static_cast<int64_t>(block_bytes);
    stored.extent[axis] *= static_cast<int64_t>(block_bytes);
    NPUBANK_ASSIGN_OR_RETURN(const std::byte* in, Dense(bytes, stored, block));
    const bool whole = piece.start[axis] % length == 0 && piece.extent[axis] % length == 0;
    std::byte* out = whole ? target.WholeBytes(box, piece, bits) : nullptr;
    const bool direct = out != nullptr;
    if (!direct) out = block + Rounded(blocks * block_bytes);
    decode(in, out, blocks, direct && target.stream);
    if (!direct) {
      CopyBox(piece, bits, out, piece.start[axis] % length,
              PitchedStrides(piece, part.extent[axis] * length), target.At(box, piece));
    }
    return absl::OkStatus();
  };
  return InPieces(recipe, box, target.IsDenseFor(box), need, fill);
}

absl::Status Producer::ProduceOp(const DequantizeBlocksOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const ElementType to = recipe.type().element();
  return ProduceBlocks(recipe, box, target, static_cast<int64_t>(kernels::BlockLength(op.format)),
                       kernels::BlockBytes(op.format),
                       [&](const std::byte* in, std::byte* out, size_t blocks, bool stream) {
                         kernels::DequantizeBlocks(op.format, in, to, out, blocks, stream);
                       });
}

absl::Status Producer::ProduceOp(const CopyBlockPlaneOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const auto shape = kernels::ShapeOf(op.format, op.plane);
  return ProduceBlocks(recipe, box, target, static_cast<int64_t>(shape->count),
                       kernels::BlockBytes(op.format),
                       [&](const std::byte* in, std::byte* out, size_t blocks, bool) {
                         kernels::CopyBlockPlane(op.format, op.plane, in, out, blocks);
                       });
}

}  // namespace npubank
