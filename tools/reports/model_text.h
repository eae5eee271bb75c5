// ModelText: the tensors that a checkpoint stores, for people and for scripts: what bank-inspect model
// prints.
//
//   NPUBANK_ASSIGN_OR_RETURN(OpenedIndex model, OpenIndex("model.gguf"));
//   std::fputs(ModelAsTable(*model.index, /*filter=*/"layers.0.").c_str(), stdout);
//
// A line for each tensor that has `filter` in its name, in the order of the files: name, element type
// or block format, shape in elements, bytes, offset in its file, file; totals of all of them. JSON keys:
// tensors [{name, type, shape, bytes, offset, file}], files [{name, bytes}], totals {tensors, bytes}.
// Names come from files: what cannot be printed is escaped in the table, and JSON stays valid UTF-8.
#ifndef NPUBANK_TOOLS_REPORTS_MODEL_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_MODEL_TEXT_H_

#include <string>

#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

std::string ModelAsTable(const SourceIndex& index, const std::string& filter);
std::string ModelAsCsv(const SourceIndex& index, const std::string& filter);
std::string ModelAsJson(const SourceIndex& index, const std::string& filter);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_MODEL_TEXT_H_
