// CopyStrided against its plain loop, on every instruction set.
#include "npubank/lazy_tensor/kernels/permute.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/kernels/every_target.h"

namespace npubank::kernels {
namespace {

using ::testing::ElementsAre;

TEST(CopyStrided, TurnsAMatrix) {
  const uint16_t in[] = {1, 2, 3,  //
                         4, 5, 6};
  std::vector<uint16_t> out(6);
  CopyStrided({.rank = 2, .extent = {3, 2}, .in_stride = {1, 3}, .out_stride = {2, 1}}, 16, in,
              out.data());
  EXPECT_THAT(out, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(CopyStrided, TurnsNibblesAndKeepsTheirNeighbours) {
  const uint8_t in[] = {0x21, 0x43, 0x65};  // 1 2 3 / 4 5 6
  std::vector<uint8_t> out = {0xFF, 0xFF, 0xFF, 0xFF};
  CopyStrided(
      {.rank = 2, .extent = {3, 2}, .in_stride = {1, 3}, .out_stride = {2, 1}, .out_offset = 1}, 4,
      in, out.data());
  EXPECT_THAT(out, ElementsAre(0x1F, 0x24, 0x35, 0xF6));
}

TEST(CopyStrided, AnEmptyBoxAndAScalarAreBoxesToo) {
  const uint32_t in[] = {7};
  std::vector<uint32_t> out = {9};
  CopyStrided({.rank = 2, .extent = {0, 5}, .in_stride = {5, 1}, .out_stride = {5, 1}}, 32, in,
              out.data());
  EXPECT_THAT(out, ElementsAre(9));
  CopyStrided({.rank = 0}, 32, in, out.data());
  EXPECT_THAT(out, ElementsAre(7));
}

using CopyStridedTargets = EveryTarget;
NPUBANK_ON_EVERY_TARGET(CopyStridedTargets);

constexpr int kElementBits[] = {4, 8, 16, 32, 64};

// Pairs of every width, with and without a kernel of their own.
struct Pair {
  ElementType from;
  ElementType to;
};
constexpr Pair kPairs[] = {
    {ElementType::kBF16, ElementType::kF16}, {ElementType::kF16, ElementType::kF32},
    {ElementType::kF32, ElementType::kBF16}, {ElementType::kF32, ElementType::kI8},
    {ElementType::kU8, ElementType::kF32},   {ElementType::kF8E4M3, ElementType::kF16},
    {ElementType::kI64, ElementType::kF16},  {ElementType::kBF16, ElementType::kF64},
};

// Converts and then copies, with the plain loops, and both at once.
void ExpectConvertedAgreement(const StridedCopy& copy, const Pair& pair, const Bytes& in,
                              size_t elements, Bytes& actual, size_t at) {
  Bytes converted(elements * 8);
  ReferenceConvert(pair.from, in.data(), pair.to, converted.data(), elements);
  Bytes expected = actual;
  ReferenceCopyStrided(copy, BitWidth(pair.to), converted.data(), expected.data() + at);
  ConvertStrided(copy, pair.from, in.data(), pair.to, actual.data() + at);
  ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
      << "type " << static_cast<int>(pair.from) << " to " << static_cast<int>(pair.to) << ", "
      << testing::PrintToString(copy.extent) << " from " << testing::PrintToString(copy.in_stride)
      << " to " << testing::PrintToString(copy.out_stride)
      << (copy.stream ? " past the cache" : "");
}

// Copies with both, into buffers of garbage, which shows what was written beyond the box.
void ExpectAgreement(const StridedCopy& copy, int bits, const Bytes& in, size_t out_bytes) {
  Bytes expected(out_bytes, 0x5A);
  Bytes actual = expected;
  ReferenceCopyStrided(copy, bits, in.data() + 1, expected.data() + 1);
  CopyStrided(copy, bits, in.data() + 1, actual.data() + 1);
  ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
      << bits << " bits, " << testing::PrintToString(copy.extent) << " from "
      << testing::PrintToString(copy.in_stride) << " to "
      << testing::PrintToString(copy.out_stride);
}

TEST_P(CopyStridedTargets, AgreeOnMatricesOfEverySmallSizeAndWithRoomBetweenRows) {
  const Bytes in = RandomBytes(8 * 300 * 300, 1);
  for (const int bits : kElementBits) {
    for (const int64_t rows : {1, 2, 7, 8, 16, 31, 64, 65, 128, 131, 258}) {
      for (const int64_t columns : {1, 2, 3, 8, 17, 32, 64, 66, 127, 128, 260}) {
        for (const int64_t room : {0, 2, 3}) {
          const StridedCopy copy = {.rank = 2,
                                    .extent = {columns, rows},
                                    .in_stride = {1, columns + room},
                                    .out_stride = {rows + room, 1},
                                    .in_offset = room / 3,
                                    .out_offset = room / 2};
          const size_t out_bytes = static_cast<size_t>((rows + room) * (columns + 1) * bits / 8);
          ExpectAgreement(copy, bits, in, out_bytes + 16);
        }
      }
    }
  }
}

TEST_P(CopyStridedTargets, AgreeOnPermutedSlicesOfAnyRank) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < Repetitions(4000); ++round) {
    const int rank = 1 + static_cast<int>(random() % 6);
    const int64_t most = rank < 3 ? 150 : rank < 5 ? 12 : 6;
    StridedCopy copy = {.rank = rank};
    std::array<int64_t, 8> dims;
    int64_t in_stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      dims[i] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
      const int64_t whole = dims[i] + static_cast<int64_t>(random() % 3);
      copy.extent[i] = dims[i];
      copy.in_stride[i] = in_stride;
      in_stride *= whole;
    }
    std::vector<int> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    int64_t out_stride = 1;
    for (const int axis : order) {
      copy.out_stride[axis] = out_stride;
      out_stride *= dims[axis] + static_cast<int64_t>(random() % 3);
    }
    copy.in_offset = static_cast<int64_t>(random() % 4);
    copy.out_offset = static_cast<int64_t>(random() % 4);
    for (const int bits : kElementBits) {
      const Bytes in = RandomBytes(static_cast<size_t>((in_stride + 4) * bits / 8 + 16), random());
      ExpectAgreement(copy, bits, in, static_cast<size_t>((out_stride + 4) * bits / 8 + 16));
      if (HasFatalFailure()) return;
    }
    const Pair& pair = kPairs[random() % std::size(kPairs)];
    const auto elements = static_cast<size_t>(in_stride + 4);
    const Bytes in = RandomBytes(elements * 8, random());
    Bytes out(static_cast<size_t>(out_stride + 4) * 8, 0x5A);
    ExpectConvertedAgreement(copy, pair, in, elements, out, 0);
    if (HasFatalFailure()) return;
  }
}

// With stores that pass the cache by, to rows that begin on a cache line and to rows that do not.
TEST_P(CopyStridedTargets, AgreeOnLargeMatricesInTheCacheAndPastIt) {
  constexpr int64_t kRows = 700;
  const Bytes in = RandomBytes(size_t{4} << 20, 2);
  for (const int64_t room : {0, 2, 4}) {
    for (const bool stream : {false, true}) {
      const auto copy_of = [&](int64_t columns) {
        return StridedCopy{.rank = 2,
                           .extent = {columns, kRows},
                           .in_stride = {1, columns},
                           .out_stride = {kRows + room, 1},
                           .stream = stream};
      };
      for (const int bits : kElementBits) {
        const int64_t columns = (int64_t{5} << 20) / bits / kRows / 2 * 2;
        const StridedCopy copy = copy_of(columns);
        const size_t out_bytes = static_cast<size_t>((kRows + room) * columns * bits / 8);
        Bytes expected(out_bytes + 64);
        Bytes actual(out_bytes + 64);
        const size_t aligned = 64 - reinterpret_cast<uintptr_t>(actual.data()) % 64;
        ReferenceCopyStrided(copy, bits, in.data(), expected.data() + aligned);
        CopyStrided(copy, bits, in.data(), actual.data() + aligned);
        ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
            << bits << " bits, " << room << (stream ? " past the cache" : "");
      }
      for (const Pair& pair : kPairs) {
        const int64_t columns = 270;
        Bytes actual(static_cast<size_t>((kRows + room) * columns * BitWidth(pair.to) / 8) + 64);
        const size_t aligned = 64 - reinterpret_cast<uintptr_t>(actual.data()) % 64;
        ExpectConvertedAgreement(copy_of(columns), pair, in, static_cast<size_t>(kRows * columns),
                                 actual, aligned);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace npubank::kernels
