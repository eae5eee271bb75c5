// LiveObject: says that something is alive, by kind and name, so that a leak is found by what it is.
//
//   class Source { ... LiveObject live_{"source", name}; };
//   LiveObjects();   // {"source 'model.safetensors'": 1, "Level Zero fence": 4}
//
// A member of what should not outlive its use and costs more than a line in a table: sources, indexes, copies,
// drafts, objects of a driver. bank/testing.h compares the table before and after a scope.
//
// Threads: any. Cost: a mutex and a look-up when made and when it goes.
#ifndef NPUBANK_LAZY_TENSOR_BASE_LIVE_OBJECTS_H_
#define NPUBANK_LAZY_TENSOR_BASE_LIVE_OBJECTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace npubank {

class LiveObject {
 public:
  LiveObject() = default;  // of nothing
  explicit LiveObject(absl::string_view kind, absl::string_view name = "");
  LiveObject(LiveObject&& other) noexcept : key_(std::exchange(other.key_, std::string())) {}
  LiveObject& operator=(LiveObject&& other) noexcept {
    std::swap(key_, other.key_);
    return *this;
  }
  ~LiveObject();

 private:
  std::string key_;  // empty: of nothing
};

// How many of each there are.
std::map<std::string, uint64_t> LiveObjects();

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_LIVE_OBJECTS_H_
