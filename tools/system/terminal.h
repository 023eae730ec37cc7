// Standard output as a screen that is drawn again and again, and the wait between two drawings.
#pragma once

#include <cstdint>
#include <string>

namespace gleaner::tools {

// One at a time. While it lives, the signals that Wait reports are blocked.
class Screen {
 public:
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  // Shows what the terminal showed before.
  ~Screen();

  bool is_terminal() const { return is_terminal_; }
  // Shows the lines of `text`, cut to the size of the window; if this is no terminal, adds them to
  // the output. False with errno if that cannot be written.
  [[nodiscard]] bool Show(const std::string& text);
  // Back to what was shown before; Show draws on the screen again.
  void Leave();

  enum class Woken : uint8_t {
    kTime,     // the time is over
    kResized,  // the window has another size, or the process was stopped meanwhile
    kEnd,      // somebody wants this process to end: signal() says by which signal
  };
  // Waits until `end_ns` (CLOCK_MONOTONIC), or for something else to do.
  Woken Wait(uint64_t end_ns);
  int signal() const { return signal_; }
  // Ends this process by that signal, or with status 0 if it was SIGINT. Call Leave first.
  [[noreturn]] void EndBySignal() const;

 private:
  bool is_terminal_;
  bool is_drawn_ = false;
  int signal_ = 0;
};

}  // namespace gleaner::tools
