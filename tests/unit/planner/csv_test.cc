#include "npubank/compiler_stub/planner/files/csv.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Csv, ReadsLifetimesAndSizes) {
  const auto csv = ParseCsv("id,lower,upper,size\nq,2,6,4096\nk,3,7,1024\n");
  ASSERT_TRUE(csv.ok()) << csv.status();
  ASSERT_EQ(csv->problem.buffers.size(), 2u);
  EXPECT_EQ(csv->problem.buffers[1].id, "k");
  EXPECT_EQ(csv->problem.buffers[1].lower, 3);
  EXPECT_EQ(csv->problem.buffers[1].upper, 7);
  EXPECT_EQ(csv->problem.buffers[1].size, 1024);
  EXPECT_THAT(csv->offsets, IsEmpty());
}

TEST(Csv, ReadsAPlanToo) {
  const auto csv = ParseCsv("id,lower,upper,size,offset\r\nq,2,6,4096,64\r\n\r\n");
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_THAT(csv->offsets, ElementsAre(64));
}

TEST(Csv, WritesWhatItReads) {
  for (const char* text : {"id,lower,upper,size\nq,2,6,4096\nk,3,7,1024\n",
                           "id,lower,upper,size,offset\nq,2,6,8,64\n", "id,lower,upper,size\n"}) {
    const auto csv = ParseCsv(text);
    ASSERT_TRUE(csv.ok()) << csv.status();
    EXPECT_EQ(*FormatCsv(csv->problem, csv->offsets), text);
  }
}

TEST(Csv, DoesNotWriteWhatItCouldNotRead) {
  Problem problem;
  problem.buffers.push_back({.id = "a,b", .lower = 0, .upper = 1, .size = 1});
  EXPECT_EQ(FormatCsv(problem, {}).status().code(), absl::StatusCode::kInvalidArgument);
  problem.buffers[0].id = "a";
  EXPECT_EQ(FormatCsv(problem, {0, 1}).status().code(), absl::StatusCode::kInvalidArgument);
}

struct Hostile {
  const char* text;
  const char* why;
};

class HostileCsv : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileCsv, IsRefusedByLine) {
  const absl::Status status = ParseCsv(GetParam().text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Csv, HostileCsv,
    ::testing::Values(
        Hostile{"", "line 1: the header"}, Hostile{"id,lower,upper\n", "line 1: the header"},
        Hostile{"id,lower,upper,size,offset,more\n", "line 1: the header"},
        Hostile{"\nid,lower,upper,size\n", "line 1: the header"},
        Hostile{"id,lower,upper,size\na,0,1\n", "line 2: 3 fields, the header has 4"},
        Hostile{"id,lower,upper,size\na,0,1,8,0\n", "line 2: 5 fields"},
        Hostile{"id,lower,upper,size\na,0,1,8\nb,0,1\n", "line 3"},
        Hostile{"id,lower,upper,size\na,x,1,8\n", "line 2: lower 'x'"},
        Hostile{"id,lower,upper,size\na,-1,1,8\n", "line 2: lower '-1'"},
        Hostile{"id,lower,upper,size\na,0,1,-8\n", "line 2: size '-8'"},
        Hostile{"id,lower,upper,size\na,0,1,\n", "line 2: size ''"},
        Hostile{"id,lower,upper,size\na,0,1,1.5\n", "line 2: size '1.5'"},
        Hostile{"id,lower,upper,size\na,0,1,9223372036854775808\n", "line 2: size"},
        Hostile{"id,lower,upper,size\na,1,1,8\n", "line 2: lower 1 is not below upper 1"},
        Hostile{"id,lower,upper,size\na,2,1,8\n", "line 2: lower 2"},
        Hostile{"id,lower,upper,size,offset\na,0,1,8,-1\n", "line 2: offset '-1'"},
        Hostile{"id,lower,upper,size\na,0,1,9223372036854775807\n", "line 2: the sizes"},
        Hostile{"id,lower,upper,size\na,0,1,5000000000000000000\nb,0,1,5000000000000000000\n",
                "line 3: the sizes up to here pass 2^63"}));

TEST(Csv, AnswersAHugeFieldWithAShortMessage) {
  const absl::Status status =
      ParseCsv(absl::StrCat("id,lower,upper,size\na,0,1,", std::string(100'000, '9'))).status();
  EXPECT_LT(status.message().size(), 200u);
}

}  // namespace
}  // namespace npubank
