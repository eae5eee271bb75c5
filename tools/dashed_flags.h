// Dashed flags: --kv-heads for a flag that C++ has to call kv_heads.
//
//   npubank::AcceptDashes(argc, argv);   // before absl::ParseCommandLine
//
// Rewrites dashes inside the names of arguments that start with "--" (up to "=") in place; values
// and whatever stands after a lone "--" are left alone.
#ifndef NPUBANK_TOOLS_DASHED_FLAGS_H_
#define NPUBANK_TOOLS_DASHED_FLAGS_H_

#include <cstring>

namespace npubank {

inline void AcceptDashes(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) continue;
    if (argv[i][2] == '\0') return;
    for (char* at = argv[i] + 2; *at != '\0' && *at != '='; ++at) {
      if (*at == '-') *at = '_';
    }
  }
}

}  // namespace npubank

#endif  // NPUBANK_TOOLS_DASHED_FLAGS_H_
