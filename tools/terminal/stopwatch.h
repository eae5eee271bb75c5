// Stopwatch: the seconds since it was made.
#ifndef NPUBANK_TOOLS_TERMINAL_STOPWATCH_H_
#define NPUBANK_TOOLS_TERMINAL_STOPWATCH_H_

#include <chrono>

namespace npubank {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TERMINAL_STOPWATCH_H_
