// FunctionText: what a driver says of a native function, for people and for scripts: what
// bank-inspect function prints.
//
//   NPUBANK_ASSIGN_OR_RETURN(DriverFunction layer, DriverFunction::Create(device, blob, "layer.blob"));
//   std::fputs(FunctionAsTable(layer).c_str(), stdout);
//
// A line for each argument, in the driver's order, which is a manifest's: number, "input" or
// "output", name, type. Where the driver does not tell how many dimensions there are, it is five of
// them. JSON keys: arguments [{number, direction, name, type}]. Names come from blobs: what cannot
// be printed is escaped in the table, and JSON stays valid UTF-8.
#ifndef NPUBANK_TOOLS_REPORTS_FUNCTION_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_FUNCTION_TEXT_H_

#include <string>

#include "npubank/runtime/driver_function.h"

namespace npubank {

std::string FunctionAsTable(const DriverFunction& function);
std::string FunctionAsCsv(const DriverFunction& function);
std::string FunctionAsJson(const DriverFunction& function);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_FUNCTION_TEXT_H_
