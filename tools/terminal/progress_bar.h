// ProgressBar: one line on a terminal while weights load; silent when stderr is not a terminal.
//
//   ProgressBar bar("loading");
//   bar.Show(done, total, "layers.0.wq");
#ifndef NPUBANK_TOOLS_TERMINAL_PROGRESS_BAR_H_
#define NPUBANK_TOOLS_TERMINAL_PROGRESS_BAR_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace npubank {

class ProgressBar {
 public:
  explicit ProgressBar(absl::string_view title);
  ~ProgressBar();  // clears the line
  void Show(uint64_t done, uint64_t total, absl::string_view detail);

 private:
  std::string title_;
  bool terminal_;
  int shown_percent_ = -1;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TERMINAL_PROGRESS_BAR_H_
