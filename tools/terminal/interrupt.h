// Interrupt: Ctrl-C as a question that a program asks itself, so that it ends with its report.
//
//   Interrupt::Catch();
//   while (!Interrupt::Came()) Work();
//
// The second Ctrl-C ends the program at once. Threads: any.
#ifndef NPUBANK_TOOLS_TERMINAL_INTERRUPT_H_
#define NPUBANK_TOOLS_TERMINAL_INTERRUPT_H_

namespace npubank {

class Interrupt {
 public:
  static constexpr int kExitStatus = 130;  // 128 + SIGINT, as shells say it

  static void Catch();
  static bool Came();
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TERMINAL_INTERRUPT_H_
