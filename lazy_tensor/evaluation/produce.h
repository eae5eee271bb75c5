// Producer: fills boxes of a recipe's output; the pull half of the evaluator. Internal to it.
//
//   Producer producer(scratch, options.f16_must_hold);
//   NPUBANK_RETURN_IF_ERROR(producer.Produce(recipe, box, Target{out, 0, strides}));
//   NPUBANK_RETURN_IF_ERROR(producer.CheckSources());
//
// How it works. The consumer says where each element of the box shall go: an address and a stride
// per axis. Operations that only move elements pass that on to their input with other strides:
// Permute reorders them, Slice shifts the box, Concat shifts the target, Reshape cuts the box into
// runs. So however many of them follow each other, an element moves once, from the source to its
// place. Operations on values pull their input in pieces that fit the cache, into scratch or, where
// the input already lies in memory in the right order, straight from there, and run every step of a
// chain on a piece before the next piece. What they do to one element does not depend on where it
// is, so they run in the order of the input, and the last of them moves the elements to their places.
//
// Operations with several inputs or whose elements come in groups (Unpack, Gather, blocks, nibbles)
// work in the same way on pieces, with the groups that a piece touches; they are in
// produce_values.cc.
//
// Scratch: a stack over the caller's block. A node of depth d takes at most 1/d of what is left, so
// every node of the deepest chain gets an equal share. Sources are read in place where they can be
// (Source::InPlace), else with Source::Read. Threads: one Producer per thread.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_PRODUCE_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_PRODUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/evaluation/box.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {

class Producer {
 public:
  // Enough for kMaxDepth nodes that each need a table of 256 numbers, or a block of 256 weights.
  static constexpr uint64_t kMinScratchBytes = 1 << 20;

  // `f16_must_hold`: numbers that F16 cannot hold are an error where they are made F16.
  Producer(absl::Span<std::byte> scratch, bool f16_must_hold)
      : f16_must_hold_(f16_must_hold), scratch_(scratch) {}

  // Four-bit targets: bytes at the edge of the box are read and written again, so no other thread
  // may write to them, and `data` must be readable memory.
  absl::Status Produce(const Recipe& recipe, const Box& box, const Target& target);

  // Calls body with `bytes` of the scratch; what body produces shares the rest.
  absl::Status WithBlock(uint64_t bytes, absl::FunctionRef<absl::Status(std::byte*)> body);

  // DataLoss when a source read since the last call is no longer what it was when it was opened.
  absl::Status CheckSources();

 private:
  class Block;

  absl::Status ProduceOp(const ConstantOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const ConcatOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const SliceOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const ReshapeOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const PermuteOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const ConvertOp&, const Recipe& recipe, const Box& box,
                         const Target& target) {
    return ProduceSteps(recipe, box, target);
  }
  absl::Status ProduceOp(const ShiftOp&, const Recipe& recipe, const Box& box,
                         const Target& target) {
    return ProduceSteps(recipe, box, target);
  }
  absl::Status ProduceOp(const SplatOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const UnpackOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const GatherOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const UnpackNibblesOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const DequantizeBlocksOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);
  absl::Status ProduceOp(const CopyBlockPlaneOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);

  // Elements that come out of blocks of bytes, `length` of them out of each `block_bytes`. `decode` puts
  // `blocks` blocks one after the other; streaming tells it that `out` is large and not read soon.
  using DecodeBlocks =
      absl::FunctionRef<void(const std::byte* in, std::byte* out, size_t blocks, bool stream)>;
  absl::Status ProduceBlocks(const Recipe& recipe, const Box& box, const Target& target,
                             int64_t length, uint64_t block_bytes, DecodeBlocks decode);

  // Gather of whole rows.
  absl::Status ProduceRows(const Recipe& recipe, const Box& box, const Target& target);

  // A chain of operations on single elements.
  absl::Status ProduceSteps(const Recipe& recipe, const Box& box, const Target& target);

  // One step on a stored constant that can be read in place: no scratch. False: it is not such a one.
  absl::StatusOr<bool> ConvertInPlace(const Recipe& base, const Recipe& step, const Box& box,
                                      const Target& target);
  // All steps on a dense piece, from one buffer to the other and back, and to its target.
  absl::Status RunSteps(const Recipe& base, const std::vector<const Recipe*>& steps, const Box& piece,
                        const std::byte* in, std::byte* buffer, std::byte* other, const Target& target) const;
  bool MustHold(const Recipe& step) const;

  // Cuts the box into pieces that need no more scratch than there is, as `need` says, and calls
  // `fill` with each and a block of that size.
  using Need = absl::FunctionRef<uint64_t(const Box& piece)>;
  using Fill = absl::FunctionRef<absl::Status(const Box& piece, std::byte* block)>;
  absl::Status InPieces(const Recipe& recipe, const Box& box, bool dense, Need need, Fill fill);

  // The scales or zero points that `part` of their tensor holds, in F32, one after the other.
  absl::Status Widen(const Recipe& recipe, const Box& part, std::byte* stored, float* wide);

  void Touch(const Source& source);

  // The elements of `box` one after the other: where they already are, or produced into `buffer`.
  absl::StatusOr<const std::byte*> Dense(const Recipe& recipe, const Box& box, std::byte* buffer);

  // How many bytes of scratch a node may take.
  uint64_t Share(const Recipe& recipe) const;

  const bool f16_must_hold_;
  absl::Span<std::byte> scratch_;  // what is left
  std::vector<const Source*> touched_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_PRODUCE_H_
