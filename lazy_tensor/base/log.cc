#include "npubank/lazy_tensor/base/log.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {
namespace {

using Sink = std::function<void(absl::string_view)>;

struct Process {
  Mutex mutex;
  std::shared_ptr<const Sink> sink ABSL_GUARDED_BY(mutex);  // null: standard error
};

Process& TheProcess() {
  static Process& process = *new Process;
  return process;
}

}  // namespace

void SetLogSink(Sink sink) {
  auto next = sink == nullptr ? nullptr : std::make_shared<const Sink>(std::move(sink));
  Process& process = TheProcess();
  MutexLock lock(process.mutex);
  process.sink.swap(next);  // the old one goes after the lock
}

void Log(absl::string_view line) {
  std::shared_ptr<const Sink> sink;
  {
    Process& process = TheProcess();
    MutexLock lock(process.mutex);
    sink = process.sink;
  }
  if (sink != nullptr) return (*sink)(line);
  std::fprintf(stderr, "npubank: %s\n", std::string(line).c_str());
}

}  // namespace npubank
