#include "npubank/tests/leak/shared_models.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/tests/support/weights/scripted_source.h"

namespace npubank {
namespace {

constexpr int64_t kElements = 8;
constexpr uint64_t kSourceBytes = kElements * sizeof(float);

const std::shared_ptr<ScriptedSource>& Models() {
  static const auto& source = *new std::shared_ptr<ScriptedSource>(
      ScriptedSource::Make("models", CountingFloats(3 * kElements)));
  return source;
}

// A stored vector, converted: something has to be evaluated, and an evicted one can come back.
RecipePtr RecipeOf(size_t weight) {
  const TensorType type =
      TensorType::Create(ElementType::kF32, Shape::Create({kElements}).value()).value();
  const RecipePtr stored =
      Recipe::Constant(Models(), weight * kSourceBytes, type, absl::StrCat(weight)).value();
  return Recipe::Convert(stored, ElementType::kF16).value();
}

const std::shared_ptr<const SourceIndex>& Index() {
  static const auto& index = *new std::shared_ptr<const SourceIndex>([] {
    auto made = std::make_shared<SourceIndex>("models");
    EXPECT_TRUE(made->AddFile(SourceOpener::Held(Models())).ok());
    for (size_t weight = 0; weight < 3; ++weight) {
      const TensorType type = RecipeOf(weight)->inputs()[0]->type();
      EXPECT_TRUE(made->Add({absl::StrCat(weight), type, 0, weight * kSourceBytes}).ok());
    }
    return made;
  }());
  return index;
}

Uid UidOf(size_t weight) {
  static const auto& uids =
      *new std::vector<Uid>{Uid::Of(RecipeOf(0)->digest()), Uid::Of(RecipeOf(1)->digest()),
                            Uid::Of(RecipeOf(2)->digest())};
  return uids[weight];
}

const std::vector<std::byte>& ExpectedBytes(Uid uid) {
  static const auto& expected = *new std::vector<std::vector<std::byte>>([] {
    std::vector<std::vector<std::byte>> all;
    for (size_t weight = 0; weight < 3; ++weight) {
      std::vector<std::byte>& bytes = all.emplace_back(kElements * sizeof(uint16_t));
      EXPECT_TRUE(npubank::Evaluate(*RecipeOf(weight), absl::MakeSpan(bytes), {}).ok());
    }
    return all;
  }());
  for (size_t weight = 0; weight < expected.size(); ++weight) {
    if (UidOf(weight) == uid) return expected[weight];
  }
  return expected.front();
}

}  // namespace

std::vector<Operation> PlainOperations() {
  return {Operation::kLoad, Operation::kEvaluate, Operation::kRun, Operation::kSleep,
          Operation::kDrop, Operation::kBegin,    Operation::kEnd};
}

std::vector<Operation> AllOperations() {
  std::vector<Operation> all = PlainOperations();
  all.insert(all.end(), {Operation::kFailFirst, Operation::kFailSecond, Operation::kSleepWithCopy});
  return all;
}

std::string Words(const std::vector<Step>& steps) {
  return absl::StrJoin(steps, " ", [](std::string* out, const Step& step) {
    absl::StrAppend(out, step.submodel, std::string(1, static_cast<char>(step.operation)));
  });
}

void SharedModels::MakeSources() { Index(); }

SharedModels::SharedModels(const TestDevice& device, std::vector<int> model_of)
    : device_(device),
      bank_(Bank::Create(device.memory, {.share_content = false})),
      guard_({bank_}),
      submodels_(model_of.size()) {
  for (size_t i = 0; i < model_of.size(); ++i) submodels_[i].model = model_of[i];
}

SharedModels::~SharedModels() {
  for (size_t i = 0; i < submodels_.size(); ++i) {
    if (Possible({Operation::kEnd, i})) End(i);
    Drop(i);
  }
}

std::array<size_t, 2> SharedModels::WeightsOf(size_t submodel) const {
  return {0, static_cast<size_t>(1 + submodels_[submodel].model)};
}

size_t SharedModels::PlaceOf(size_t submodel) const {
  return std::find(loaded_.begin(), loaded_.end(), submodel) - loaded_.begin();
}

bool SharedModels::Possible(Step step) const {
  const bool running = !submodels_[step.submodel].leases.empty();
  if (step.operation == Operation::kBegin) return !running;
  if (step.operation == Operation::kEnd) return running;
  return true;
}

void SharedModels::Do(Step step) {
  const size_t i = step.submodel;
  switch (step.operation) {
    case Operation::kLoad:
      return Load(i);
    case Operation::kEvaluate:
      return Evaluate(i);
    case Operation::kFailFirst:
      return Evaluate(i, 1);
    case Operation::kFailSecond:
      return Evaluate(i, 2);
    case Operation::kRun:
      return Run(i);
    case Operation::kSleep:
      return Sleep(i, /*keep_host_copy=*/false);
    case Operation::kSleepWithCopy:
      return Sleep(i, /*keep_host_copy=*/true);
    case Operation::kDrop:
      return Drop(i);
    case Operation::kBegin:
      return Begin(i);
    case Operation::kEnd:
      return End(i);
  }
}

void SharedModels::Load(size_t i) {
  Submodel& submodel = submodels_[i];
  if (!IsLoaded(i)) {
    submodel.owner = bank_->AddOwner(absl::StrCat(i), {.index = Index()});
    loaded_.push_back(i);
  }
  for (const size_t number : WeightsOf(i)) {
    Weight& weight = weights_[number];
    const LazyTensor tensor(RecipeOf(number));
    const auto registered = bank_->Register(submodel.owner, tensor, absl::StrCat(number));
    EXPECT_TRUE(registered.ok()) << registered.status();
    EXPECT_EQ(registered->hit, weight.known);
    EXPECT_EQ(tensor.detached(), weight.known) << "a hit detaches at once, a miss does not";
    if (!weight.known) {
      weight.holds_source = true;
      submodel.tensors.push_back(tensor);
    }
    // What has left the device comes back from this, if nothing better was kept.
    if (weight.known && !weight.resident && !weight.host_copy) weight.holds_source = true;
    weight.known = true;
    weight.owners.insert(i);
    SettleCopy(weight);
  }
}

void SharedModels::Evaluate(size_t i, int failing_weight) {
  Models()->FailRead(failing_weight);
  const absl::Status status = bank_->EvaluateAndAllocate(submodels_[i].owner);
  Models()->FailRead(0);
  CheckLoaded(i, status, failing_weight);
}

void SharedModels::CheckLoaded(size_t i, const absl::Status& status, int failing_weight) {
  if (!IsLoaded(i)) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  } else if (LoadsWeights(i, status, failing_weight)) {
    submodels_[i].asleep = false;
    for (const size_t number : WeightsOf(i)) SettleCopy(weights_[number]);
  } else if (submodels_[i].asleep) {
    FallsAsleep(i, /*keep_host_copy=*/false);  // who cannot wake sleeps on
  }
}

// Reads bring a weight that is not resident, none if a copy was kept.
bool SharedModels::LoadsWeights(size_t i, const absl::Status& status, int failing_weight) {
  int weights_read = 0;
  for (const size_t number : WeightsOf(i)) {
    Weight& weight = weights_[number];
    if (!weight.resident && !weight.host_copy && ++weights_read == failing_weight) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("'", number, "'"))) << status;
      weight.failed = true;
      return false;
    }
    BecomesResident(weight);
  }
  EXPECT_TRUE(status.ok()) << status;
  return true;
}

// Whoever is known can be run, in any state: what is not on the device comes, and nobody wakes.
void SharedModels::Run(size_t i) {
  std::vector<Lease> leases;
  for (const size_t number : WeightsOf(i)) {
    absl::StatusOr<Lease> lease = bank_->Get(UidOf(number));
    if (!weights_[number].known) {
      EXPECT_TRUE(absl::IsNotFound(lease.status())) << lease.status();
      return;
    }
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
    BecomesResident(weights_[number]);
  }
  CheckBytes(leases);
}

void SharedModels::Begin(size_t i) {
  absl::StatusOr<std::vector<Lease>> leases = bank_->Load(submodels_[i].owner);
  CheckLoaded(i, leases.status(), /*failing_weight=*/0);
  if (!leases.ok()) return;
  ASSERT_EQ(leases->size(), WeightsOf(i).size());
  for (size_t place = 0; place < leases->size(); ++place) {
    EXPECT_EQ((*leases)[place].uid(), UidOf(WeightsOf(i)[place]));
    weights_[WeightsOf(i)[place]].leases.insert(i);
  }
  CheckBytes(*leases);
  submodels_[i].leases = *std::move(leases);
}

void SharedModels::CheckBytes(const std::vector<Lease>& leases) const {
  for (const Lease& lease : leases) {
    EXPECT_EQ(bank_->Get(lease.uid())->address(), lease.address());
    std::vector<std::byte> bytes(lease.type().bytes());
    EXPECT_TRUE(bank_->Read(lease.uid(), 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, ExpectedBytes(lease.uid()));
  }
}

void SharedModels::Sleep(size_t i, bool keep_host_copy) {
  const absl::StatusOr<SleepReport> report =
      bank_->Sleep(submodels_[i].owner, {.keep_host_copy = keep_host_copy});
  if (!IsLoaded(i)) {
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    return;
  }
  ASSERT_TRUE(report.ok()) << report.status();
  const SleepReport expected = FallsAsleep(i, keep_host_copy);
  EXPECT_EQ(report->bytes_given_back, expected.bytes_given_back);
  EXPECT_EQ(report->bytes_of_others_awake, expected.bytes_of_others_awake);
  EXPECT_EQ(report->bytes_leased, expected.bytes_leased);
  EXPECT_EQ(report->bytes_without_way_back, 0u);
}

SleepReport SharedModels::FallsAsleep(size_t i, bool keep_host_copy) {
  submodels_[i].asleep = true;
  SleepReport report;
  for (const size_t number : WeightsOf(i)) {
    Weight& weight = weights_[number];
    if (!weight.resident) continue;
    if (!AllAsleep(weight)) {
      report.bytes_of_others_awake += TestDevice::kPage;
    } else if (!weight.leases.empty()) {
      report.bytes_leased += TestDevice::kPage;
    } else {
      report.bytes_given_back += TestDevice::kPage;
      weight.resident = false;
      weight.host_copy |= keep_host_copy;
    }
  }
  return report;
}

void SharedModels::Drop(size_t i) {
  submodels_[i].owner.Release();
  submodels_[i].tensors.clear();
  std::erase(loaded_, i);
  submodels_[i].asleep = false;
  for (const size_t number : WeightsOf(i)) {
    Weight& weight = weights_[number];
    // The others bring it back without what this one brought.
    if (weight.owners.erase(i) > 0 && weight.evaluated) weight.holds_source = false;
    Settle(weight);
  }
}

void SharedModels::End(size_t i) {
  CheckBytes(submodels_[i].leases);
  submodels_[i].leases.clear();
  for (const size_t number : WeightsOf(i)) {
    weights_[number].leases.erase(i);
    Settle(weights_[number]);
  }
}

void SharedModels::BecomesResident(Weight& weight) {
  if (weight.resident) return;
  weight.evaluated = true;
  weight.resident = true;
  weight.failed = false;
  weight.holds_source = false;
  SettleCopy(weight);
}

// A copy that was kept is needed until somebody is awake.
void SharedModels::SettleCopy(Weight& weight) {
  if (weight.resident && !AllAsleep(weight)) weight.host_copy = false;
}

void SharedModels::Settle(Weight& weight) {
  if (weight.owners.empty() && weight.leases.empty()) weight = Weight();
}

bool SharedModels::AllAsleep(const Weight& weight) const {
  return std::all_of(weight.owners.begin(), weight.owners.end(),
                     [&](size_t owner) { return submodels_[owner].asleep; });
}

// By the device, by the source accounting, and by the audit.
void SharedModels::Check() const {
  uint64_t resident = 0;
  uint64_t source_bytes = 0;
  for (const Weight& weight : weights_) {
    resident += weight.resident ? 1 : 0;
    source_bytes += weight.holds_source ? kSourceBytes : 0;
  }
  EXPECT_EQ(device_.count().allocations, resident);
  EXPECT_EQ(device_.count().bytes, resident * TestDevice::kPage);
  EXPECT_EQ(LiveSourceBytes(), source_bytes) << DescribeHeldSources();
  const AuditReport audit = bank_->Audit();
  EXPECT_TRUE(audit.clean()) << audit.ToString();
  EXPECT_EQ(audit.device_bytes_booked, resident * TestDevice::kPage);
  EXPECT_EQ(audit.source_bytes_booked, source_bytes);
  CheckBooks();
}

void SharedModels::CheckBooks() const {
  size_t known = 0;
  for (const Weight& weight : weights_) known += weight.known ? 1 : 0;
  const BankSnapshot snapshot = bank_->Snapshot();
  EXPECT_EQ(snapshot.tensors.size(), known);
  EXPECT_EQ(absl::StrJoin(snapshot.owners, " "), absl::StrJoin(loaded_, " "));
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    const Weight& weight = weights_[tensor.name[0] - '0'];
    const char* state = weight.resident    ? "resident"
                        : weight.failed    ? "failed"
                        : weight.evaluated ? "evicted"
                                           : "registered";
    EXPECT_EQ(tensor.state, state) << tensor.name;
    EXPECT_EQ(tensor.leases, weight.leases.size()) << tensor.name;
    EXPECT_EQ(tensor.source_bytes, weight.holds_source ? kSourceBytes : 0) << tensor.name;
    std::set<size_t> owners;
    for (const std::string& owner : tensor.owners) owners.insert(owner[0] - '0');
    EXPECT_EQ(owners, weight.owners) << tensor.name;
  }
}

std::vector<size_t> SharedModels::Order() const {
  const auto key = [&](size_t i) {
    return std::tuple(submodels_[i].model, PlaceOf(i), submodels_[i].leases.empty());
  };
  std::vector<size_t> order(submodels_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

std::string SharedModels::State() const {
  const BankSnapshot snapshot = bank_->Snapshot();
  const std::vector<size_t> order = Order();
  std::string text;
  for (const size_t i : order) {
    absl::StrAppend(&text, submodels_[i].model, PlaceOf(i), submodels_[i].asleep,
                    submodels_[i].leases.size(), " ");
  }
  absl::StrAppend(&text, snapshot.unique_bytes, " ", snapshot.device_bytes, " ",
                  snapshot.live_source_bytes, " ", snapshot.shared_bytes_saved);
  // Check has compared what the weights must be with the snapshot, which tells all but the ways back.
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    const Weight& weight = weights_[tensor.name[0] - '0'];
    absl::StrAppend(&text, "|", tensor.name, weight.host_copy, weight.evaluated, tensor.state,
                    tensor.strategy, tensor.why_held, " ", tensor.bytes, " ", tensor.device_bytes,
                    " ", tensor.source_bytes, " ", tensor.leases, " ");
    for (const std::string& owner : tensor.owners) {
      absl::StrAppend(&text, std::find(order.begin(), order.end(), owner[0] - '0') - order.begin());
    }
  }
  return text;
}

}  // namespace npubank
