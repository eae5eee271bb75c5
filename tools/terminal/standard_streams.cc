#include "npubank/tools/terminal/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace npubank {
namespace {

// From the lowest up: the system gives the lowest number that is free.
void OpenWhatIsClosed() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int wrong_way = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", wrong_way) != number) std::_Exit(1);  // nothing could be said either
  }
}

void FinishOutput() {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fclose(stdout) == 0 && !failed_before) return;
  std::fprintf(stderr, "error: the output could not be written%s%s\n", errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  std::_Exit(1);
}

}  // namespace

void GuardStandardStreams() {
  OpenWhatIsClosed();
  std::atexit(FinishOutput);
}

}  // namespace npubank
