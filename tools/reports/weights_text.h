// The weights of a snapshot, each with its parts taken together: what bank-inspect weights prints.
//
//   std::fputs(WeightsAsTable(snapshot, /*filter=*/"layers.0.").c_str(), stdout);
//
// A line for each weight that has `filter` in its name: how it lies ("U4[64,64] + scale F16[64,2] + zero
// U4[64,2]"), the bytes of the stored tensors that it was made of ("-" where a cache brought it) and those it
// takes on the device, and how it came there: imported; copied, and why; transformed, and by what.
#ifndef NPUBANK_TOOLS_REPORTS_WEIGHTS_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_WEIGHTS_TEXT_H_

#include <string>

#include "npubank/bank/bank_snapshot.h"

namespace npubank {

std::string WeightsAsTable(const BankSnapshot& snapshot, const std::string& filter);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_WEIGHTS_TEXT_H_
