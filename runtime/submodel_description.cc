#include "npubank/runtime/submodel_description.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

using Placement = SubmodelDescription::Placement;
using Value = SubmodelDescription::Value;
using Argument = SubmodelDescription::Argument;
using Call = SubmodelDescription::Call;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

const std::string& NameOf(const std::string& name) { return name; }
template <typename Part>
const std::string& NameOf(const Part& part) {
  return part.name;
}

template <typename Part>
absl::Status CheckNames(absl::string_view what, const std::vector<Part>& parts) {
  absl::flat_hash_set<absl::string_view> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = NameOf(parts[i]);
    if (name.empty()) return Invalid(absl::StrCat(what, " ", i, " has no name"));
    if (!names.insert(name).second)
      return Invalid(absl::StrCat(what, " '", name, "' is there twice"));
  }
  return absl::OkStatus();
}

bool InArena(const Value& value) {
  return value.placement == Placement::kArena || value.placement == Placement::kScratch;
}

absl::Status CheckPlace(const Value& value, uint64_t arena_bytes) {
  for (int64_t dim : value.type.shape().dims())
    if (dim < 1) return Invalid(absl::StrCat("value '", value.name, "' is empty"));
  if (!InArena(value)) return absl::OkStatus();
  const uint64_t bytes = value.type.bytes();
  if (value.offset % SubmodelDescription::kPlaceAlignment == 0 &&
      RangeFits(value.offset, bytes, arena_bytes))
    return absl::OkStatus();
  return Invalid(absl::StrCat("value '", value.name, "' of ", bytes, " bytes cannot lie at offset ",
                              value.offset, " of an arena of ", arena_bytes,
                              ": offsets are multiples of ", SubmodelDescription::kPlaceAlignment));
}

// Which parts of `count` somebody uses.
class Uses {
 public:
  explicit Uses(size_t count) : used_(count, false) {}
  // False when there is no such part.
  bool Note(uint32_t index) {
    if (index >= used_.size()) return false;
    used_[index] = true;
    return true;
  }
  template <typename Part>
  absl::Status CheckAll(absl::string_view what, const std::vector<Part>& parts) const {
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i])
        return Invalid(absl::StrCat(what, " '", NameOf(parts[i]), "' is used by no call"));
    return absl::OkStatus();
  }

 private:
  std::vector<bool> used_;
};

// The values that the arena holds between calls, and those that a call has touched: disjoint
// ranges.
class Ranges {
 public:
  // A value whose range meets this one's; null when there is none.
  const Value* Meets(const Value& value) const {
    const auto next = by_begin_.lower_bound(End(value));
    if (next == by_begin_.begin()) return nullptr;
    const Value* last = std::prev(next)->second;
    return End(*last) > value.offset ? last : nullptr;
  }
  bool Has(const Value& value) const {
    const auto found = by_begin_.find(value.offset);
    return found != by_begin_.end() && found->second == &value;
  }
  void Put(const Value& value) { by_begin_[value.offset] = &value; }  // meets none
  void Drop(const Value& value) { by_begin_.erase(value.offset); }

 private:
  static uint64_t End(const Value& value) {
    return value.offset + value.type.bytes();
  }
  std::map<uint64_t, const Value*> by_begin_;
};

// Runs the calls in mind.
class DriverCheck {
 public:
  DriverCheck(const SubmodelDescription& submodel, absl::Span<const DriverFunction> driver)
      : submodel_(submodel), driver_(driver) {}

  absl::Status Run() {
    for (const Call& call : submodel_.calls)
      NPUBANK_RETURN_IF_ERROR(Annotate(CheckCall(call), absl::StrCat("call '", call.name, "'")));
    return absl::OkStatus();
  }

 private:
  absl::Status CheckCall(const Call& call) {
    const auto& taken = driver_[call.function].arguments();
    if (call.arguments.size() != taken.size())
      return Invalid(absl::StrCat("binds ", call.arguments.size(), " arguments, but function '",
                                  submodel_.functions[call.function].name, "' has ", taken.size()));
    std::set<const Value*> read;
    Ranges touched;
    for (size_t i = 0; i < taken.size(); ++i)
      NPUBANK_RETURN_IF_ERROR(Annotate(CheckArgument(call.arguments[i], taken[i], read),
                                       absl::StrCat("argument '", call.arguments[i].name, "'")));
    for (size_t i = 0; i < taken.size(); ++i) {
      if (call.arguments[i].weight) continue;
      const Value& value = submodel_.values[call.arguments[i].index];
      if (!taken[i].output && value.placement != Placement::kScratch) continue;
      NPUBANK_RETURN_IF_ERROR(Annotate(Write(value, read, touched),
                                       absl::StrCat("argument '", call.arguments[i].name, "'")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckArgument(const Argument& argument, const level_zero::GraphArgument& taken,
                             std::set<const Value*>& read) const {
    if (argument.name != taken.name)
      return Invalid(absl::StrCat("is '", taken.name, "' as the driver says"));
    NPUBANK_RETURN_IF_ERROR(CheckTakes(taken, submodel_.TypeOf(argument)));
    if (argument.weight)
      return taken.output ? Invalid("is an output bound to a weight") : absl::OkStatus();
    const Value& value = submodel_.values[argument.index];
    if (taken.output && value.placement == Placement::kInput)
      return Invalid(absl::StrCat("is an output bound to input '", value.name, "'"));
    if (taken.output) return absl::OkStatus();
    if (value.placement == Placement::kOutput)
      return Invalid(absl::StrCat("is an input bound to output '", value.name, "'"));
    if (value.placement != Placement::kArena) return absl::OkStatus();
    read.insert(&value);
    if (arena_.Has(value)) return absl::OkStatus();
    const Value* over = arena_.Meets(value);
    return Invalid(
        over == nullptr
            ? absl::StrCat("reads '", value.name, "', which no call has written by then")
            : absl::StrCat("reads '", value.name, "', where '", over->name, "' lies by then"));
  }

  absl::Status Write(const Value& value, const std::set<const Value*>& read, Ranges& touched) {
    if (!InArena(value)) return absl::OkStatus();
    if (const Value* other = touched.Meets(value))
      return Invalid(absl::StrCat("is written to '", value.name, "', where '", other->name,
                                  "' of the same call lies"));
    touched.Put(value);
    while (const Value* old = arena_.Meets(value)) {
      const bool in_place = value.placement == Placement::kArena && old->offset == value.offset &&
                            old->type.bytes() == value.type.bytes();
      if (read.count(old) > 0 && !in_place)
        return Invalid(absl::StrCat("is written to '", value.name, "', over '", old->name,
                                    "', which the same call reads"));
      arena_.Drop(*old);
    }
    if (value.placement == Placement::kArena) arena_.Put(value);
    return absl::OkStatus();
  }

  const SubmodelDescription& submodel_;
  const absl::Span<const DriverFunction> driver_;
  Ranges arena_;
};

}  // namespace

absl::Status SubmodelDescription::Check() const {
  if (name.empty()) return Invalid("the submodel has no name");
  NPUBANK_RETURN_IF_ERROR(CheckNames("function", functions));
  NPUBANK_RETURN_IF_ERROR(CheckNames("value", values));
  NPUBANK_RETURN_IF_ERROR(CheckNames("weight", weights));
  NPUBANK_RETURN_IF_ERROR(CheckNames("call", calls));
  const size_t made = recipes == nullptr ? 0 : recipes->size();
  if (made != weights.size())
    return Invalid(absl::StrCat("names ", weights.size(), " weights and has recipes for ", made));
  if (!weight_alignments.empty() && weight_alignments.size() != weights.size())
    return Invalid(absl::StrCat("names ", weights.size(), " weights and has alignments for ",
                                weight_alignments.size()));
  if (arena_bytes > kMostArenaBytes)
    return Invalid(absl::StrCat("an arena of ", arena_bytes, " bytes is more than any device has"));
  for (const Value& value : values) NPUBANK_RETURN_IF_ERROR(CheckPlace(value, arena_bytes));
  Uses used_functions(functions.size());
  Uses used_values(values.size());
  Uses used_weights(weights.size());
  for (const Call& call : calls) {
    if (!used_functions.Note(call.function))
      return Invalid(absl::StrCat("call '", call.name, "' is of a function that is not there"));
    for (const Argument& argument : call.arguments)
      if (!(argument.weight ? used_weights : used_values).Note(argument.index))
        return Invalid(absl::StrCat("call '", call.name, "', argument '", argument.name,
                                    "' is bound to something that is not there"));
  }
  NPUBANK_RETURN_IF_ERROR(used_functions.CheckAll("function", functions));
  NPUBANK_RETURN_IF_ERROR(used_values.CheckAll("value", values));
  return used_weights.CheckAll("weight", weights);
}

absl::Status SubmodelDescription::CheckAgainstDriver(
    absl::Span<const DriverFunction> driver) const {
  return DriverCheck(*this, driver).Run();
}

}  // namespace npubank
