// What calls may read of the arena and write to it, on random submodels: the check agrees with a plain record of who
// wrote each block last.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/runtime/driver_function.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/submodel_description.h"
#include "npubank/tests/support/foreign_npu/foreign_blob.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using Placement = SubmodelDescription::Placement;
using Value = SubmodelDescription::Value;

constexpr int kBlockFloats = 16;  // 64 bytes
constexpr int kBlocks = 8;
constexpr int kSizes = 3;  // functions over values of one, two and three blocks

std::string SumBlob(uint32_t blocks) {
  const std::vector<uint32_t> dims = {1, blocks * kBlockFloats};
  return WriteForeignBlob({ForeignOperation::kSum,
                           {{"a", false, level_zero::GraphPrecision::kF32, dims},
                            {"b", false, level_zero::GraphPrecision::kF32, dims},
                            {"y", true, level_zero::GraphPrecision::kF32, dims}}});
}

int BlocksOf(const Value& value) { return static_cast<int>(value.type.bytes() / 64); }

// The plain record: false when a call reads what is not there, or writes over what it uses.
bool Allowed(const SubmodelDescription& submodel) {
  std::vector<const Value*> owner(kBlocks, nullptr);
  const auto each = [&](const Value& value, auto visit) {
    const size_t begin = value.offset / 64;
    for (size_t i = begin; i < begin + BlocksOf(value); ++i)
      if (!visit(owner[i])) return false;
    return true;
  };
  for (const SubmodelDescription::Call& call : submodel.calls) {
    const Value& y = submodel.values[call.arguments[2].index];
    for (int i : {0, 1}) {
      const Value& read = submodel.values[call.arguments[i].index];
      if (read.placement != Placement::kArena) continue;
      if (!each(read, [&](const Value* last) { return last == &read; })) return false;
      const bool overlaps = y.placement == Placement::kArena &&
                            y.offset < read.offset + read.type.bytes() &&
                            read.offset < y.offset + y.type.bytes();
      if (overlaps && y.offset != read.offset) return false;
    }
    if (y.placement != Placement::kArena) continue;
    // What is written over in part is gone as a whole.
    std::vector<const Value*> gone;
    each(y, [&](const Value* last) { return gone.push_back(last), true; });
    for (const Value*& last : owner)
      for (const Value* lost : gone)
        if (last == lost) last = nullptr;
    each(y, [&](const Value*& last) { return last = &y, true; });
  }
  return true;
}

SubmodelDescription RandomSubmodel(std::mt19937_64& random) {
  const auto pick = [&](int most) { return static_cast<int>(random() % most); };
  SubmodelDescription submodel;
  submodel.arena_bytes = kBlocks * 64;
  std::vector<std::vector<uint32_t>> by_size(kSizes);
  for (int i = 0; i < 12; ++i) {
    const int blocks = 1 + i % kSizes;
    const auto type =
        TensorType::Create(ElementType::kF32, Shape::Create({1, blocks * kBlockFloats}).value());
    const Placement placement = i < kSizes ? Placement::kState : Placement::kArena;
    by_size[blocks - 1].push_back(static_cast<uint32_t>(submodel.values.size()));
    submodel.values.push_back(
        {absl::StrCat("v", i), *type, placement,
         placement == Placement::kArena ? 64u * pick(kBlocks - blocks + 1) : 0u});
  }
  // Calls read mostly what was written before, so that some submodels are right from end to end.
  std::vector<std::vector<uint32_t>> written = {{0}, {1}, {2}};
  for (int c = 0; c < 5; ++c) {
    const auto function = static_cast<uint32_t>(pick(kSizes));
    const auto any = [&](const std::vector<uint32_t>& of) { return of[pick(of.size())]; };
    const auto input = [&] { return any(pick(8) > 0 ? written[function] : by_size[function]); };
    const uint32_t a = input();
    const uint32_t b = input();
    const uint32_t y = any(by_size[function]);
    written[function].push_back(y);
    submodel.calls.push_back(
        {absl::StrCat("c", c), function, {{"a", false, a}, {"b", false, b}, {"y", false, y}}});
  }
  return submodel;
}

TEST(ForeignArena, TheCheckAgreesWithAPlainRecordOfWhoWroteEachBlock) {
  setenv("ZE_ENABLE_ALT_DRIVERS", FOREIGN_NPU, 1);
  const auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
  ASSERT_TRUE(device.ok()) << device.status();
  std::vector<DriverFunction> functions;
  for (uint32_t blocks = 1; blocks <= kSizes; ++blocks) {
    auto function = DriverFunction::Create(*device, SumBlob(blocks), absl::StrCat("sum", blocks));
    ASSERT_TRUE(function.ok()) << function.status();
    functions.push_back(*std::move(function));
  }
  std::mt19937_64 random(PrintedSeed());
  const int rounds = Repetitions(4000);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const SubmodelDescription submodel = RandomSubmodel(random);
    const absl::Status checked = submodel.CheckAgainstDriver(functions);
    EXPECT_EQ(checked.ok(), Allowed(submodel)) << "round " << round << ": " << checked;
    accepted += checked.ok() ? 1 : 0;
  }
  EXPECT_GT(accepted, rounds / 50);
  EXPECT_LT(accepted, rounds - rounds / 50);
}

}  // namespace
}  // namespace npubank
