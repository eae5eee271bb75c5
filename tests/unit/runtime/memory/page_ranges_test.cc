#include "npubank/runtime/memory/page_ranges.h"
#include "npubank/tests/support/repetitions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>

namespace npubank {
namespace {

constexpr uint64_t kPage = PageRange::kPageBytes;

TEST(PageRangesTest, RangesThatTouchAreJoinedAndOthersAreNot) {
  PageRanges ranges;
  EXPECT_TRUE(ranges.empty());
  ranges.Add(100, 50);
  ranges.Add(2 * kPage, 1);
  EXPECT_EQ(ranges.Find(0, kPage), (PageRange{0, kPage}));
  EXPECT_EQ(ranges.Find(0, kPage + 1), std::nullopt) << "the page between is nobody's";
  ranges.Add(kPage, kPage);
  EXPECT_EQ(ranges.Find(0, kPage), (PageRange{0, 3 * kPage}));
  EXPECT_EQ(ranges.Find(3 * kPage, 1), std::nullopt);
  EXPECT_FALSE(ranges.empty());
}

// Against a set of pages.
TEST(PageRangesTest, RandomRangesAreWhatTheirPagesAre) {
  std::mt19937 random(PrintedSeed());
  for (int round = 0; round < Repetitions(2000); ++round) {
    PageRanges ranges;
    std::set<uint64_t> pages;
    for (int i = 0; i < 20; ++i) {
      const uint64_t offset = random() % (60 * kPage);
      const uint64_t bytes = 1 + random() % (4 * kPage);
      ranges.Add(offset, bytes);
      for (uint64_t page = offset / kPage; page <= (offset + bytes - 1) / kPage; ++page)
        pages.insert(page);
      for (uint64_t page = 0; page < 66; ++page) {
        const auto found = ranges.Find(page * kPage, kPage);
        ASSERT_EQ(found.has_value(), pages.count(page) == 1);
        if (!found) continue;
        for (uint64_t other = found->begin / kPage; other < found->end / kPage; ++other)
          ASSERT_EQ(pages.count(other), 1u);
        ASSERT_EQ(pages.count(found->end / kPage), 0u) << "not joined";
        if (found->begin > 0) {
          ASSERT_EQ(pages.count(found->begin / kPage - 1), 0u) << "not joined";
        }
      }
    }
  }
}

}  // namespace
}  // namespace npubank
