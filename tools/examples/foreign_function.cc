// Functions of another compiler with this bank's weights: a program of an embedder who has a
// compiler of their own and wants one copy of every weight.
//
//   foreign_function layers.json      # a manifest (runtime/manifest/manifest.h), its blobs and its model beside it
//
// It fills every input with 0, 1, 2, ..., runs the submodel twice under two names, to show that the
// second costs no memory, and prints every output. Inputs and outputs are F32 here.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/manifest/manifest.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel_group.h"

namespace {

using npubank::Npu;
using npubank::SubmodelDescription;
using npubank::SubmodelGroup;
using Placement = npubank::SubmodelDescription::Placement;

absl::Span<float> Floats(absl::Span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

absl::Status RunOnce(const SubmodelDescription& submodel, SubmodelGroup& group) {
  for (const SubmodelDescription::Value& value : submodel.values) {
    if (value.placement != Placement::kInput) continue;
    float next = 0;
    for (float& number : Floats(group.Buffer(value.name))) number = next++;
  }
  NPUBANK_RETURN_IF_ERROR(group.Run(0));
  for (const SubmodelDescription::Value& value : submodel.values) {
    if (value.placement != Placement::kOutput) continue;
    std::printf("%s %s:", value.name.c_str(), value.type.ToString().c_str());
    for (float number : Floats(group.Buffer(value.name))) std::printf(" %g", number);
    std::printf("\n");
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& manifest) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Npu> npu, Npu::Open());
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<npubank::Bank> bank, npu->MakeBank({}));

  // What the manifest says: functions, calls, and weights in words. No byte of a weight is read
  // yet.
  NPUBANK_ASSIGN_OR_RETURN(const SubmodelDescription submodel, npubank::ReadManifest(manifest));
  std::vector<std::unique_ptr<SubmodelGroup>> groups;
  for (const char* user : {"first", "second"}) {
    NPUBANK_ASSIGN_OR_RETURN(auto group, SubmodelGroup::Register(npu, bank, {submodel}, user));
    // The driver is asked what its functions take: whatever does not fit is refused here, by name.
    NPUBANK_RETURN_IF_ERROR(group->MakeFunctions());
    // Every weight that is not on the device yet is evaluated, straight into device memory.
    NPUBANK_RETURN_IF_ERROR(group->Prepare());
    NPUBANK_RETURN_IF_ERROR(group->SetStates({}));
    NPUBANK_RETURN_IF_ERROR(RunOnce(submodel, *group));
    std::printf("%s: %llu of %zu weights were there already\n", user,
                static_cast<unsigned long long>(group->submodels()[0].hits()),
                submodel.weights.size());
    groups.push_back(std::move(group));
  }
  std::printf("bytes of weights on the device: %llu\n",
              static_cast<unsigned long long>(bank->Totals().resident_bytes));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const bool asks = argc == 2 && std::string(argv[1]) == "--help";
  if (argc != 2 || asks) {
    std::fprintf(asks ? stdout : stderr, "usage: foreign_function MANIFEST\n");
    return asks ? 0 : 1;
  }
  const absl::Status status = Run(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
