#include "npubank/tools/terminal/progress_bar.h"

#include <unistd.h>

#include <cstdio>

namespace npubank {
namespace {

constexpr int kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(absl::string_view title)
    : title_(title), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && shown_percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::Show(uint64_t done, uint64_t total, absl::string_view detail) {
  if (!terminal_ || total == 0) return;
  const int percent = static_cast<int>(100.0 * done / total);
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  const std::string bar(kWidth * percent / 100, '#');
  std::fprintf(stderr, "\r\033[K%s [%-*s] %3d%% %s", title_.c_str(), kWidth, bar.c_str(), percent,
               std::string(detail.substr(0, 40)).c_str());
}

}  // namespace npubank
