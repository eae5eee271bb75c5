// ExpectRefused: an error that names a file and the name in it that is not understood.
#ifndef NPUBANK_TESTS_UNIT_FORMATS_REFUSED_NAME_H_
#define NPUBANK_TESTS_UNIT_FORMATS_REFUSED_NAME_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank {

// Refused in one line that names the file and the name, and says why.
inline void ExpectRefused(const absl::Status& status, const std::string& file, const std::string& name,
                          const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << ", not " << name;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr(file), ::testing::HasSubstr(absl::StrCat("'", name, "'")),
                               ::testing::HasSubstr(why)));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_FORMATS_REFUSED_NAME_H_
