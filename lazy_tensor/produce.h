// Producer: fills boxes of a recipe's output; the pull half of the evaluator. Internal to it.
//
//   Producer producer(scratch);
//   NPUBANK_RETURN_IF_ERROR(producer.Produce(recipe, box, Target{out, 0, strides}));
//   NPUBANK_RETURN_IF_ERROR(producer.CheckSources());
//
// How it works. The consumer says where each element of the box shall go: an address and a stride
// per axis. Operations that only move elements pass that on to their input with other strides:
// Permute reorders them, Slice shifts the box, Concat shifts the target, Reshape cuts the box into
// runs. So however many of them follow each other, an element moves once, from the source to its
// place. Operations on values pull their input in pieces that fit the cache, into scratch or, where
// the input already lies in memory in the right order, straight from there, and run every step of a
// chain on a piece before the next piece.
//
// Scratch: a stack over the caller's block. A node of depth d takes at most 1/d of what is left, so
// every node of the deepest chain gets an equal share. Files are read with Source::Read (pread),
// never through a mapping: no SIGBUS, and no resident pages. Threads: one Producer per thread.
#ifndef NPUBANK_LAZY_TENSOR_PRODUCE_H_
#define NPUBANK_LAZY_TENSOR_PRODUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lazy_tensor/box.h"
#include "lazy_tensor/recipe.h"

namespace npubank {

class Producer {
 public:
  // Enough for kMaxDepth nodes.
  static constexpr size_t kMinScratchBytes = 64 << 10;

  explicit Producer(absl::Span<std::byte> scratch) : scratch_(scratch) {}

  // Four-bit targets: bytes at the edge of the box are read and written again, so no other thread
  // may write to them, and `data` must be readable memory.
  absl::Status Produce(const Recipe& recipe, const Box& box, const Target& target);

  // Calls body with `bytes` of the scratch; what body produces shares the rest.
  absl::Status WithBlock(int64_t bytes, absl::FunctionRef<absl::Status(std::byte*)> body);

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
  absl::Status ProduceOp(const ConvertOp& op, const Recipe& recipe, const Box& box,
                         const Target& target);

  void Touch(const Source& source);

  // The elements of `box` one after the other: where they already are, or produced into `buffer`.
  absl::StatusOr<const std::byte*> Dense(const Recipe& recipe, const Box& box, std::byte* buffer);

  // How many bytes of scratch a node may take.
  size_t Share(const Recipe& recipe) const;

  absl::Span<std::byte> scratch_;  // what is left
  std::vector<const Source*> touched_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_PRODUCE_H_
