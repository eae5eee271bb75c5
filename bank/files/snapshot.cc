#include "npubank/bank/files/snapshot.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/files/snapshot_generated.h"
#include "npubank/lazy_tensor/base/byte_budget.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;
// In a hostile file many tables may share one long text: what is decoded may be this many times
// larger than the file. An honest one stays below ten.
constexpr uint64_t kMaxExpansion = 64;

// Owner names are written once and referred to by number.
class NameTable {
 public:
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> Add(flatbuffers::FlatBufferBuilder& builder,
                                                         const std::vector<std::string>& names) {
    std::vector<uint32_t> numbers;
    for (const std::string& name : names) {
      numbers.push_back(numbers_.emplace(name, numbers_.size()).first->second);
    }
    return builder.CreateVector(numbers);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names(numbers_.size());
    for (const auto& [name, number] : numbers_) names[number] = name;
    return names;
  }

 private:
  std::map<std::string, uint32_t> numbers_;
};

// Copies texts out of a verified buffer, as long as there is room.
class Decoder {
 public:
  Decoder(const wire::BankState& state, uint64_t room)
      : names_(state.names()), budget_(room, "a corrupt bank snapshot, whose parts repeat") {}

  absl::Status Text(const flatbuffers::String* from, std::string& to) {
    if (from == nullptr) return absl::OkStatus();
    NPUBANK_RETURN_IF_ERROR(budget_.Spend(from->size()));
    to.assign(from->data(), from->size());
    return absl::OkStatus();
  }

  absl::Status Names(const flatbuffers::Vector<uint32_t>* numbers, std::vector<std::string>& to) {
    if (numbers == nullptr) return absl::OkStatus();
    for (const uint32_t number : *numbers) {
      if (names_ == nullptr || number >= names_->size()) {
        return absl::InvalidArgumentError(absl::StrCat("corrupt: there is no name ", number));
      }
      NPUBANK_RETURN_IF_ERROR(budget_.Spend(sizeof(std::string)));
      NPUBANK_RETURN_IF_ERROR(Text(names_->Get(number), to.emplace_back()));
    }
    return absl::OkStatus();
  }

  absl::Status Tensor(const wire::TensorState& from, TensorSnapshot& to) {
    NPUBANK_RETURN_IF_ERROR(budget_.Spend(sizeof(TensorSnapshot)));
    to.uid = Uid{from.uid()};
    to.digest = Digest{from.digest_high(), from.digest_low()};
    NPUBANK_RETURN_IF_ERROR(Text(from.name(), to.name));
    NPUBANK_RETURN_IF_ERROR(Text(from.type(), to.type));
    NPUBANK_RETURN_IF_ERROR(Text(from.state(), to.state));
    NPUBANK_RETURN_IF_ERROR(Text(from.recipe(), to.recipe));
    NPUBANK_RETURN_IF_ERROR(Text(from.strategy(), to.strategy));
    NPUBANK_RETURN_IF_ERROR(Text(from.why_held(), to.why_held));
    if (from.origin() != nullptr) NPUBANK_RETURN_IF_ERROR(Text(from.origin(), to.origin));
    to.stored_bytes = from.stored_bytes();
    to.alignment = from.alignment();
    to.pool = from.pool();
    to.bytes = from.bytes();
    to.device_bytes = from.device_bytes();
    to.device_address = from.device_address();
    to.source_bytes = from.source_bytes();
    to.leases = from.leases();
    to.hits = from.hits();
    to.evaluation_seconds = from.evaluation_seconds();
    return Names(from.owners(), to.owners);
  }

 private:
  const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names_;
  ByteBudget budget_;
};

flatbuffers::Offset<wire::TensorState> EncodeTensor(flatbuffers::FlatBufferBuilder& builder,
                                                    NameTable& names,
                                                    const TensorSnapshot& tensor) {
  const auto name = builder.CreateString(tensor.name);
  const auto type = builder.CreateString(tensor.type);
  const auto state = builder.CreateSharedString(tensor.state);
  const auto recipe = builder.CreateString(tensor.recipe);
  const auto strategy = builder.CreateSharedString(tensor.strategy);
  const auto why_held = builder.CreateSharedString(tensor.why_held);
  const auto origin = builder.CreateSharedString(tensor.origin);
  const auto owners = names.Add(builder, tensor.owners);
  return wire::CreateTensorState(
      builder, tensor.uid.value, tensor.digest.high, tensor.digest.low, name, type, state, recipe,
      strategy, tensor.bytes, tensor.device_bytes, tensor.device_address, tensor.source_bytes,
      tensor.leases, tensor.hits, tensor.evaluation_seconds, owners, why_held, origin,
      tensor.stored_bytes, tensor.alignment, tensor.pool);
}

}  // namespace

std::string EncodeSnapshot(const BankSnapshot& snapshot) {
  flatbuffers::FlatBufferBuilder builder;
  NameTable names;
  std::vector<flatbuffers::Offset<wire::TensorState>> tensors;
  tensors.reserve(snapshot.tensors.size());
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    tensors.push_back(EncodeTensor(builder, names, tensor));
  }
  const auto all = builder.CreateVector(tensors);
  const auto owners = names.Add(builder, snapshot.owners);
  const auto texts = builder.CreateVectorOfStrings(names.names());
  wire::FinishBankStateBuffer(
      builder,
      wire::CreateBankState(builder, all, owners, texts, snapshot.unique_bytes,
                            snapshot.device_bytes, snapshot.device_peak_bytes,
                            snapshot.live_source_bytes, snapshot.shared_bytes_saved,
                            snapshot.registrations, snapshot.hits, snapshot.keeps_unowned));
  const absl::string_view state(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                                builder.GetSize());
  return absl::StrCat(EncodeSeal(kSnapshotFile, FileSeal::kBytes, state), state);
}

absl::StatusOr<BankSnapshot> DecodeSnapshot(absl::string_view file, uint64_t most_bytes) {
  NPUBANK_ASSIGN_OR_RETURN(const FileSeal seal, ReadSeal(kSnapshotFile, file, file.size()));
  const absl::string_view bytes = file.substr(FileSeal::kBytes);
  if (seal.offset != FileSeal::kBytes || seal.size != bytes.size() || seal.size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("corrupt bank snapshot: ", seal.size,
                                                   " bytes were sealed, ", bytes.size(),
                                                   " follow the seal"));
  }
  NPUBANK_RETURN_IF_ERROR(CheckSeal(kSnapshotFile, file, bytes));
  NPUBANK_ASSIGN_OR_RETURN(
      const auto root,
      FlatbufferRoot<wire::BankState>::Open(bytes, wire::BankStateIdentifier(), kSnapshotFile.description,
                                            {.tables = static_cast<uint32_t>(bytes.size())}));
  const wire::BankState& state = *root;
  BankSnapshot snapshot;
  Decoder decoder(state, std::min(bytes.size() * kMaxExpansion, most_bytes));
  if (state.tensors() != nullptr) {
    for (const wire::TensorState* tensor : *state.tensors()) {
      NPUBANK_RETURN_IF_ERROR(decoder.Tensor(*tensor, snapshot.tensors.emplace_back()));
    }
  }
  NPUBANK_RETURN_IF_ERROR(decoder.Names(state.owners(), snapshot.owners));
  snapshot.unique_bytes = state.unique_bytes();
  snapshot.device_bytes = state.device_bytes();
  snapshot.device_peak_bytes = state.device_peak_bytes();
  snapshot.live_source_bytes = state.live_source_bytes();
  snapshot.shared_bytes_saved = state.shared_bytes_saved();
  snapshot.registrations = state.registrations();
  snapshot.hits = state.hits();
  snapshot.keeps_unowned = state.keeps_unowned();
  return snapshot;
}

absl::Status WriteSnapshot(const BankSnapshot& snapshot, const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(EncodeSnapshot(snapshot)));
  return file.Commit();
}

absl::StatusOr<BankSnapshot> ReadSnapshot(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path, kMaxFileBytes));
  absl::StatusOr<BankSnapshot> snapshot = DecodeSnapshot(bytes);
  if (!snapshot.ok()) return Annotate(snapshot.status(), absl::StrCat("'", path, "'"));
  return snapshot;
}

}  // namespace npubank
