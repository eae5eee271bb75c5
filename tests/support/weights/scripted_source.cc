#include "npubank/tests/support/weights/scripted_source.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace npubank {

std::shared_ptr<ScriptedSource> ScriptedSource::Make(const std::string& name,
                                                     std::vector<std::byte> bytes) {
  const Digest identity = DigestBuilder("scripted source").Add(name).Finish();
  return std::shared_ptr<ScriptedSource>(new ScriptedSource(name, identity, std::move(bytes)));
}

ScriptedSource::ScriptedSource(const std::string& name, Digest identity,
                               std::vector<std::byte> bytes)
    : Source(name, identity, bytes.size()), bytes_(std::move(bytes)) {}

absl::Status ScriptedSource::Read(uint64_t offset, absl::Span<std::byte> out) const {
  if (on_read) on_read();
  ++reads_;
  // Counted down by the read that finds it above zero, so that exactly one read fails.
  int64_t left = until_failure_.load();
  while (left > 0 &&
         !until_failure_.compare_exchange_weak(left, for_ever_ && left == 1 ? 1 : left - 1)) {
  }
  if (left == 1) return absl::DataLossError(absl::StrCat("injected: cannot read '", name(), "'"));
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    return absl::OutOfRangeError(absl::StrCat("reading beyond the end of '", name(), "'"));
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const std::byte>> ScriptedSource::View(uint64_t, uint64_t) const {
  return absl::FailedPreconditionError("a scripted source is read, not viewed");
}

void ScriptedSource::FailRead(int64_t nth, bool forever) {
  for_ever_ = forever;
  until_failure_ = nth;
}

}  // namespace npubank
