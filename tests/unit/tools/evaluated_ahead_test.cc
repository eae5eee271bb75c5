#include "npubank/tools/export/evaluated_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/weights/fake_source.h"

namespace npubank {
namespace {

using testing::FakeSource;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kPiece = 4096;

// Tensors of bytes, one behind the other in a source, of sizes around that of a piece.
struct MadeUpTensors {
  explicit MadeUpTensors(std::mt19937_64& random) {
    const size_t count = random() % 6;
    for (size_t i = 0; i < count; ++i) {
      starts.push_back(bytes.size());
      bytes.resize(bytes.size() + 1 + random() % (3 * kPiece));
    }
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    source = std::make_shared<FakeSource>(bytes, Digest{1, 2});
    for (size_t i = 0; i < count; ++i) {
      const auto type = TensorType::Create(ElementType::kU8, *Shape::Create({size(i)}));
      tensors.push_back(*LazyTensor::Constant(source, starts[i], *type, "made up"));
    }
  }
  int64_t size(size_t tensor) const {
    const size_t end = tensor + 1 < starts.size() ? starts[tensor + 1] : bytes.size();
    return static_cast<int64_t>(end - starts[tensor]);
  }

  Bytes bytes;
  std::vector<size_t> starts;
  std::shared_ptr<FakeSource> source;
  std::vector<LazyTensor> tensors;
};

TEST(EvaluatedAhead, WhateverIsReadFrontToBackIsTheTensorsBytes) {
  std::mt19937_64 random(PrintedSeed());
  ThreadWorkers workers(2);
  for (int round = 0; round < Repetitions(2000); ++round) {
    const MadeUpTensors made(random);
    EvaluateOptions options;
    options.workers = round % 2 == 0 ? &workers : nullptr;
    EvaluatedAhead evaluated(made.tensors, options, kPiece);
    for (size_t tensor = 0; tensor < made.tensors.size(); ++tensor) {
      const uint64_t size = made.size(tensor);
      uint64_t at = random() % 3 == 0 ? random() % size : 0;  // some of it is skipped
      while (at < size && random() % 8 != 0) {
        const auto piece = evaluated.From(tensor, at);
        ASSERT_EQ(piece.status(), absl::OkStatus());
        ASSERT_EQ(piece->size(), std::min(kPiece - at % kPiece, size - at));
        const auto expected = made.bytes.begin() + made.starts[tensor] + at;
        ASSERT_TRUE(std::equal(piece->begin(), piece->end(), expected)) << tensor << " at " << at;
        at += 1 + random() % piece->size();
      }
    }
  }
}

TEST(EvaluatedAhead, PiecesBeginOnPages) {
  std::mt19937_64 random(1);
  const MadeUpTensors made(random);
  EvaluatedAhead evaluated(made.tensors, {}, kPiece);
  for (size_t tensor = 0; tensor < made.tensors.size(); ++tensor) {
    const auto piece = evaluated.From(tensor, 0);
    ASSERT_EQ(piece.status(), absl::OkStatus());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece->data()) % 4096, 0);
  }
}

TEST(EvaluatedAhead, WhatHasPassedOrIsNotThereIsAnError) {
  std::mt19937_64 random(1);
  const MadeUpTensors made(random);
  ASSERT_GE(made.tensors.size(), 2);
  EvaluatedAhead evaluated(made.tensors, {}, kPiece);
  ASSERT_EQ(evaluated.From(1, 0).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(evaluated.From(0, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(evaluated.From(1, made.size(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(evaluated.From(made.tensors.size(), 0).status()));
  EvaluatedAhead none({}, {}, kPiece);
  EXPECT_TRUE(absl::IsInvalidArgument(none.From(0, 0).status()));
}

TEST(EvaluatedAhead, WhicheverReadOfASourceFailsIsTheErrorOfThatPieceAndOfNoneBefore) {
  std::mt19937_64 random(1);
  const MadeUpTensors made(random);
  for (int read = 1;; ++read) {
    made.source->FailFrom(made.source->reads() + read);
    EvaluatedAhead evaluated(made.tensors, {}, kPiece);
    absl::Status status;
    int good = 0;
    for (size_t tensor = 0; tensor < made.tensors.size() && status.ok(); ++tensor) {
      for (uint64_t at = 0; at < static_cast<uint64_t>(made.size(tensor)) && status.ok();
           at += kPiece) {
        status = evaluated.From(tensor, at).status();
        good += status.ok();
      }
    }
    if (status.ok()) break;
    EXPECT_EQ(good, read - 1);  // a piece is one read of this source
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    ASSERT_LT(read, 100);
  }
}

}  // namespace
}  // namespace npubank
