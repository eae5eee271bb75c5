#include "npubank/bank/files/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/files/snapshot_generated.h"
#include "npubank/bank/host_memory.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BankSnapshot Sample() {
  BankSnapshot snapshot;
  for (uint64_t i = 0; i < 3; ++i) {
    TensorSnapshot tensor;
    tensor.uid = Uid{i};
    tensor.digest = Digest{~i, i};
    tensor.name = "layers." + std::to_string(i);
    tensor.type = "F16[4]";
    tensor.state = "resident";
    tensor.recipe = "stored F32[4] -> convert(F16)";
    tensor.strategy = "host";
    tensor.bytes = std::numeric_limits<uint64_t>::max() - i;
    tensor.device_bytes = 4096;
    tensor.device_address = 0x1000 * i;
    tensor.source_bytes = 16;
    tensor.leases = i;
    tensor.hits = 2 * i;
    tensor.evaluation_seconds = 0.25;
    tensor.owners = {"prefill", "kvcache"};
    tensor.why_held = "registered, not evaluated yet";
    snapshot.tensors.push_back(tensor);
  }
  snapshot.owners = {"prefill", "kvcache", "prefill"};
  snapshot.unique_bytes = 1;
  snapshot.device_bytes = 2;
  snapshot.device_peak_bytes = 3;
  snapshot.live_source_bytes = 4;
  snapshot.shared_bytes_saved = 5;
  snapshot.registrations = 6;
  snapshot.hits = 7;
  snapshot.keeps_unowned = true;
  return snapshot;
}

std::string Sealed(const std::string& state) {
  return EncodeSeal(kSnapshotFile, FileSeal::kBytes, state) + state;
}

std::string Sealed(const flatbuffers::FlatBufferBuilder& builder) {
  return Sealed(
      std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()));
}

void ExpectSame(const BankSnapshot& a, const BankSnapshot& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorSnapshot& x = a.tensors[i];
    const TensorSnapshot& y = b.tensors[i];
    EXPECT_EQ(x.uid, y.uid);
    EXPECT_EQ(x.digest, y.digest);
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.state, y.state);
    EXPECT_EQ(x.recipe, y.recipe);
    EXPECT_EQ(x.strategy, y.strategy);
    EXPECT_EQ(x.bytes, y.bytes);
    EXPECT_EQ(x.device_bytes, y.device_bytes);
    EXPECT_EQ(x.device_address, y.device_address);
    EXPECT_EQ(x.source_bytes, y.source_bytes);
    EXPECT_EQ(x.leases, y.leases);
    EXPECT_EQ(x.hits, y.hits);
    EXPECT_EQ(x.evaluation_seconds, y.evaluation_seconds);
    EXPECT_EQ(x.owners, y.owners);
    EXPECT_EQ(x.why_held, y.why_held);
  }
  EXPECT_EQ(a.owners, b.owners);
  EXPECT_EQ(a.unique_bytes, b.unique_bytes);
  EXPECT_EQ(a.device_bytes, b.device_bytes);
  EXPECT_EQ(a.device_peak_bytes, b.device_peak_bytes);
  EXPECT_EQ(a.live_source_bytes, b.live_source_bytes);
  EXPECT_EQ(a.shared_bytes_saved, b.shared_bytes_saved);
  EXPECT_EQ(a.registrations, b.registrations);
  EXPECT_EQ(a.hits, b.hits);
  EXPECT_EQ(a.keeps_unowned, b.keeps_unowned);
}

TEST(Snapshot, SurvivesTheFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSnapshot(Sample(), folder.File("run.bank")).ok());
  const absl::StatusOr<BankSnapshot> read = ReadSnapshot(folder.File("run.bank"));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, Sample());
}

TEST(Snapshot, OfAnEmptyBankIsASnapshot) {
  const absl::StatusOr<BankSnapshot> read = DecodeSnapshot(EncodeSnapshot({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tensors.empty());
}

TEST(Snapshot, ShowsWhoHoldsWhatAndWhy) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const auto source = ScriptedSource::Make("weights", CountingFloats(24));
  const Owner prefill = bank->AddOwner("prefill");
  const Owner kvcache = bank->AddOwner("kvcache");
  const std::vector<LazyTensor> tensors = VectorsOver(source, 8);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(bank->Register(prefill, tensors[i], "w" + std::to_string(i)).ok());
  }
  ASSERT_TRUE(bank->Register(kvcache, VectorsOver(source, 8)[0], "w0 too").ok());
  const Lease lease = bank->Get(tensors[0].uid()).value();
  source->FailRead(1);
  ASSERT_FALSE(bank->Get(tensors[1].uid()).ok());

  const BankSnapshot snapshot = bank->Snapshot();
  ASSERT_EQ(snapshot.tensors.size(), 3u);
  const TensorSnapshot& resident = snapshot.tensors[0];
  EXPECT_EQ(resident.state, "resident");
  EXPECT_EQ(resident.name, "w0");
  EXPECT_EQ(resident.type, "F32[8]");
  EXPECT_EQ(resident.strategy, "host");
  EXPECT_EQ(resident.device_address, reinterpret_cast<uintptr_t>(lease.address()));
  EXPECT_EQ(resident.source_bytes, 0u);
  EXPECT_EQ(resident.why_held, "");
  EXPECT_THAT(resident.recipe, HasSubstr("stored0")) << "the words stay after detaching";
  EXPECT_EQ(resident.leases, 1u);
  EXPECT_EQ(resident.hits, 1u);
  EXPECT_THAT(resident.owners, ElementsAre("prefill", "kvcache"));
  EXPECT_EQ(snapshot.tensors[1].state, "failed");
  EXPECT_THAT(snapshot.tensors[1].why_held, HasSubstr("injected"));
  EXPECT_EQ(snapshot.tensors[2].state, "registered");
  EXPECT_EQ(snapshot.tensors[2].source_bytes, 32u);
  EXPECT_EQ(snapshot.shared_bytes_saved, 32u);
  EXPECT_THAT(snapshot.owners, ElementsAre("prefill", "kvcache"));
}

TEST(Snapshot, AMissingFileIsNotFoundAndNamed) {
  const absl::Status status = ReadSnapshot("/nonexistent/run.bank").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/run.bank"));
}

TEST(Snapshot, AFolderOrAPipeIsRefusedWithoutWaiting) {
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSnapshot("/").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSnapshot("/dev/null").status()));
}

TEST(Snapshot, AFolderThatCannotBeWrittenIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(WriteSnapshot(Sample(), folder.File("missing/run.bank"))));
  std::filesystem::create_directory(folder.File("taken"));
  std::ofstream(folder.File("taken/inside")) << "x";
  EXPECT_FALSE(WriteSnapshot(Sample(), folder.File("taken")).ok());
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1u) << "no temporary file is left behind";
}

TEST(Snapshot, TruncatedAnywhereIsRefused) {
  const std::string bytes = EncodeSnapshot(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(DecodeSnapshot(absl::string_view(bytes).substr(0, size)).status()))
        << size;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSnapshot(bytes + "x").status()));
}

TEST(Snapshot, AnyChangedBitIsRefused) {
  std::string bytes = EncodeSnapshot(Sample());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeSnapshot(bytes).status())) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_TRUE(DecodeSnapshot(bytes).ok());
}

// A checksum is no proof of honesty: whatever was sealed is read as if it were hostile.
TEST(Snapshot, AnyDamagedByteUnderAGoodSealIsAnErrorOrAnotherSnapshotButNeverACrash) {
  const std::string bytes = EncodeSnapshot(Sample()).substr(FileSeal::kBytes);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char value : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = value;
      const absl::StatusOr<BankSnapshot> read = DecodeSnapshot(Sealed(damaged));
      EXPECT_TRUE(read.ok() || absl::IsInvalidArgument(read.status())) << read.status();
    }
  }
}

TEST(Snapshot, OfAnotherVersionSaysWhichOnesAreKnown) {
  FileKind later = kSnapshotFile;
  later.version = 99;
  const std::string state = EncodeSnapshot(Sample()).substr(FileSeal::kBytes);
  const absl::Status status =
      DecodeSnapshot(EncodeSeal(later, FileSeal::kBytes, state) + state).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 99"));
}

TEST(Snapshot, PartsThatRepeatOneLongTextAreRefusedInBoundedMemory) {
  // A megabyte of text behind each of a hundred thousand tensors: 100 GB if it were believed.
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(std::string(1 << 20, 'x'));
  wire::TensorStateBuilder tensor(builder);
  tensor.add_name(text);
  const auto one = tensor.Finish();
  const std::vector<flatbuffers::Offset<wire::TensorState>> many(100000, one);
  const auto tensors = builder.CreateVector(many);
  wire::FinishBankStateBuffer(builder, wire::CreateBankState(builder, tensors));
  const absl::Status status = DecodeSnapshot(Sealed(builder)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("repeat"));
}

TEST(Snapshot, WhatIsDecodedIsBoundedHoweverLargeTheFile) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(std::string(1 << 20, 'x'));
  wire::TensorStateBuilder tensor(builder);
  tensor.add_name(text);
  const std::vector<flatbuffers::Offset<wire::TensorState>> ten(10, tensor.Finish());
  const auto tensors = builder.CreateVector(ten);
  wire::FinishBankStateBuffer(builder, wire::CreateBankState(builder, tensors));
  const std::string file = Sealed(builder);
  EXPECT_TRUE(DecodeSnapshot(file).ok()) << "within what its size allows";
  EXPECT_TRUE(DecodeSnapshot(file, 11 << 20).ok());
  const absl::Status status = DecodeSnapshot(file, 9 << 20).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("repeat"));
}

TEST(Snapshot, AnOwnerNumberWithoutANameIsRefused) {
  flatbuffers::FlatBufferBuilder builder;
  const auto owners = builder.CreateVector(std::vector<uint32_t>{7});
  wire::FinishBankStateBuffer(builder, wire::CreateBankState(builder, 0, owners));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSnapshot(Sealed(builder)).status()));
}

}  // namespace
}  // namespace npubank
