#include "npubank/lazy_tensor/sources/source_opener.h"

#include <utility>

namespace npubank {
namespace {

class PathOpener final : public SourceOpener {
 public:
  PathOpener(std::string path, FileAccess access) : path_(std::move(path)), access_(access) {}
  absl::StatusOr<std::shared_ptr<Source>> Open() override {
    return Source::OpenFile(path_, access_);
  }

 private:
  const std::string path_;
  const FileAccess access_;
};

class HeldSource final : public SourceOpener {
 public:
  explicit HeldSource(std::shared_ptr<Source> source) : source_(std::move(source)) {}
  absl::StatusOr<std::shared_ptr<Source>> Open() override { return source_; }

 private:
  const std::shared_ptr<Source> source_;
};

}  // namespace

std::unique_ptr<SourceOpener> SourceOpener::Path(std::string path, FileAccess access) {
  return std::make_unique<PathOpener>(std::move(path), access);
}

std::unique_ptr<SourceOpener> SourceOpener::Held(std::shared_ptr<Source> source) {
  return std::make_unique<HeldSource>(std::move(source));
}

}  // namespace npubank
