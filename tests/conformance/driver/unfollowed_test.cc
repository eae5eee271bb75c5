// The facts about a real NPU that the software NPU does not follow: printed, and held to its README.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace npubank {
namespace {

// The rows of the table under the heading "Facts not followed": what a real NPU does, and what is
// here and why.
struct Row {
  std::string fact;
  std::string reason;
};

std::vector<Row> RowsOfTheReadme() {
  std::ifstream readme(NPUBANK_SOURCE_DIR "/runtime/software_npu/README.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("## ", 0) == 0) inside = line == "## Facts not followed";
    if (!inside || line.rfind("| ", 0) != 0 || line.rfind("| fact", 0) == 0) continue;
    const size_t middle = line.find(" | ", 2);
    if (middle == std::string::npos) continue;
    rows.push_back({line.substr(2, middle - 2), line.substr(middle + 3, line.size() - middle - 5)});
  }
  return rows;
}

// The same facts once more, so that neither list changes alone.
const std::vector<std::string> kFacts = {
    "A pin keeps pages that their file loses",
    "A pin of private memory outlives munmap",
    "A pin takes every page into memory and keeps it there",
    "Immediate command lists work without events",
    "The graph extension is 1.16 and others are reported",
    "The device is 'Intel(R) AI Boost'",
    "A real driver's native blobs execute",
    "Parents destroyed before their children are used after free",
    "No fork with a live context",
    "Dma-buf imports use a smaller address range",
    "CPU reads of device memory are slow",
    "Large copies are split at 8 MiB",
    "Waits end early when a signal comes",
    "Pages are committed lazily and a submission may be the first to fail",
};

TEST(UnfollowedTest, FactsThatAreNotFollowedAreListedWithTheirReason) {
  std::vector<std::string> facts;
  for (const Row& row : RowsOfTheReadme()) {
    std::cout << "[NOT FOLLOWED] " << row.fact << ": " << row.reason << std::endl;
    EXPECT_GT(row.reason.size(), 10u) << row.fact;
    facts.push_back(row.fact);
  }
  EXPECT_EQ(facts, kFacts);
}

}  // namespace
}  // namespace npubank
