// Log: what the library has to say that no caller asked for and no Status carries: what a driver lacks, what is done
// the next best way. One line each, without a line break.
//
//   SetLogSink([](absl::string_view line) { my_logger.Warn(line); });   // of the process
//   SetLogSink(nullptr);                                                // standard error again
//
// Threads: any. A sink is called from whichever thread has something to say, from several at once, and holds no lock
// of ours; one that was replaced may still be running when SetLogSink returns. It may call the library. Errors: none.
#ifndef NPUBANK_LAZY_TENSOR_BASE_LOG_H_
#define NPUBANK_LAZY_TENSOR_BASE_LOG_H_

#include <functional>

#include "absl/strings/string_view.h"

namespace npubank {

void SetLogSink(std::function<void(absl::string_view line)> sink);

void Log(absl::string_view line);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_LOG_H_
