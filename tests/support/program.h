// RunProgram: runs one of the project's programs and keeps what it printed.
//
//   ProgramResult result = RunProgram({NPUBANK_BIN "/bank-run", "--model", folder});
//   EXPECT_EQ(result.exit_status, 1);
//
// A bank-run that is not told which service to use gets --service off: what runs on the machine beside
// the tests is none of their business. Threads: any.
#ifndef NPUBANK_TESTS_SUPPORT_PROGRAM_H_
#define NPUBANK_TESTS_SUPPORT_PROGRAM_H_

#include <string>
#include <vector>

namespace npubank {

struct ProgramResult {
  int exit_status = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string error;
};

ProgramResult RunProgram(const std::vector<std::string>& arguments);

// The whole of a file, and a file from a string; both fail the test when they cannot.
std::string ReadWholeFile(const std::string& path);
void WriteWholeFile(const std::string& path, const std::string& bytes);

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_PROGRAM_H_
