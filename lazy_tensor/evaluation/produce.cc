#include "npubank/lazy_tensor/evaluation/produce.h"

#include <algorithm>
#include <variant>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/overflow.h"
#include "npubank/lazy_tensor/evaluation/read_box.h"
#include "npubank/lazy_tensor/kernels/convert.h"

namespace npubank {
namespace {

// A piece of a chain of steps on values: its buffers stay in the second-level cache.
constexpr uint64_t kCachedBytes = 256 << 10;
// Scratch of a node whose target is not dense: large pieces give the copy long runs on both sides.
constexpr uint64_t kMaxBlockBytes = 1 << 20;
bool IsStep(const Recipe& recipe) {
  return std::holds_alternative<ConvertOp>(recipe.op()) ||
         std::holds_alternative<ShiftOp>(recipe.op());
}

// One step of a chain on `count` dense elements.
void RunStep(const Recipe& step, ElementType from, const std::byte* in, std::byte* out,
             int64_t count) {
  if (std::holds_alternative<ConvertOp>(step.op())) {
    kernels::Convert(from, in, step.type().element(), out, static_cast<size_t>(count));
    return;
  }
  const bool nibbles = BitWidth(from) == 4;
  const std::byte flip{static_cast<unsigned char>(nibbles ? 0x88 : 0x80)};
  const uint64_t bytes = BytesOf(count, BitWidth(from));
  for (uint64_t i = 0; i < bytes; ++i) out[i] = in[i] ^ flip;
}

// Whether the step can move its elements to their places as well.
bool Moves(const Recipe& step, ElementType from) {
  return std::holds_alternative<ConvertOp>(step.op()) && BitWidth(from) != 4 &&
         BitWidth(step.type().element()) != 4;
}

// A run of elements that follow each other in a recipe, where it lies in memory.
struct StoredRun {
  const Source* source = nullptr;
  const std::byte* data = nullptr;  // null: it does not
};

StoredRun FindRun(const Recipe& recipe, int64_t begin) {
  if (const auto* op = std::get_if<ConstantOp>(&recipe.op())) {
    const Source& source = op->hold->source();
    const absl::Span<const std::byte> memory = source.InPlace();
    const int64_t bit = begin * BitWidth(recipe.type().element());
    if (memory.empty() || bit % 8 != 0) return {};
    return {&source, memory.data() + op->offset + bit / 8};
  }
  if (std::holds_alternative<ReshapeOp>(recipe.op())) return FindRun(*recipe.inputs()[0], begin);
  if (const auto* op = std::get_if<SliceOp>(&recipe.op())) {
    const Shape& from = recipe.inputs()[0]->type().shape();
    int64_t row = 1;
    for (int a = 1; a < from.rank(); ++a) {
      if (recipe.type().shape().dim(a) != from.dim(a)) return {};
      row *= from.dim(a);
    }
    return FindRun(*recipe.inputs()[0], begin + op->start[0] * row);
  }
  return {};
}

// A box of a permuted tensor as one of the tensor before.
void PermuteAxes(const PermuteOp& permute, Box& box, Target& target) {
  const Box from_box = box;
  const AxisValues from_stride = target.stride;
  for (int a = 0; a < box.rank; ++a) {
    box.start[permute.order[a]] = from_box.start[a];
    box.extent[permute.order[a]] = from_box.extent[a];
    target.stride[permute.order[a]] = from_stride[a];
  }
}

}  // namespace

// A piece of the scratch stack; given back when destroyed.
class Producer::Block {
 public:
  Block(Producer& producer, uint64_t bytes)
      : producer_(producer), whole_(producer.scratch_), bytes_(whole_.first(bytes)) {
    producer_.scratch_.remove_prefix(bytes);
  }
  ~Block() { producer_.scratch_ = whole_; }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  absl::Span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }

 private:
  Producer& producer_;
  const absl::Span<std::byte> whole_;
  const absl::Span<std::byte> bytes_;
};

uint64_t Producer::Share(const Recipe& recipe) const {
  const uint64_t share = scratch_.size() / static_cast<uint64_t>(recipe.depth());
  return std::min(share, kMaxBlockBytes) / 64 * 64;
}

absl::Status Producer::WithBlock(uint64_t bytes, absl::FunctionRef<absl::Status(std::byte*)> body) {
  // Blocks that follow stay aligned for F32 scales.
  const Block block(*this, AlignUp<uint64_t>(bytes, 64));
  return body(block.data());
}

void Producer::Touch(const Source& source) {
  if (std::find(touched_.begin(), touched_.end(), &source) == touched_.end()) {
    touched_.push_back(&source);
  }
}

absl::Status Producer::CheckSources() {
  for (const Source* source : touched_) NPUBANK_RETURN_IF_ERROR(source->CheckUnchanged());
  touched_.clear();
  return absl::OkStatus();
}

absl::Status Producer::Produce(const Recipe& recipe, const Box& box, const Target& target) {
  if (box.elements() == 0) return absl::OkStatus();
  return std::visit([&](const auto& op) { return ProduceOp(op, recipe, box, target); },
                    recipe.op());
}

absl::Status Producer::ProduceOp(const ConstantOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  const Source& source = op.hold->source();
  const Shape& shape = recipe.type().shape();
  const int bits = BitWidth(recipe.type().element());
  Touch(source);
  const absl::Span<const std::byte> memory = source.InPlace();
  if (!memory.empty()) {
    CopyBox(box, bits, memory.data() + op.offset, FlatStart(box, shape), DenseStrides(shape.dims()),
            target);
    return absl::OkStatus();
  }
  const Block block(*this, Share(recipe));
  return ReadBox(TensorInSource{source, op.offset, shape, bits}, box, block.bytes(), target);
}

absl::Status Producer::ProduceOp(const ConcatOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  int64_t begin = 0;  // of the input along the axis
  const int64_t first = box.start[op.axis];
  const int64_t last = first + box.extent[op.axis];
  for (const RecipePtr& input : recipe.inputs()) {
    const int64_t end = begin + input->type().shape().dim(op.axis);
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(end, last);
    if (from < to) {
      Box part = box;
      part.start[op.axis] = from - begin;
      part.extent[op.axis] = to - from;
      Target place = target;
      place.offset += (from - first) * target.stride[op.axis];
      NPUBANK_RETURN_IF_ERROR(Produce(*input, part, place));
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status Producer::ProduceOp(const SliceOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  Box shifted = box;
  for (int a = 0; a < box.rank; ++a) shifted.start[a] += op.start[a];
  return Produce(*recipe.inputs()[0], shifted, target);
}

absl::Status Producer::ProduceOp(const PermuteOp& op, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  Box transposed = box;
  Target place = target;
  PermuteAxes(op, transposed, place);
  return Produce(*recipe.inputs()[0], transposed, place);
}

absl::Status Producer::ProduceOp(const ReshapeOp&, const Recipe& recipe, const Box& box,
                                 const Target& target) {
  // Neighbouring reshapes are one.
  const Recipe* input = recipe.inputs()[0].get();
  while (std::holds_alternative<ReshapeOp>(input->op())) input = input->inputs()[0].get();
  const Shape& from = input->type().shape();
  const AxisValues from_strides = DenseStrides(from.dims());
  const Shape& shape = recipe.type().shape();

  // Pieces that are one run here and go to evenly spaced places there: the same run, cut along the
  // input's axes.
  int64_t step = 1;
  const auto one_run = [&](const Box& piece) {
    if (RunLength(piece, shape) != piece.elements()) return false;
    int64_t run = 1;
    for (int a = piece.rank - 1; a >= 0; --a) {
      if (piece.extent[a] == 1) continue;
      if (run == 1) step = target.stride[a];
      if (target.stride[a] != step * run) return false;
      run *= piece.extent[a];
    }
    return true;
  };
  return ForEachPiece(box, one_run, [&](const Box& piece) {
    const int64_t begin = FlatStart(piece, shape);
    const int64_t offset = target.OffsetOf(box, piece);
    return ForEachBox(from, begin, begin + piece.elements(), [&](const Box& part, int64_t first) {
      Target place{target.data, offset + first * step, from_strides};
      for (int a = 0; a < part.rank; ++a) place.stride[a] *= step;
      return Produce(*input, part, place);
    });
  });
}

absl::StatusOr<const std::byte*> Producer::Dense(const Recipe& recipe, const Box& box,
                                                 std::byte* buffer) {
  const Shape& shape = recipe.type().shape();
  if (RunLength(box, shape) == box.elements()) {
    const StoredRun run = FindRun(recipe, FlatStart(box, shape));
    if (run.data != nullptr) {
      Touch(*run.source);
      return run.data;
    }
  }
  NPUBANK_RETURN_IF_ERROR(Produce(recipe, box, Target{buffer, 0, DenseStrides(box.extents())}));
  return buffer;
}

absl::Status Producer::InPieces(const Recipe& recipe, const Box& box, bool dense, Need need,
                                Fill fill) {
  const uint64_t bytes = std::min(Share(recipe), dense ? kCachedBytes : kMaxBlockBytes);
  const Block block(*this, bytes);
  const auto fits = [&](const Box& piece) { return need(piece) <= bytes; };
  return ForEachPiece(box, fits, [&](const Box& piece) -> absl::Status {
    if (!fits(piece)) return absl::InternalError("an element needs more scratch than a node has");
    return fill(piece, block.data());
  });
}

absl::Status Producer::ProduceSteps(const Recipe& recipe, const Box& recipe_box,
                                    const Target& recipe_target) {
  // The steps, last one first, and what they start from, in its order.
  std::vector<const Recipe*> steps;
  const Recipe* base = &recipe;
  Box box = recipe_box;
  Target target = recipe_target;
  int bits = BitWidth(base->type().element());
  while (true) {
    if (const auto* permute = std::get_if<PermuteOp>(&base->op())) {
      PermuteAxes(*permute, box, target);
    } else if (IsStep(*base)) {
      steps.push_back(base);
    } else {
      break;
    }
    base = base->inputs()[0].get();
    bits = std::max(bits, BitWidth(base->type().element()));
  }
  if (steps.size() == 1) {
    NPUBANK_ASSIGN_OR_RETURN(const bool done, ConvertInPlace(*base, *steps[0], box, target));
    if (done) return absl::OkStatus();
  }
  // Two buffers, from one to the other and back, however many steps there are.
  const auto half = [bits](const Box& piece) {
    return AlignUp<uint64_t>(BytesOf(piece.elements(), bits), 64);
  };
  const auto need = [&](const Box& piece) { return 2 * half(piece); };
  return InPieces(recipe, box, target.IsDenseFor(box), need,
                  [&](const Box& piece, std::byte* block) -> absl::Status {
                    NPUBANK_ASSIGN_OR_RETURN(const std::byte* in, Dense(*base, piece, block));
                    return RunSteps(*base, steps, piece, in, block, block + half(piece),
                                    target.At(box, piece));
                  });
}

bool Producer::MustHold(const Recipe& step) const {
  return f16_must_hold_ && std::holds_alternative<ConvertOp>(step.op()) &&
         step.type().element() == ElementType::kF16;
}

absl::Status Producer::RunSteps(const Recipe& base, const std::vector<const Recipe*>& steps, const Box& piece,
                                const std::byte* in, std::byte* buffer, std::byte* other,
                                const Target& target) const {
  const AxisValues strides = DenseStrides(piece.extents());
  ElementType from = base.type().element();
  for (size_t i = steps.size(); i-- > 0;) {
    const ElementType to = steps[i]->type().element();
    if (MustHold(*steps[i])) NPUBANK_RETURN_IF_ERROR(CheckF16Holds(base, piece, from, in));
    if (i == 0 && Moves(*steps[i], from)) {
      ConvertBox(piece, from, in, 0, strides, to, target);
      return absl::OkStatus();
    }
    std::byte* const out = in == buffer ? other : buffer;
    RunStep(*steps[i], from, in, out, piece.elements());
    in = out;
    from = to;
  }
  CopyBox(piece, BitWidth(from), in, 0, strides, target);
  return absl::OkStatus();
}

absl::StatusOr<bool> Producer::ConvertInPlace(const Recipe& base, const Recipe& step, const Box& box,
                                              const Target& target) {
  const ElementType from = base.type().element();
  const auto* constant = std::get_if<ConstantOp>(&base.op());
  if (constant == nullptr || !Moves(step, from)) return false;
  const Source& source = constant->hold->source();
  const absl::Span<const std::byte> memory = source.InPlace();
  if (memory.empty()) return false;
  Touch(source);
  const Shape& shape = base.type().shape();
  const std::byte* const stored = memory.data() + constant->offset;
  if (MustHold(step)) {
    const auto one_run = [&](const Box& piece) { return RunLength(piece, shape) == piece.elements(); };
    NPUBANK_RETURN_IF_ERROR(ForEachPiece(box, one_run, [&](const Box& piece) {
      return CheckF16Holds(base, piece, from, stored + FlatStart(piece, shape) * BitWidth(from) / 8);
    }));
  }
  ConvertBox(box, from, stored, FlatStart(box, shape), DenseStrides(shape.dims()), step.type().element(), target);
  return true;
}

}  // namespace npubank
