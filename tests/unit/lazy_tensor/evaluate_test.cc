#include "npubank/lazy_tensor/evaluation/evaluate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/tests/support/temporary_file.h"
#include "npubank/tests/support/weights/fake_source.h"
#include "npubank/tests/support/weights/reference_evaluate.h"

namespace npubank {
namespace {

using testing::FakeSource;
using testing::ReferenceEvaluate;
using testing::TemporaryFile;
using Bytes = std::vector<std::byte>;

TensorType Type(ElementType element, const std::vector<int64_t>& dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  return bytes;
}

// A BF16 matrix of 1024 x 1024 in a file of its own, transposed and converted.
struct StoredMatrix {
  explicit StoredMatrix(FileAccess open_as = FileAccess::kMap) : access(open_as) {}

  FileAccess access;
  TemporaryFile file{Counting(2 << 20)};
  std::shared_ptr<Source> source = *Source::OpenFile(file.path(), access);
  RecipePtr stored = *Recipe::Constant(source, 0, Type(ElementType::kBF16, {1024, 1024}), "proj");
  RecipePtr transposed = *Recipe::Permute(stored, {1, 0});
  RecipePtr half = *Recipe::Convert(transposed, ElementType::kF16);
};

TEST(Evaluate, ATurnedAndConvertedMatrixIsTheReference) {
  constexpr size_t kBytes = 2 << 20;
  const StoredMatrix mapped(FileAccess::kMap);
  const StoredMatrix read(FileAccess::kRead);
  ThreadWorkers workers(2);
  EvaluateOptions options;
  options.workers = &workers;
  for (const RecipePtr& recipe : {mapped.half, mapped.transposed, read.half, read.transposed}) {
    const Bytes expected = ReferenceEvaluate(*recipe);
    Bytes room(kBytes + 128);
    const size_t aligned = 64 - reinterpret_cast<uintptr_t>(room.data()) % 64;
    for (const size_t at : {aligned, aligned + 2}) {  // on a cache line, as a device is, and not
      const absl::Span<std::byte> out = absl::MakeSpan(room).subspan(at, kBytes);
      ASSERT_EQ(Evaluate(*recipe, out, options), absl::OkStatus());
      EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin())) << recipe->Describe();
    }
  }
}

TEST(Evaluate, TheOutputMustHaveExactlyTheRightSize) {
  const StoredMatrix matrix;
  for (size_t size : {size_t{0}, (size_t{2} << 20) - 1, (size_t{2} << 20) + 1}) {
    Bytes out(size);
    const absl::Status status = Evaluate(*matrix.half, absl::MakeSpan(out), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("proj"), std::string::npos) << status;
  }
}

TEST(Evaluate, ARangeMustLieOnElementsInsideTheTensor) {
  const StoredMatrix matrix;
  Bytes out(64);
  const auto code = [&](uint64_t offset, size_t size) {
    return EvaluateRange(*matrix.half, offset, absl::MakeSpan(out).first(size), {}).code();
  };
  EXPECT_EQ(code(1, 2), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(2, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code((2 << 20) - 2, 4), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(UINT64_MAX - 1, 64), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code((2 << 20) - 2, 2), absl::StatusCode::kOk);
  EXPECT_EQ(code(2 << 20, 0), absl::StatusCode::kOk);
}

TEST(Evaluate, EmptyTensorsAndScalarsAreFine) {
  const StoredMatrix matrix;
  const RecipePtr none =
      *Recipe::Convert(*Recipe::Slice(matrix.transposed, {5, 0}, {0, 1024}), ElementType::kF32);
  EXPECT_EQ(Evaluate(*none, {}, {}), absl::OkStatus());
  const RecipePtr one = *Recipe::Reshape(*Recipe::Slice(matrix.half, {3, 4}, {1, 1}), {});
  Bytes out(2);
  EXPECT_EQ(Evaluate(*one, absl::MakeSpan(out), {}), absl::OkStatus());
  EXPECT_EQ(out, ReferenceEvaluate(*one));
}

TEST(Evaluate, AFileTruncatedBeforeTheEvaluationIsDataLoss) {
  const StoredMatrix matrix;
  ASSERT_EQ((*matrix.source->View(0, 4096)).size(), 4096u);  // mapped, as a format reader does
  ASSERT_EQ(truncate(matrix.file.path().c_str(), 4096), 0);
  for (const RecipePtr& recipe : {matrix.stored, matrix.transposed, matrix.half}) {
    Bytes out(2 << 20);
    const absl::Status status = Evaluate(*recipe, absl::MakeSpan(out), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(std::string(status.message()).find(matrix.file.path()), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find("proj"), std::string::npos) << status;
  }
}

// Truncated at every moment of an evaluation: always a Status, never SIGBUS.
TEST(Evaluate, AFileTruncatedDuringTheEvaluationIsDataLoss) {
  for (int tile = 0; tile < 8; ++tile) {
    const StoredMatrix matrix;
    int asked = 0;
    EvaluateOptions options;
    options.cancelled = [&] {
      if (asked++ == tile) {
        EXPECT_EQ(truncate(matrix.file.path().c_str(), 100), 0);
      }
      return false;
    };
    Bytes out(2 << 20);
    const absl::Status status = Evaluate(*matrix.half, absl::MakeSpan(out), options);
    if (asked > tile) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    }
  }
}

// Truncated at any moment, also between two loads of one kernel: what was there until then is right.
TEST(Evaluate, AFileTruncatedByAnotherThreadIsDataLoss) {
  for (int round = 0; round < 30; ++round) {
    const StoredMatrix matrix;
    const RecipePtr recipes[] = {matrix.stored, matrix.transposed, matrix.half};
    const RecipePtr& recipe = recipes[round % 3];
    const Bytes expected = ReferenceEvaluate(*recipe);
    std::atomic<bool> begun{false};
    std::thread other([&] {
      while (!begun) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
      EXPECT_EQ(truncate(matrix.file.path().c_str(), 100), 0);
    });
    absl::Status status;
    while (true) {
      Bytes out(2 << 20);
      begun = true;
      status = Evaluate(*recipe, absl::MakeSpan(out), {});
      if (!status.ok()) break;
      EXPECT_TRUE(out == expected) << round;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    other.join();
  }
}

TEST(Evaluate, AFileRewrittenInPlaceIsDataLossThatNamesIt) {
  const StoredMatrix matrix;
  struct stat facts;
  ASSERT_EQ(stat(matrix.file.path().c_str(), &facts), 0);
  const timespec times[2] = {facts.st_atim, {facts.st_mtim.tv_sec - 1, facts.st_mtim.tv_nsec}};
  ASSERT_EQ(utimensat(AT_FDCWD, matrix.file.path().c_str(), times, 0), 0);
  Bytes out(2 << 20);
  const absl::Status status = Evaluate(*matrix.half, absl::MakeSpan(out), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(status.message()).find(matrix.file.path()), std::string::npos) << status;
}

TEST(Evaluate, CancelsBetweenTiles) {
  const StoredMatrix matrix;
  ThreadWorkers workers(2);
  for (Workers* on : std::initializer_list<Workers*>{nullptr, &workers}) {
    std::atomic<int> asked{0};
    EvaluateOptions options;
    options.workers = on;
    options.cancelled = [&] { return ++asked > 2; };
    Bytes out(2 << 20);
    const absl::Status status = Evaluate(*matrix.half, absl::MakeSpan(out), options);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_NE(std::string(status.message()).find("proj"), std::string::npos) << status;
    EXPECT_LE(asked, 5);
  }
}

// Fails the N-th read for every N, once and forever: a clean Status, and the retry succeeds.
TEST(Evaluate, AReadThatFailsFailsTheEvaluationAndARetrySucceeds) {
  const auto source = std::make_shared<FakeSource>(Counting(2 << 20), Digest{7, 7});
  const RecipePtr stored =
      *Recipe::Constant(source, 0, Type(ElementType::kBF16, {1024, 1024}), "proj");
  const RecipePtr half = *Recipe::Convert(*Recipe::Permute(stored, {1, 0}), ElementType::kF16);
  Bytes expected(2 << 20);
  ASSERT_EQ(Evaluate(*half, absl::MakeSpan(expected), {}), absl::OkStatus());
  const int reads = source->reads();
  ASSERT_GT(reads, 0);
  ThreadWorkers workers(2);
  EvaluateOptions options;
  options.workers = &workers;
  for (int n = 1; n <= reads; ++n) {
    Bytes out(2 << 20);
    source->FailFrom(source->reads() + n);
    EXPECT_EQ(Evaluate(*half, absl::MakeSpan(out), options).code(), absl::StatusCode::kDataLoss);
    source->FailFrom(0);
    ASSERT_EQ(Evaluate(*half, absl::MakeSpan(out), options), absl::OkStatus());
    ASSERT_TRUE(out == expected) << n;
  }
}

// A transposed tensor reads a little of every page of its file for each range.
TEST(Evaluate, PagesOfAFileAreGivenBackWithTheLastRangeOrAnErrorAndNotBefore) {
  const auto source = std::make_shared<FakeSource>(Counting(2 << 20), Digest{7, 7});
  const RecipePtr stored =
      *Recipe::Constant(source, 0, Type(ElementType::kBF16, {1024, 1024}), "proj");
  const RecipePtr turned = *Recipe::Permute(stored, {1, 0});
  Bytes out(1 << 19);
  for (uint64_t offset = 0; offset < 2 << 20; offset += out.size()) {
    EXPECT_EQ(source->releases(), 0);
    ASSERT_EQ(EvaluateRange(*turned, offset, absl::MakeSpan(out), {}), absl::OkStatus());
  }
  EXPECT_EQ(source->releases(), 1);
  source->FailFrom(source->reads() + 1);
  EXPECT_FALSE(EvaluateRange(*turned, 0, absl::MakeSpan(out), {}).ok());
  EXPECT_EQ(source->releases(), 2);
}

TEST(Evaluate, PermutesInARowGiveTheBytesOfOneAfterTheOther) {
  const TemporaryFile file(Counting(24));
  const RecipePtr cube = *Recipe::Constant(*Source::OpenFile(file.path()), 0,
                                           Type(ElementType::kU8, {2, 3, 4}), "cube");
  // Element (i, j, k) of the result of {1,2,0} and then {0,2,1} is element (j, i, k) of the cube.
  const RecipePtr moved = *Recipe::Permute(*Recipe::Permute(cube, {1, 2, 0}), {0, 2, 1});
  Bytes out(24);
  ASSERT_EQ(Evaluate(*moved, absl::MakeSpan(out), {}), absl::OkStatus());
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 4; ++k) EXPECT_EQ(out[i * 8 + j * 4 + k], Counting(24)[j * 12 + i * 4 + k]);
}

TEST(Evaluate, TheDeepestChainRunsInTheSmallestScratch) {
  const TemporaryFile file(Counting(30000));
  RecipePtr recipe = *Recipe::Constant(*Source::OpenFile(file.path()), 0,
                                       Type(ElementType::kF16, {100, 150}), "deep");
  for (int i = 0; recipe->depth() < Recipe::kMaxDepth; ++i) {
    switch (i % 3) {
      case 0:
        recipe = *Recipe::Permute(recipe, {1, 0});
        break;
      case 1:
        recipe = *Recipe::Convert(recipe, i % 2 == 0 ? ElementType::kF32 : ElementType::kF64);
        break;
      default:
        recipe = *Recipe::Reshape(
            recipe, i % 2 == 0 ? std::vector<int64_t>{100, 150} : std::vector<int64_t>{3, 5000});
    }
  }
  EvaluateOptions options;
  options.scratch_bytes = 1;
  Bytes out(recipe->type().bytes());
  ASSERT_EQ(Evaluate(*recipe, absl::MakeSpan(out), options), absl::OkStatus());
  EXPECT_TRUE(out == ReferenceEvaluate(*recipe));
}

TEST(Evaluate, FourBitRowsThatEndInsideAByteAreTransposedExactly) {
  const TemporaryFile file(Counting(301 * 401 / 2 + 1));
  const RecipePtr stored = *Recipe::Constant(*Source::OpenFile(file.path()), 0,
                                             Type(ElementType::kU4, {301, 401}), "nibbles");
  ThreadWorkers workers(2);
  EvaluateOptions options;
  options.workers = &workers;
  for (const RecipePtr& recipe :
       {*Recipe::Permute(stored, {1, 0}),
        *Recipe::Permute(*Recipe::Slice(stored, {1, 0}, {300, 401}), {1, 0}),
        *Recipe::Slice(stored, {3, 5}, {290, 333})}) {
    Bytes out(recipe->type().bytes(), std::byte{0xff});
    ASSERT_EQ(Evaluate(*recipe, absl::MakeSpan(out), options), absl::OkStatus());
    EXPECT_TRUE(out == ReferenceEvaluate(*recipe)) << recipe->Describe();
  }
}

// Eight times the bytes in front of the range do not fit into 64 bits.
TEST(Evaluate, ARangeFarInsideTheLargestTensorHasItsOwnElements) {
  constexpr int64_t kHalf = int64_t{1} << 61;
  const auto half = [](uint64_t value) {
    return *Recipe::Splat(Type(ElementType::kU8, {kHalf}), value);
  };
  const RecipePtr recipe = *Recipe::Concat({half(1), half(2)}, 0);
  Bytes out(4);
  ASSERT_EQ(EvaluateRange(*recipe, uint64_t{kHalf} - 2, absl::MakeSpan(out), {}), absl::OkStatus());
  EXPECT_EQ(out, (Bytes{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}}));
  ASSERT_EQ(EvaluateRange(*recipe, uint64_t{kHalf}, absl::MakeSpan(out), {}), absl::OkStatus());
  EXPECT_EQ(out, Bytes(4, std::byte{2}));
}

int64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

// The destination is a window that is filled again and again, so that only the evaluator's memory
// counts.
TEST(Evaluate, AGibibyteNeedsLessThan16MiBBesidesTheDestination) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers add memory of their own";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers add memory of their own";
#endif
#endif
  if (AnonymousBytes() < 0) GTEST_SKIP() << "/proc/self/status does not tell RssAnon";
  constexpr int64_t kSide = 1 << 14;
  const TemporaryFile file;
  ASSERT_EQ(truncate(file.path().c_str(), kSide * kSide * 4), 0);  // sparse
  const RecipePtr stored = *Recipe::Constant(
      *Source::OpenFile(file.path()), 0, Type(ElementType::kBF16, {2 * kSide, kSide}), "gibibyte");
  const RecipePtr quarter = *Recipe::Slice(stored, {0, 0}, {kSide / 2, kSide});
  ThreadWorkers workers(2);
  for (const bool transposed : {false, true}) {
    const RecipePtr first = transposed ? *Recipe::Permute(quarter, {1, 0}) : stored;
    const RecipePtr recipe = *Recipe::Convert(first, ElementType::kF16);
    constexpr size_t kWindow = 64 << 20;
    Bytes out(kWindow, std::byte{1});
    const int64_t before = AnonymousBytes();
    std::atomic<int64_t> peak{0};
    EvaluateOptions options;
    options.workers = &workers;
    options.cancelled = [&] {
      const int64_t now = AnonymousBytes() - before;
      int64_t seen = peak;
      while (now > seen && !peak.compare_exchange_weak(seen, now)) {
      }
      return false;
    };
    const uint64_t total = recipe->type().bytes();
    for (uint64_t offset = 0; offset < total; offset += kWindow) {
      ASSERT_EQ(EvaluateRange(*recipe, offset, absl::MakeSpan(out), options), absl::OkStatus());
    }
    EXPECT_LT(peak, 16 << 20) << (transposed ? "transposed" : "as stored");
    std::printf("peak anonymous bytes beside the destination: %lld\n",
                static_cast<long long>(peak.load()));
  }
}

}  // namespace
}  // namespace npubank
