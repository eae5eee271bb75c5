// A runtime of several models with a device memory and kernels of its own.
//
//   own_device
//
// The "card" is plain memory that the host reaches through a window of 64 KiB. Two models share a weight; the budget
// has room for one of them; who comes back brings its weights back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace {

using namespace npubank;

class CardMemory final : public DeviceMemory {
 public:
  static constexpr uint64_t kPage = 4096, kWindow = 64 << 10;
  std::string name() const override { return "card"; }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view tensor) override {
    if (bytes == 0) return absl::InvalidArgumentError("0 bytes");
    const uint64_t reserved = (bytes + kPage - 1) / kPage * kPage;
    void* const address = reserved < bytes ? nullptr : std::aligned_alloc(kPage, reserved);
    // The bank lets idle weights leave, and asks again.
    if (address == nullptr)
      return absl::ResourceExhaustedError(absl::StrCat("no room for ", tensor));
    return std::make_unique<Block>(books_, address, bytes, reserved);
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    std::vector<std::byte> window(std::min(memory.bytes(), kWindow));
    for (uint64_t done = 0; done < memory.bytes(); done += window.size()) {
      window.resize(std::min<uint64_t>(window.size(), memory.bytes() - done));
      NPUBANK_RETURN_IF_ERROR(produce(done, absl::MakeSpan(window)));
      std::memcpy(static_cast<char*>(memory.address()) + done, window.data(), window.size());
    }
    return absl::OkStatus();
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > memory.bytes() || out.size() > memory.bytes() - offset) {
      return absl::OutOfRangeError("beyond the tensor");
    }
    std::memcpy(out.data(), static_cast<char*>(memory.address()) + offset, out.size());
    return absl::OkStatus();
  }
  DeviceUsage Usage() const override {
    std::lock_guard lock(books_->mutex);
    return books_->usage;
  }
  absl::StatusOr<uint64_t> DriverBytes() const override {
    return absl::UnimplementedError("the card does not count");
  }

 private:
  struct Books {
    std::mutex mutex;
    DeviceUsage usage;
    void Add(int64_t bytes) {
      std::lock_guard lock(mutex);
      usage.live_bytes += bytes;
      usage.live_allocations += bytes > 0 ? 1 : -1;
      usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
    }
  };
  class Block final : public DeviceAllocation {
   public:
    Block(std::shared_ptr<Books> books, void* address, uint64_t bytes, uint64_t reserved)
        : books_(std::move(books)), address_(address), bytes_(bytes), reserved_(reserved) {
      books_->Add(static_cast<int64_t>(reserved_));
    }
    ~Block() override {
      std::free(address_);
      books_->Add(-static_cast<int64_t>(reserved_));
    }
    void* address() const override { return address_; }
    uint64_t bytes() const override { return bytes_; }
    uint64_t reserved_bytes() const override { return reserved_; }
    absl::string_view strategy() const override { return "card"; }
    absl::Span<std::byte> host_bytes() override { return {}; }

   private:
    const std::shared_ptr<Books> books_;  // an allocation may outlive its memory
    void* const address_;
    const uint64_t bytes_, reserved_;
  };
  const std::shared_ptr<Books> books_ = std::make_shared<Books>();
};

// The card's kernel.
float Sum(const Lease& weights) {
  const auto* numbers = static_cast<const float*>(weights.address());
  float sum = 0;
  for (int64_t i = 0; i < weights.type().num_elements(); ++i) sum += numbers[i];
  return sum;
}

absl::StatusOr<Owner> AddModel(Bank& bank, absl::string_view name, float shared, float own) {
  Owner model = bank.AddOwner(name);
  int layer = 0;
  for (const float value : {shared, own}) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create({64, 1024}));
    NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(ElementType::kF32, shape));
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor weight, LazyTensor::Splat(type, bits));
    NPUBANK_RETURN_IF_ERROR(bank.Register(model, weight, absl::StrCat("layer", layer++)).status());
  }
  return model;
}

absl::Status Run() {
  const auto card = std::make_shared<CardMemory>();
  const auto bank = Bank::Create(card, {.budget_bytes = 512 << 10});  // of 768 KiB
  NPUBANK_ASSIGN_OR_RETURN(Owner prefill, AddModel(*bank, "prefill", 0.5f, 1));
  NPUBANK_ASSIGN_OR_RETURN(Owner kvcache, AddModel(*bank, "kvcache", 0.5f, 2));
  for (int round = 0; round < 2; ++round) {
    for (const Owner* model : {&prefill, &kvcache}) {
      {
        NPUBANK_ASSIGN_OR_RETURN(const std::vector<Lease> weights, bank->Load(*model));
        std::printf("%s: sums %g and %g, %llu KiB on the card\n", model->name().c_str(),
                    Sum(weights[0]), Sum(weights[1]),
                    static_cast<unsigned long long>(card->Usage().live_bytes >> 10));
        if (Sum(weights[0]) != 32768) return absl::InternalError("the kernel met other weights");
      }
      // The other's turn: what only this one has leaves, until it is loaded again.
      NPUBANK_RETURN_IF_ERROR(bank->Sleep(*model, {.keep_host_copy = true}).status());
    }
  }
  prefill.Release();
  kvcache.Release();
  std::printf("%llu bytes left\n", static_cast<unsigned long long>(card->Usage().live_bytes));
  return card->Usage().live_bytes == 0 ? absl::OkStatus() : absl::InternalError("a leak");
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
