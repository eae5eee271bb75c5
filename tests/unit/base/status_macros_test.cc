#include "npubank/lazy_tensor/base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace npubank {
namespace {

absl::StatusOr<int> Positive(int number) {
  if (number > 0) return number;
  return absl::InvalidArgumentError("not positive");
}

// clang-format off
absl::StatusOr<int> SumOnOneLine(int a, int b) {
  NPUBANK_ASSIGN_OR_RETURN(int first, Positive(a)); NPUBANK_ASSIGN_OR_RETURN(int second, Positive(b));
  return first + second;
}
// clang-format on

TEST(StatusMacros, TwoAssignmentsMayStandOnOneLine) {
  EXPECT_EQ(SumOnOneLine(1, 2).value(), 3);
  EXPECT_FALSE(SumOnOneLine(0, 2).ok());
  EXPECT_FALSE(SumOnOneLine(1, 0).ok());
}

absl::StatusOr<std::unique_ptr<int>> Moved(bool fails) {
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<int>> {
    if (fails) return absl::NotFoundError("none");
    return std::make_unique<int>(7);
  };
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<int> value, make());
  NPUBANK_RETURN_IF_ERROR(fails ? absl::InternalError("not reached") : absl::OkStatus());
  return value;
}

TEST(StatusMacros, ValuesAreMovedAndErrorsReturned) {
  EXPECT_EQ(**Moved(false), 7);
  EXPECT_TRUE(absl::IsNotFound(Moved(true).status()));
}

TEST(StatusMacros, AnnotateKeepsTheCodeAndLeavesOkAlone) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "reading").ok());
  EXPECT_EQ(Annotate(absl::NotFoundError("none"), "reading"), absl::NotFoundError("reading: none"));
}

}  // namespace
}  // namespace npubank
