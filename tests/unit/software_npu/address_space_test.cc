// How the process has its addresses mapped: asked of the kernel, read from its list, and as the test mapped them.
#include "npubank/runtime/software_npu/memory/address_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank::software_npu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPages = 64;

auto Members(const Region& region) {
  return std::tuple(region.begin, region.end, region.readable, region.writable, region.shared, region.file,
                    region.memory_file);
}

class AddressSpaceTest : public ::testing::Test {
 protected:
  AddressSpaceTest() {
    memory_ = memfd_create("pages", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(memory_, kPages * kPage), 0);
    EXPECT_EQ(truncate(file_.path().c_str(), kPages * kPage), 0);
    disk_ = open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
    void* const all = mmap(nullptr, kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = reinterpret_cast<uint64_t>(all);
    mapped_.assign(kPages, Region{});
    for (uint64_t page = 0; page < kPages; ++page) mapped_[page].end = 1;  // there
  }
  ~AddressSpaceTest() override {
    munmap(reinterpret_cast<void*>(begin_), kPages * kPage);
    close(memory_);
    close(disk_);
  }

  // Some pages become something else, or nothing.
  void Change() {
    const uint64_t first = random_() % kPages;
    const uint64_t count = 1 + random_() % std::min<uint64_t>(8, kPages - first);
    void* const at = reinterpret_cast<void*>(begin_ + first * kPage);
    const bool shared = random_() % 2 == 0;
    const int protection = static_cast<int>(random_() % 4);  // of PROT_READ and PROT_WRITE
    const int kinds[] = {-1, memory_, disk_};
    const int fd = kinds[random_() % 3];
    Region made;
    if (random_() % 4 == 0) {
      munmap(at, count * kPage);
    } else {
      const int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | (fd < 0 ? MAP_ANONYMOUS : 0);
      ASSERT_EQ(mmap(at, count * kPage, protection, flags | MAP_FIXED, fd,
                     fd < 0 ? 0 : static_cast<off_t>(first * kPage)),
                at);
      made = {.end = 1,
              .readable = (protection & PROT_READ) != 0,
              .writable = (protection & PROT_WRITE) != 0,
              .shared = shared,
              .file = fd >= 0 || shared,
              .memory_file = fd == memory_ || (fd < 0 && shared)};
    }
    for (uint64_t page = first; page < first + count; ++page) mapped_[page] = made;
  }

  // Each page of [first, last) as the regions say.
  void ExpectAsMapped(const std::vector<Region>& regions, uint64_t first, uint64_t last) const {
    auto region = regions.begin();
    for (uint64_t page = first; page < last; ++page) {
      const uint64_t address = begin_ + page * kPage;
      while (region != regions.end() && region->end <= address) ++region;
      const bool there = region != regions.end() && region->begin <= address;
      ASSERT_EQ(there, mapped_[page].end != 0) << page;
      if (!there) continue;
      Region expected = mapped_[page];
      expected.begin = region->begin;
      expected.end = region->end;
      ASSERT_EQ(Members(*region), Members(expected)) << page;
    }
  }

  std::mt19937_64 random_{PrintedSeed()};
  const npubank::testing::TemporaryFile file_;
  int memory_ = -1;
  int disk_ = -1;
  uint64_t begin_ = 0;
  std::vector<Region> mapped_;  // by page; without an end: nothing
};

TEST_F(AddressSpaceTest, TheKernelsAnswerAndItsListSayHowRandomMapsWereMade) {
  for (int round = 0; round < Repetitions(5000); ++round) {
    SCOPED_TRACE(round);
    Change();
    const uint64_t first = random_() % kPages;
    const uint64_t last = first + 1 + random_() % (kPages - first);
    const uint64_t begin = begin_ + first * kPage;
    const uint64_t end = begin_ + last * kPage;
    const std::vector<Region> asked = RegionsOf(begin, end);
    const std::vector<Region> listed = RegionsFromList(begin, end);
    ASSERT_EQ(asked.size(), listed.size());
    for (size_t i = 0; i < asked.size(); ++i) ASSERT_EQ(Members(asked[i]), Members(listed[i])) << i;
    ExpectAsMapped(asked, first, last);
    bool whole = true;
    for (uint64_t page = first; page < last; ++page) whole = whole && mapped_[page].readable;
    EXPECT_EQ(CoverWhole(asked, begin, end), whole);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AddressSpaceTest, RegionsAreCutToWhatWasAskedForNotToPages) {
  for (const auto& regions :
       {RegionsOf(begin_ + 10, begin_ + 20), RegionsFromList(begin_ + 10, begin_ + 20)}) {
    ASSERT_EQ(regions.size(), 1u);
    EXPECT_EQ(regions[0].begin, begin_ + 10);
    EXPECT_EQ(regions[0].end, begin_ + 20);
  }
  EXPECT_TRUE(RegionsOf(begin_, begin_).empty());
}

// What is open of the system's is the parent's: a child must not ask there.
TEST_F(AddressSpaceTest, AChildIsToldOfItsOwnMapsAndNotOfItsParents) {
  EXPECT_EQ(RegionsOf(begin_, begin_ + kPage).size(), 1u);
  const pid_t child = fork();
  if (child == 0) {
    munmap(reinterpret_cast<void*>(begin_), kPage);
    _exit(RegionsOf(begin_, begin_ + kPage).empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(RegionsOf(begin_, begin_ + kPage).size(), 1u);
}

}  // namespace
}  // namespace npubank::software_npu
