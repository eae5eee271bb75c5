// What a caller may ask of a bank: BankOptions when it is made, OwnerOptions, LoadOptions and
// SleepOptions later. All have defaults that suit one model on one device.
//
//   auto bank = Bank::Create(memory, {.budget_bytes = 512 << 20});
//   Owner owner = bank->AddOwner("prefill", {.index = index});
//   bank->Load(owner, {.progress = [](const LoadProgress& progress) { ... }});
#ifndef NPUBANK_BANK_BANK_OPTIONS_H_
#define NPUBANK_BANK_BANK_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

class CacheFile;
class SourceIndex;
class Upstream;
class Workers;

struct BankOptions {
  // Threads for evaluation (lazy_tensor/base/parallel.h); null evaluates on the calling thread.
  std::shared_ptr<Workers> workers = nullptr;
  // Device bytes that tensors may take, as the strategy rounds them. Over it, idle tensors leave.
  uint64_t budget_bytes = ~uint64_t{0};
  // Tensors that nobody owns or leases stay until their room is needed, so that a model that comes
  // again finds them. Off: they go back to the device at once.
  bool keep_unowned = false;
  // Tensors with equal bytes share one allocation although their recipes or files differ. Each new
  // tensor is sampled, and compared in full with those that look like it (bank/loading/content.h).
  bool share_content = true;
  // Evaluated tensors of earlier runs (bank/files/cache_file.h); Save it when the models are loaded.
  std::shared_ptr<CacheFile> cache = nullptr;
  // Another bank that may have a tensor already (bank/upstream.h); none unless it is given.
  std::shared_ptr<Upstream> upstream = nullptr;
  // For tests: what is used in place of a content's sample, to make tensors look alike that do not.
  std::function<Digest(const Digest&)> content_hash_hook = nullptr;
};

// What an owner can do for the bank later.
struct OwnerOptions {
  // Where the stored parts of what this owner registers are found: its files stay open during a load
  // and are opened again when an evicted tensor is wanted. A tensor whose parts are not in it, or
  // that is registered without one, leaves the device only for a Sleep that keeps host copies (a
  // described tensor brings its own index).
  std::shared_ptr<const SourceIndex> index = nullptr;
};

struct LoadProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of the tensors this call will evaluate or wait for
  absl::string_view tensor;  // the one just finished
};

struct LoadOptions {
  // On the calling thread, after each tensor; of what an upstream makes for this load, as it says so.
  // It may call the bank, but not load what needs room: such a load would wait for the one that calls it.
  std::function<void(const LoadProgress&)> progress;
  // Asked between tiles, from any worker, and while this call waits for another's evaluation or for
  // room. A tensor that others wait for as well is finished first.
  std::function<bool()> cancelled;
};

struct SleepOptions {
  // Copy what leaves to host memory first: loading it again then needs neither the checkpoint nor a
  // transformation. The copies stay until a Load has succeeded.
  bool keep_host_copy = false;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BANK_OPTIONS_H_
