// TestManager: a service manager as a daemon meets it: what it was given outlives the daemons that gave it. Its
// calls can be made to fail, and to wait.
//
//   TestManager manager;
//   KeptSegments kept(std::make_unique<TestStore>(manager));
//   ... another daemon: kept.TakeBack(manager.HandOver(), memory, bank);
#ifndef NPUBANK_TESTS_UNIT_SERVICE_TEST_MANAGER_H_
#define NPUBANK_TESTS_UNIT_SERVICE_TEST_MANAGER_H_

#include <fcntl.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "npubank/bank/service/daemon/descriptor_store.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank::service {

struct TestManager {
  std::map<std::string, FileDescriptor> files;
  int calls = 0;
  int failing_call = 0;  // the first is 1; 0: none
  bool forever = false;
  absl::Status failure = absl::UnavailableError("injected");
  std::function<void()> on_barrier;

  absl::Status Call() {
    ++calls;
    const bool fails =
        failing_call > 0 && (forever ? calls >= failing_call : calls == failing_call);
    return fails ? failure : absl::OkStatus();
  }
  std::vector<NamedDescriptor> HandOver() const {
    std::vector<NamedDescriptor> all;
    for (const auto& [name, file] : files) {
      all.push_back({name, FileDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0))});
    }
    return all;
  }
  std::string IndexName() const {
    std::string last;
    for (const auto& [name, file] : files) {
      if (name[0] == 'i') last = name;
    }
    return last;
  }
};

class TestStore final : public DescriptorStore {
 public:
  explicit TestStore(TestManager& manager) : manager_(manager) {}
  absl::Status Keep(const std::string& name, int descriptor) override {
    const absl::Status status = manager_.Call();
    if (!status.ok()) return status;
    manager_.files[name] = FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    return absl::OkStatus();
  }
  absl::Status Forget(const std::string& name) override {
    const absl::Status status = manager_.Call();
    if (status.ok()) manager_.files.erase(name);
    return status;
  }
  absl::Status Barrier() override {
    if (manager_.on_barrier) manager_.on_barrier();
    return manager_.Call();
  }

 private:
  TestManager& manager_;
};

}  // namespace npubank::service

#endif  // NPUBANK_TESTS_UNIT_SERVICE_TEST_MANAGER_H_
