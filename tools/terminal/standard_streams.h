// GuardStandardStreams: what a program says arrives, or the program fails.
//
//   int main(int argc, char** argv) {
//     GuardStandardStreams();  // ParseFlags does it (command_line.h)
//
// Input, output and errors (descriptors 0 to 2) that were closed by whoever started the program are
// opened on /dev/null, so that no file which the program opens gets their number and the story that
// is told, and the wrong way round: using them stays an error. At the end of the program, standard
// output is flushed and closed; what could not be written (a full disk, a closed output) is one line
// on standard error and exit status 1, whatever status the program had.
// Threads: call it first in main, once.
#ifndef NPUBANK_TOOLS_TERMINAL_STANDARD_STREAMS_H_
#define NPUBANK_TOOLS_TERMINAL_STANDARD_STREAMS_H_

namespace npubank {

void GuardStandardStreams();

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TERMINAL_STANDARD_STREAMS_H_
