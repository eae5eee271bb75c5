#include "npubank/runtime/memory/strategies/committed.h"

#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/memory/held_buffer.h"

namespace npubank {
namespace {

class CommittedBlock : public Block {
 public:
  explicit CommittedBlock(HeldBuffer buffer) : buffer_(std::move(buffer)) {}
  std::byte* address() const override { return buffer_.address(); }
  uint64_t reserved_bytes() const override { return buffer_.reserved_bytes(); }

 private:
  HeldBuffer buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Block>> Committed::Allocate(uint64_t bytes, uint64_t,
                                                           absl::string_view name) {
  NPUBANK_ASSIGN_OR_RETURN(level_zero::Buffer buffer,
                           level_zero::Buffer::AllocateDevice(device_, bytes, name));
  return std::make_unique<CommittedBlock>(HeldBuffer(std::move(buffer), accounting_));
}

absl::StatusOr<uint64_t> Committed::PageBytes() {
  NPUBANK_ASSIGN_OR_RETURN(const std::unique_ptr<Block> one_byte,
                           Allocate(1, 1, "asking for the size of a page"));
  return one_byte->reserved_bytes();
}

}  // namespace npubank
