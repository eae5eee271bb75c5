// EvaluatedAhead: the bytes of tensors, one tensor after the other and each front to back, evaluated ahead of who reads them.
//
//   EvaluatedAhead bytes(tensors, {.workers = &workers});
//   for (uint64_t done = 0; done < tensors[i].type().bytes(); done += piece.size()) {
//     NPUBANK_ASSIGN_OR_RETURN(piece, bytes.From(i, done));  // the one behind it is being evaluated
//   }
//
// A piece is large enough for a transposition to read whole rows, and holds as many tensors as it has room for, so that small
// ones keep nobody waiting. Two are alive, one that is read and one that is evaluated, by a thread of its own where the
// system has one (and by the workers). What is skipped is evaluated in vain.
//
// Ownership: keeps the tensors until it goes. Threads: one reader. Errors of From: those of MakeRecipe and of
// EvaluateRange, for whatever is asked of that piece; InvalidArgument for what lies before the piece that was read last, or
// beyond a tensor's end.
#ifndef NPUBANK_TOOLS_EXPORT_EVALUATED_AHEAD_H_
#define NPUBANK_TOOLS_EXPORT_EVALUATED_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/lazy_tensor.h"

namespace npubank {

class EvaluatedAhead {
 public:
  static constexpr uint64_t kPieceBytes = 24 << 20;

  // `piece_bytes`: a multiple of a page. Each tensor begins on a page of memory, and each piece of one.
  EvaluatedAhead(std::vector<LazyTensor> tensors, const EvaluateOptions& options,
                 uint64_t piece_bytes = kPieceBytes);
  ~EvaluatedAhead();
  EvaluatedAhead(const EvaluatedAhead&) = delete;
  EvaluatedAhead& operator=(const EvaluatedAhead&) = delete;

  // What is there of that tensor from `offset` on, at least a byte; it stays until the next call.
  absl::StatusOr<absl::Span<const std::byte>> From(size_t tensor, uint64_t offset);

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  // The bytes [begin, end) of a tensor.
  struct Part {
    size_t tensor;
    uint64_t begin, end;
    size_t place;  // in the piece
    absl::Status status;
  };
  struct Piece {
    std::unique_ptr<Page[]> pages;  // of piece_bytes_, once for all pieces
    // From the first page's on: no page alone has room for a piece.
    std::byte* bytes() const { return reinterpret_cast<std::byte*>(pages.get()); }
    std::vector<Part> parts;
  };

  uint64_t BytesOf(size_t tensor) const;
  void Evaluate();
  absl::Status EvaluatePart(const Part& part);
  bool Advance();  // whether there was one more

  const std::vector<LazyTensor> tensors_;
  const EvaluateOptions options_;
  const uint64_t piece_bytes_;
  Piece now_;
  // The thread's while it runs: what it evaluates, and where it goes on.
  Piece next_;
  size_t tensor_ = 0;
  uint64_t begin_ = 0;
  std::thread ahead_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_EXPORT_EVALUATED_AHEAD_H_
