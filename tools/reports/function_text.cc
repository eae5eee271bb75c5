#include "npubank/tools/reports/function_text.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/tools/reports/report_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

const char* DirectionOf(const level_zero::GraphArgument& argument) {
  return argument.output ? "output" : "input";
}

TextTable Arguments(const DriverFunction& function) {
  TextTable table({{"argument", TextTable::kRight}, {"direction"}, {"name"}, {"type"}});
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const level_zero::GraphArgument& argument = function.arguments()[i];
    table.AddRow({absl::StrCat(i), DirectionOf(argument), argument.name, TypeText(argument)});
  }
  return table;
}

}  // namespace

std::string FunctionAsTable(const DriverFunction& function) {
  return Arguments(function).AsColumns();
}

std::string FunctionAsCsv(const DriverFunction& function) { return Arguments(function).AsCsv(); }

std::string FunctionAsJson(const DriverFunction& function) {
  using Json = nlohmann::ordered_json;
  Json arguments = Json::array();
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const level_zero::GraphArgument& argument = function.arguments()[i];
    arguments.push_back({{"number", i},
                         {"direction", DirectionOf(argument)},
                         {"name", argument.name},
                         {"type", TypeText(argument)}});
  }
  return JsonText({{"arguments", std::move(arguments)}});
}

}  // namespace npubank
