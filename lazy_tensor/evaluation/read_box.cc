#include "npubank/lazy_tensor/evaluation/read_box.h"

#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// What one read costs beyond its bytes, in bytes that could have been copied meanwhile (measured:
// 0.7 us at 12 GB/s).
constexpr uint64_t kCallBytes = 8 << 10;

// A box can be read at several levels: at level k one read per index of the axes outside k fetches
// everything between the first and the last element inside, gaps included. Level 0 is one read,
// level `rank` one read per element.
struct Plan {
  int level = -1;     // -1: no level fits
  int64_t span = 0;   // elements per read
  int64_t pitch = 0;  // elements from one read to the next in the scratch
};

// Four-bit elements: every read must start on the same half of a byte, so that one pitch serves
// all.
bool StartsAlike(const Box& box, const AxisValues& strides, int level, int bits) {
  if (bits != 4) return true;
  for (int a = 0; a < level; ++a) {
    if (box.extent[a] != 1 && strides[a] % 2 != 0) return false;
  }
  return true;
}

// The cheapest level that needs at most `capacity` elements of scratch.
Plan CheapestLevel(const Box& box, const AxisValues& strides, int bits, int64_t capacity) {
  Plan best;
  double best_cost = 0;
  int64_t reads = box.elements();
  int64_t span = 1;
  for (int level = box.rank; level >= 0; --level) {
    if (level < box.rank) {
      reads /= box.extent[level];
      span += (box.extent[level] - 1) * strides[level];
    }
    if (span > capacity) break;
    const int64_t pitch = bits == 4 ? (span + 2) / 2 * 2 : span;  // room for a half byte in front
    if (pitch > capacity / reads || !StartsAlike(box, strides, level, bits)) continue;
    const double cost =
        static_cast<double>(reads) * static_cast<double>(BytesOf(pitch, bits) + kCallBytes);
    if (best.level < 0 || cost < best_cost) {
      best = Plan{level, span, pitch};
      best_cost = cost;
    }
  }
  return best;
}

class BoxReader {
 public:
  BoxReader(const TensorInSource& tensor, const Box& box, absl::Span<std::byte> scratch,
            const Target& target)
      : tensor_(tensor),
        box_(box),
        scratch_(scratch),
        target_(target),
        strides_(DenseStrides(tensor.shape.dims())),
        capacity_(static_cast<int64_t>(scratch.size()) * 8 / tensor.element_bits) {}

  absl::Status Read() {
    return ForEachPiece(
        box_, [this](const Box& piece) { return Fits(piece); },
        [this](const Box& piece) { return ReadPiece(piece); });
  }

 private:
  int64_t bits() const { return tensor_.element_bits; }

  bool Fits(const Box& piece) const {
    if (DirectPlace(piece) != nullptr) return true;
    if (HasLongDirectRuns(piece)) return false;
    return CheapestLevel(piece, strides_, tensor_.element_bits, capacity_).level >= 0;
  }

  // Where the piece can be read in one go, or null.
  std::byte* DirectPlace(const Box& piece) const {
    if (RunLength(piece, tensor_.shape) != piece.elements()) return nullptr;
    if (FlatStart(piece, tensor_.shape) * bits() % 8 != 0) return nullptr;
    return target_.WholeBytes(box_, piece, tensor_.element_bits);
  }

  bool HasLongDirectRuns(const Box& piece) const {
    const int64_t run = RunLength(piece, tensor_.shape);
    if (BytesOf(run, tensor_.element_bits) < 2 * kCallBytes) return false;
    Box one = piece;
    for (int a = 0; a < one.rank && one.elements() > run; ++a) one.extent[a] = 1;
    return DirectPlace(one) != nullptr;
  }

  absl::Status ReadPiece(const Box& piece) {
    const int64_t start = FlatStart(piece, tensor_.shape);
    if (std::byte* place = DirectPlace(piece)) {
      return ReadElements(start, piece.elements(), place);
    }
    const Plan plan = CheapestLevel(piece, strides_, tensor_.element_bits, capacity_);
    std::byte* out = scratch_.data();
    NPUBANK_RETURN_IF_ERROR(ReadSpans(piece, plan, 0, start, out));

    AxisValues in_strides = strides_;
    int64_t outer = plan.pitch;
    for (int a = plan.level; a-- > 0;) {
      in_strides[a] = outer;
      outer *= piece.extent[a];
    }
    CopyBox(piece, tensor_.element_bits, scratch_.data(), start * bits() % 8 / bits(), in_strides,
            target_.At(box_, piece));
    return absl::OkStatus();
  }

  // One read per index of the axes from `axis` to the plan's level, one after the other into `out`.
  absl::Status ReadSpans(const Box& piece, const Plan& plan, int axis, int64_t start,
                         std::byte*& out) {
    if (axis == plan.level) {
      NPUBANK_RETURN_IF_ERROR(ReadElements(start, plan.span, out));
      out += plan.pitch * bits() / 8;
      return absl::OkStatus();
    }
    for (int64_t i = 0; i < piece.extent[axis]; ++i) {
      NPUBANK_RETURN_IF_ERROR(ReadSpans(piece, plan, axis + 1, start + i * strides_[axis], out));
    }
    return absl::OkStatus();
  }

  // The bytes that hold the elements [start, start + count).
  absl::Status ReadElements(int64_t start, int64_t count, std::byte* out) const {
    const auto begin = static_cast<uint64_t>(start * bits() / 8);
    const uint64_t end = BytesOf(start + count, tensor_.element_bits);
    return tensor_.source.Read(tensor_.offset + begin, {out, end - begin});
  }

  const TensorInSource& tensor_;
  const Box& box_;
  const absl::Span<std::byte> scratch_;
  const Target& target_;
  const AxisValues strides_;
  const int64_t capacity_;  // of the scratch, in elements
};

}  // namespace

absl::Status ReadBox(const TensorInSource& tensor, const Box& box, absl::Span<std::byte> scratch,
                     const Target& target) {
  return BoxReader(tensor, box, scratch, target).Read();
}

}  // namespace npubank
