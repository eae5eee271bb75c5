#include "npubank/compiler_stub/views/schedule_view.h"

#include <gtest/gtest.h>

#include "npubank/compiler_stub/compile.h"
#include "npubank/compiler_stub/views/plan_view.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

SubmodelBlob CompileWith(AttentionForm attention, Schedule schedule, bool reuse = true) {
  const ModelConfig config = SmallConfig(3);
  const FakeModel model(config);
  CompileOptions options;
  options.name = "test";
  options.chunk = 8;
  options.context = 64;
  options.attention = attention;
  options.schedule = schedule;
  options.reuse = reuse;
  return *ReadSubmodelBlob(*Compile(*model.Over(config), options));
}

TEST(ScheduleView, SaysOfEitherBlobWhatBothSchedulesPlan) {
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    const SubmodelBlob serial = CompileWith(attention, Schedule::kSerial);
    const SubmodelBlob parallel = CompileWith(attention, Schedule::kParallel);
    const Schedules from_serial = *ViewSchedules(serial);
    EXPECT_EQ(from_serial.serial.bytes, serial.arena_bytes);
    const Schedules from_parallel = *ViewSchedules(parallel);
    EXPECT_EQ(from_parallel.parallel.bytes, parallel.arena_bytes);
    EXPECT_GE(from_parallel.parallel.bytes, from_parallel.serial.bytes);
    EXPECT_EQ(from_serial.serial.lower_bound, ViewPlan(serial).lower_bound);
    EXPECT_EQ(from_parallel.parallel.lower_bound, from_parallel.parallel.bytes);
  }
}

TEST(ScheduleView, AParallelPlanCostsNoParallelismAndASerialOneDoes) {
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    const Schedules parallel = *ViewSchedules(CompileWith(attention, Schedule::kParallel));
    EXPECT_EQ(parallel.path_as_planned, parallel.parallel.path);
    EXPECT_LT(parallel.parallel.path, parallel.serial.path);
    const Schedules serial = *ViewSchedules(CompileWith(attention, Schedule::kSerial));
    EXPECT_GT(serial.path_as_planned, serial.parallel.path);
    EXPECT_LE(serial.path_as_planned, serial.serial.path);
    // Nothing is shared: nothing waits, though no parallel plan was asked for.
    const Schedules apart = *ViewSchedules(CompileWith(attention, Schedule::kSerial, false));
    EXPECT_EQ(apart.path_as_planned, apart.parallel.path);
  }
}

// embed, head (norm, last row, product) and 3 layers, by hand: q, k and v, gate and up side by
// side.
TEST(ScheduleView, CountsTheOperationsOfALayerThatMustFollowEachOther) {
  const Schedules s =
      *ViewSchedules(CompileWith(AttentionForm::kWhole, Schedule::kParallel).functions[1].function);
  // norm, k, rope, write, scores, softmax, mix, o+residual, norm, gate, silu, down+residual.
  EXPECT_EQ(s.parallel.path, 12);
  // And q with its rope, v with its write, up.
  EXPECT_EQ(s.serial.path, 17);
}

}  // namespace
}  // namespace npubank
