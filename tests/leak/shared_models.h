// SharedModels: a bank with up to three submodels of two models on it, and beside it what must be
// true of it, in a few lines that are obviously right.
//
//   SharedModels models(device, {0, 0, 1});   // submodels 0 and 1 are of one model, 2 of the other
//   models.Do({Operation::kLoad, 0});         // to the bank and to what must be true
//   models.Check();                           // the three counts, and the bank's whole books
//   models.State();                           // all that the past may have left behind, as text
//
// The two models are a fine-tune and its base: they share all weights but one. Every operation may
// be done in every state; what means nothing there must change nothing.
#ifndef NPUBANK_TESTS_LEAK_SHARED_MODELS_H_
#define NPUBANK_TESTS_LEAK_SHARED_MODELS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "npubank/bank/testing.h"
#include "npubank/tests/leak/leak_test.h"

namespace npubank {

// What happens to one submodel.
enum class Operation : char {
  kLoad = 'L',        // add an owner, register every weight; loaded already: register again
  kEvaluate = 'E',    // EvaluateAndAllocate: a load whose leases are dropped; wakes who sleeps
  kFailFirst = 'F',   // the same, but the last read for the first weight fails
  kFailSecond = 'f',  // the same, but the last for the second does
  kRun = 'R',         // lease every weight, check its bytes, let go
  kSleep = 'S',
  kSleepWithCopy = 's',  // bytes are kept in host memory
  kDrop = 'D',
  kBegin = 'B',  // a run begins: a load whose leases are kept
  kEnd = 'N',    // it ends: the bytes are still right, and where they were
};
// Those of a world in which nothing fails, and all.
std::vector<Operation> PlainOperations();
std::vector<Operation> AllOperations();

struct Step {
  Operation operation;
  size_t submodel;
  friend bool operator==(const Step&, const Step&) = default;
};
// "0L 1L 0E"
std::string Words(const std::vector<Step>& steps);

class SharedModels {
 public:
  // What all of them are loaded from, which stays: for who guards more than one of them.
  static void MakeSources();
  // Submodel i is of the model `model_of[i]`, 0 or 1.
  SharedModels(const TestDevice& device, std::vector<int> model_of);
  // Ends what is under way and drops the submodels; a guard then looks for what is left.
  ~SharedModels();

  // False for a run that begins twice or ends without having begun: there is nothing to call.
  bool Possible(Step step) const;
  void Do(Step step);
  void Check() const;
  // What must be true and all that a snapshot tells of the bank, but for addresses, times, and counts
  // that only grow. Submodels of one model are interchangeable: states that differ only in who is who
  // are one.
  std::string State() const;
  // The submodels as State() counts them: those of one model in the order in which they came, then
  // those that are not loaded, first who still runs.
  std::vector<size_t> Order() const;

 private:
  // Weight 0 is both models', weight 1 + m is model m's own.
  static constexpr size_t kWeights = 3;

  struct Weight {
    bool known = false;
    bool holds_source = false;
    bool evaluated = false;  // once
    bool resident = false;
    bool failed = false;
    bool host_copy = false;
    std::set<size_t> owners;
    std::set<size_t> leases;  // of submodels whose run is under way
  };
  struct Submodel {
    int model = 0;
    bool asleep = false;
    Owner owner;
    std::vector<LazyTensor> tensors;  // what a submodel keeps of what it registered
    std::vector<Lease> leases;
  };

  std::array<size_t, 2> WeightsOf(size_t submodel) const;
  // Where it stands among those that are loaded; their number when it is not.
  size_t PlaceOf(size_t submodel) const;
  bool IsLoaded(size_t submodel) const { return PlaceOf(submodel) < loaded_.size(); }
  void Load(size_t i);
  void Evaluate(size_t i, int failing_weight = 0);
  void Run(size_t i);
  void Begin(size_t i);
  void CheckBytes(const std::vector<Lease>& leases) const;
  void Sleep(size_t i, bool keep_host_copy);
  void Drop(size_t i);
  void End(size_t i);
  // What must have become of a load that ended with `status`.
  void CheckLoaded(size_t i, const absl::Status& status, int failing_weight);
  // What a load makes of the weights, until one's read fails; whether none did.
  bool LoadsWeights(size_t i, const absl::Status& status, int failing_weight);
  SleepReport FallsAsleep(size_t i, bool keep_host_copy);
  void BecomesResident(Weight& weight);
  void Settle(Weight& weight);
  void SettleCopy(Weight& weight);
  bool AllAsleep(const Weight& weight) const;
  void CheckBooks() const;

  const TestDevice& device_;
  std::shared_ptr<Bank> bank_;
  LeakGuard guard_;
  std::array<Weight, kWeights> weights_;
  std::vector<Submodel> submodels_;
  std::vector<size_t> loaded_;  // in the order in which they came
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_LEAK_SHARED_MODELS_H_
