#include "npubank/compiler_stub/planner/files/svg.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace npubank {
namespace {

constexpr double kWidth = 1200;  // of the drawing area, in pixels
constexpr double kHeight = 600;
constexpr double kLeft = 90;
constexpr double kTop = 50;
constexpr double kLegend = 24;  // height of a line of it
constexpr int kLegendColumns = 8;
constexpr size_t kMaxNamed = 20;  // values in a tooltip
constexpr double kLetter = 7;     // width of one, about
constexpr double kLine = 14;      // height of one

// Easy to tell apart, also for most colour-blind readers; kinds beyond these share.
constexpr std::array<const char*, 12> kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                                  "#76b7b2", "#edc948", "#b07aa1", "#ff9da7",
                                                  "#9c755f", "#86bcb6", "#d37295", "#bab0ac"};

std::string Escaped(absl::string_view text) {
  std::string out = absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&apos;"}});
  // XML has no way to write most control characters.
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  return out;
}

std::string InUnits(uint64_t bytes) {
  if (bytes >= 1 << 20) {
    return absl::StrFormat("%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  if (bytes >= 1 << 10) return absl::StrFormat("%.2f KiB", static_cast<double>(bytes) / (1 << 10));
  return absl::StrCat(bytes, " B");
}

double Ratio(const Plan& plan) {
  if (plan.lower_bound == 0) return 1;
  return static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound);
}

// From operations and bytes to pixels.
class Canvas {
 public:
  Canvas(const Problem& problem, const Plan& plan) {
    for (const Buffer& buffer : problem.buffers) end_ = std::max(end_, buffer.upper);
    top_ = std::max({uint64_t{1}, plan.bytes, plan.lower_bound});
  }
  double X(int64_t time) const {
    return kLeft + kWidth * static_cast<double>(time) / static_cast<double>(end_);
  }
  double Y(uint64_t offset) const {
    return kTop + kHeight * (1 - static_cast<double>(offset) / static_cast<double>(top_));
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 1;
  uint64_t top_ = 1;
};

// What a rectangle holds, where there is room to say it.
void DrawName(const Buffer& buffer, double left, double right, double top, double bottom,
              std::string* out) {
  const std::string& name = buffer.values.empty() ? buffer.id : buffer.values.front();
  const auto letters = static_cast<size_t>((right - left) / kLetter);
  if (bottom - top < kLine || letters < 4) return;
  absl::StrAppendFormat(
      out, "<text x='%.2f' y='%.2f' text-anchor='middle' fill='#fff'>%s</text>\n",
      (left + right) / 2, (top + bottom) / 2 + 4,
      Escaped(absl::string_view(name).substr(name.size() > letters ? name.size() - letters : 0)));
}

void DrawBuffer(const Canvas& canvas, const Buffer& buffer, uint64_t offset, const char* colour,
                std::string* out) {
  const double x = canvas.X(buffer.lower);
  const double y = canvas.Y(offset + buffer.size);
  std::string values = absl::StrJoin(
      buffer.values.begin(),
      buffer.values.begin() + static_cast<int64_t>(std::min(buffer.values.size(), kMaxNamed)),
      ", ");
  if (buffer.values.size() > kMaxNamed) {
    absl::StrAppend(&values, " and ", buffer.values.size() - kMaxNamed, " more");
  }
  absl::StrAppendFormat(out,
                        "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'>"
                        "<title>%s (%s)\n%s at %d\noperations [%d, %d)\n%s</title></rect>\n",
                        x, y, canvas.X(buffer.upper) - x, canvas.Y(offset) - y, colour,
                        Escaped(buffer.id), Escaped(buffer.kind), InUnits(buffer.size), offset,
                        buffer.lower, buffer.upper, Escaped(values));
  DrawName(buffer, canvas.X(buffer.lower), canvas.X(buffer.upper), y, canvas.Y(offset), out);
}

void DrawAxes(const Canvas& canvas, const Plan& plan, std::string* out) {
  absl::StrAppendFormat(out,
                        "<rect x='%.0f' y='%.0f' width='%.0f' height='%.0f' fill='none' "
                        "stroke='#333'/>\n",
                        kLeft, kTop, kWidth, kHeight);
  absl::StrAppendFormat(out, "<text x='%.0f' y='%.2f' text-anchor='end'>%s</text>\n", kLeft - 6,
                        canvas.Y(plan.bytes) + 4, InUnits(plan.bytes));
  absl::StrAppendFormat(out, "<text x='%.0f' y='%.0f' text-anchor='end'>0</text>\n", kLeft - 6,
                        canvas.Y(0));
  absl::StrAppendFormat(out, "<text x='%.0f' y='%.0f' text-anchor='end'>%d operations</text>\n",
                        kLeft + kWidth, kTop + kHeight + 18, canvas.end());
  const double y = canvas.Y(plan.lower_bound);
  absl::StrAppendFormat(out,
                        "<line x1='%.0f' y1='%.2f' x2='%.0f' y2='%.2f' stroke='#c00' "
                        "stroke-dasharray='6 4'><title>lower bound %s</title></line>\n",
                        kLeft, y, kLeft + kWidth, y, InUnits(plan.lower_bound));
  absl::StrAppendFormat(
      out, "<text x='%.0f' y='%.2f' text-anchor='end' fill='#c00'>lower bound</text>\n",
      kLeft + kWidth, y - 4);
}

}  // namespace

std::string DrawPlan(const Problem& problem, const Plan& plan, absl::string_view title) {
  const Canvas canvas(problem, plan);
  std::map<std::string, const char*> colours;
  for (const Buffer& buffer : problem.buffers) colours.emplace(buffer.kind, nullptr);
  size_t next = 0;
  for (auto& [kind, colour] : colours) colour = kColours[next++ % kColours.size()];

  const double legend_top = kTop + kHeight + 30;
  const double lines = static_cast<double>((colours.size() + kLegendColumns - 1) / kLegendColumns);
  std::string out = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
      "font-family='sans-serif' font-size='12'>\n"
      "<style>rect{stroke:#fff;stroke-width:.4}</style>\n"
      "<text x='%.0f' y='24' font-size='16'>%s: %s, %.4f of the lower bound %s</text>\n",
      kLeft + kWidth + 20, legend_top + lines * kLegend + 10, kLeft, Escaped(title),
      InUnits(plan.bytes), Ratio(plan), InUnits(plan.lower_bound));
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    DrawBuffer(canvas, buffer, plan.offsets[i], colours[buffer.kind], &out);
  }
  DrawAxes(canvas, plan, &out);
  int at = 0;
  for (const auto& [kind, colour] : colours) {
    const double x = kLeft + kWidth / kLegendColumns * (at % kLegendColumns);
    const double y = legend_top + kLegend * (at / kLegendColumns);
    absl::StrAppendFormat(&out,
                          "<rect x='%.0f' y='%.0f' width='12' height='12' fill='%s'/>"
                          "<text x='%.0f' y='%.0f'>%s</text>\n",
                          x, y, colour, x + 18, y + 11, Escaped(kind));
    ++at;
  }
  absl::StrAppend(&out, "</svg>\n");
  return out;
}

std::string DescribePlan(const Problem& problem, const Plan& plan) {
  const uint64_t sum = SumOfSizes(problem);
  return absl::StrFormat(
      "buffers      %d\n"
      "sum          %d (%s)\n"
      "lower bound  %d (%s)\n"
      "plan         %d (%s)\n"
      "ratio        %.4f%s\n"
      "found by     %s, %d steps of search%s\n",
      problem.buffers.size(), sum, InUnits(sum), plan.lower_bound, InUnits(plan.lower_bound),
      plan.bytes, InUnits(plan.bytes), Ratio(plan), plan.proven ? ", nothing smaller exists" : "",
      plan.method, plan.steps, plan.timed_out ? ", ended by the time limit" : "");
}

}  // namespace npubank
