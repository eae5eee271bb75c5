#include "npubank/lazy_tensor/evaluation/evaluate.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/box.h"
#include "npubank/lazy_tensor/evaluation/produce.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxTileBytes = 512 << 10;
constexpr uint64_t kMinTileBytes = 64 << 10;
constexpr uint64_t kTilesPerWorker = 4;   // so that workers finish together
constexpr uint64_t kMaxTiles = 64 << 10;  // bounds the list of tiles for any tensor
constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kMinRunBytes = 256;  // tiles keep runs this long in the output
constexpr uint64_t kSmallBytes = 64 << 10;
constexpr uint64_t kStreamedBytes = 1 << 20;  // outputs from here on are written past the cache

// For each axis of the output, how far apart in the source its neighbours lie, roughly: a guide for
// cutting tiles that read long runs, never for addressing.
AxisValues SourceStrides(const Recipe& recipe) {
  const AxisValues own = DenseStrides(recipe.type().shape().dims());
  if (recipe.inputs().empty()) return own;
  const Recipe& input = *recipe.inputs()[0];
  const AxisValues inner = SourceStrides(input);
  if (const auto* permute = std::get_if<PermuteOp>(&recipe.op())) {
    AxisValues strides = {};
    for (size_t a = 0; a < permute->order.size(); ++a) strides[a] = inner[permute->order[a]];
    return strides;
  }
  if (!std::holds_alternative<ReshapeOp>(recipe.op())) return inner;
  // An axis of a reshape moves along the input axis whose dense stride is just below its own.
  const Shape& from = input.type().shape();
  const AxisValues dense = DenseStrides(from.dims());
  AxisValues strides = own;
  for (int a = 0; a < recipe.type().shape().rank(); ++a) {
    for (int b = 0; b < from.rank(); ++b) {
      if (dense[b] == 0 || dense[b] > own[a]) continue;
      // A guess over several reshapes may grow beyond any tensor.
      const double stride = static_cast<double>(own[a] / dense[b]) * static_cast<double>(inner[b]);
      strides[a] = static_cast<int64_t>(std::min(stride, 4e18));
      break;
    }
  }
  return strides;
}

// Cuts boxes of the output into tiles.
class TileCutter {
 public:
  TileCutter(const Recipe& recipe, uint64_t tile_bytes)
      : bits_(BitWidth(recipe.type().element())),
        tile_elements_(std::max<int64_t>(static_cast<int64_t>(tile_bytes) * 8 / bits_, 2)),
        min_run_(static_cast<int64_t>(kMinRunBytes) * 8 / bits_),
        line_(static_cast<int64_t>(kLineBytes) * 8 / bits_),
        source_strides_(SourceStrides(recipe)) {}

  void Cut(const Box& box) {
    const int axis = box.elements() <= tile_elements_ ? -1 : AxisToCut(box);
    if (axis < 0) {
      tiles_.push_back(box);
      return;
    }
    Box half = box;
    half.extent[axis] = box.extent[axis] / 2;
    // Rows are cut between cache lines, counted from the box: only whole lines pass the cache by, and
    // four-bit elements must not share a byte.
    if (axis == box.rank - 1) half.extent[axis] = AlignUp(half.extent[axis], line_);
    Cut(half);
    half.start[axis] += half.extent[axis];
    half.extent[axis] = box.extent[axis] - half.extent[axis];
    Cut(half);
  }

  std::vector<Box> TakeTiles() { return std::move(tiles_); }

 private:
  // The axis that is furthest apart in the source, rows of the output staying long while possible.
  int AxisToCut(const Box& box) const {
    int best = -1;
    for (int a = 0; a < box.rank; ++a) {
      if (box.extent[a] < (a == box.rank - 1 ? 2 * min_run_ : 2)) continue;
      if (best < 0 || source_strides_[a] > source_strides_[best]) best = a;
    }
    return best;
  }

  const int bits_;
  const int64_t tile_elements_;
  const int64_t min_run_;
  const int64_t line_;  // elements of a cache line
  const AxisValues source_strides_;
  std::vector<Box> tiles_;
};

// Scratch blocks, one per thread that is evaluating right now.
class ScratchPool {
 public:
  explicit ScratchPool(uint64_t bytes) : bytes_(bytes) {}

  // Calls body with a block that no other thread has.
  absl::Status With(absl::FunctionRef<absl::Status(absl::Span<std::byte>)> body) {
    std::unique_ptr<std::byte[]> block = Take();
    absl::Status status = body({block.get(), bytes_});
    MutexLock lock(mutex_);
    free_.push_back(std::move(block));
    return status;
  }

 private:
  std::unique_ptr<std::byte[]> Take() {
    {
      MutexLock lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<std::byte[]> block = std::move(free_.back());
        free_.pop_back();
        return block;
      }
    }
    return std::unique_ptr<std::byte[]>(new std::byte[bytes_]);  // pages come as they are used
  }

  const uint64_t bytes_;
  Mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> free_ ABSL_GUARDED_BY(mutex_);
};

// One evaluation of the elements [begin, end) into `out`.
class RangeEvaluation {
 public:
  RangeEvaluation(const Recipe& recipe, int64_t begin, int64_t end, absl::Span<std::byte> out,
             const EvaluateOptions& options)
      : recipe_(recipe),
        begin_(begin),
        end_(end),
        out_(out),
        options_(options),
        scratch_(ScratchBytes()) {}

  absl::Status Run() {
    const Shape& shape = recipe_.type().shape();
    const bool nibbles = BitWidth(recipe_.type().element()) == 4;
    if (nibbles && (shape.rank() == 0 || shape.dim(shape.rank() - 1) % 2 != 0)) {
      const auto step = static_cast<int64_t>(TileBytes()) * 2;
      return ForEach((end_ - begin_ + step - 1) / step, [&](int64_t index, Producer& producer) {
        const int64_t from = begin_ + index * step;
        return NibbleRange(from, std::min(from + step, end_), producer);
      });
    }
    TileCutter cutter(recipe_, TileBytes());
    NPUBANK_RETURN_IF_ERROR(ForEachBox(shape, begin_, end_, [&](const Box& box, int64_t) {
      cutter.Cut(box);
      return absl::OkStatus();
    }));
    const std::vector<Box> tiles = cutter.TakeTiles();
    return ForEach(static_cast<int64_t>(tiles.size()), [&](int64_t index, Producer& producer) {
      return nibbles ? NibbleTile(tiles[index], producer) : Tile(tiles[index], producer);
    });
  }

 private:
  using Body = absl::FunctionRef<absl::Status(int64_t, Producer&)>;

  uint64_t TileBytes() const {
    const uint64_t bytes = out_.size();
    const auto workers =
        static_cast<uint64_t>(options_.workers == nullptr ? 1 : std::max(options_.workers->count(), 1));
    const uint64_t even = bytes / (workers * kTilesPerWorker) / 64 * 64;
    // Nibble tiles are staged in scratch, so they follow its size.
    const uint64_t staged =
        ScratchBytes() / (static_cast<uint64_t>(recipe_.depth()) + 1) / 64 * 64;
    const uint64_t tile =
        std::max(std::clamp(even, kMinTileBytes, kMaxTileBytes), bytes / kMaxTiles);
    return BitWidth(recipe_.type().element()) == 4 ? std::min(tile, staged) : tile;
  }

  // A small result needs no more than the least: a fresh block is not free.
  uint64_t ScratchBytes() const {
    if (out_.size() < kSmallBytes) return Producer::kMinScratchBytes;
    return std::max(options_.scratch_bytes, Producer::kMinScratchBytes);
  }

  absl::Status ForEach(int64_t pieces, Body body) {
    const auto piece = [&](int64_t index) -> absl::Status {
      if (options_.cancelled && options_.cancelled()) {
        return absl::CancelledError("the evaluation was cancelled");
      }
      return scratch_.With([&](absl::Span<std::byte> scratch) -> absl::Status {
        Producer producer(scratch, options_.f16_must_hold);
        NPUBANK_RETURN_IF_ERROR(body(index, producer));
        return producer.CheckSources();
      });
    };
    return npubank::ForEach(options_.workers, pieces, piece);
  }

  // Straight into the output.
  absl::Status Tile(const Box& tile, Producer& producer) {
    const Shape& shape = recipe_.type().shape();
    return producer.Produce(recipe_, tile,
                            Target{out_.data(), FlatStart(tile, shape) - begin_,
                                   DenseStrides(shape.dims()), out_.size() >= kStreamedBytes});
  }

  // Four-bit elements are put together in scratch, since neighbours in a byte are written one after
  // the other, and the output is only ever written, in whole bytes. Here the rows are whole
  // bytes...
  absl::Status NibbleTile(const Box& tile, Producer& producer) {
    const Shape& shape = recipe_.type().shape();
    return producer.WithBlock(BytesOf(tile.elements(), 4), [&](std::byte* block) -> absl::Status {
      NPUBANK_RETURN_IF_ERROR(
          producer.Produce(recipe_, tile, Target{block, 0, DenseStrides(tile.extents())}));
      Box bytes = tile;
      bytes.extent[tile.rank - 1] /= 2;
      Target target{out_.data(), (FlatStart(tile, shape) - begin_) / 2, DenseStrides(shape.dims())};
      for (int a = 0; a + 1 < tile.rank; ++a) target.stride[a] /= 2;
      CopyBox(bytes, 8, block, 0, DenseStrides(bytes.extents()), target);
      return absl::OkStatus();
    });
  }

  // ... and here they are not, so that only flat ranges start and end on a byte.
  absl::Status NibbleRange(int64_t from, int64_t to, Producer& producer) {
    const uint64_t bytes = BytesOf(to - from, 4);
    return producer.WithBlock(bytes, [&](std::byte* block) -> absl::Status {
      block[bytes - 1] = std::byte{0};  // the half byte after the last element of the tensor
      const Shape& shape = recipe_.type().shape();
      const AxisValues strides = DenseStrides(shape.dims());
      NPUBANK_RETURN_IF_ERROR(ForEachBox(shape, from, to, [&](const Box& box, int64_t first) {
        return producer.Produce(recipe_, box, Target{block, first, strides});
      }));
      std::memcpy(out_.data() + (from - begin_) / 2, block, bytes);
      return absl::OkStatus();
    });
  }

  const Recipe& recipe_;
  const int64_t begin_;
  const int64_t end_;
  const absl::Span<std::byte> out_;
  const EvaluateOptions& options_;
  ScratchPool scratch_;
};

// What the evaluation has read in place.
void ReleasePages(const Recipe& recipe) {
  recipe.ForEachConstant([](const Recipe& constant, const ConstantOp& op) {
    op.hold->source().Release(op.offset, constant.type().bytes());
  });
}

}  // namespace

absl::Status Evaluate(const Recipe& recipe, absl::Span<std::byte> out,
                      const EvaluateOptions& options) {
  if (out.size() != recipe.type().bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        out.size(), " bytes for the ", recipe.type().bytes(), " of ", recipe.Describe()));
  }
  return EvaluateRange(recipe, 0, out, options);
}

absl::Status EvaluateRange(const Recipe& recipe, uint64_t offset, absl::Span<std::byte> out,
                           const EvaluateOptions& options) {
  const TensorType& type = recipe.type();
  const uint64_t bytes = type.bytes();
  const int bits = BitWidth(type.element());
  const uint64_t element_bytes = bits == 4 ? 1 : static_cast<uint64_t>(bits / 8);
  if (offset > bytes || out.size() > bytes - offset || offset % element_bytes != 0 ||
      out.size() % element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("bytes [", offset, ", +", out.size(),
                                                   ") of the ", bytes, " of ", recipe.Describe()));
  }
  if (out.empty()) return absl::OkStatus();
  // Not through bits: eight times the bytes need not fit.
  const auto elements = [&](uint64_t in_bytes) {
    return static_cast<int64_t>(bits == 4 ? in_bytes * 2 : in_bytes / element_bytes);
  };
  const int64_t begin = elements(offset);
  const int64_t end = std::min(begin + elements(out.size()), type.num_elements());
  const absl::Status status = RangeEvaluation(recipe, begin, end, out, options).Run();
  // Not before the last: a transposed tensor reads a little of every page for each range.
  const bool last = offset + out.size() == bytes;
  if (options.release_source_pages && (last || !status.ok())) ReleasePages(recipe);
  return status.ok() ? status : Annotate(status, recipe.Describe());
}

}  // namespace npubank
