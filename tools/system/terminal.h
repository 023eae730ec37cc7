// Standard output as a screen that is drawn again and again, and the wait between two drawings.
#pragma once

#include <cstdint>
#include <string>

namespace gleaner::tools {

// One at a time. While it lives, a signal that ends this process gives the terminal back first, at
// any moment: also while work goes on, or the terminal takes no more output. The last frame stays
// on it. SIGINT ends this process with status 0. A signal that is ignored stays so.
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
  // Adds `text` to the output, as it is. False with errno as above.
  [[nodiscard]] bool Print(const std::string& text);
  // Back to what was shown before; Show draws on the screen again.
  void Leave();
  // The same, and what is on the screen stays, uncut, as further output.
  [[nodiscard]] bool LeaveLastFrame();

  enum class Woken : uint8_t {
    kTime,     // the time is over
    kResized,  // the window has another size, or the process was stopped meanwhile
  };
  // Waits until `end_ns` (CLOCK_MONOTONIC), or for something else to do.
  Woken Wait(uint64_t end_ns);

 private:
  void Remember(const std::string& frame, bool is_drawn);

  bool is_terminal_;
  bool is_drawn_ = false;
  std::string frame_;
};

}  // namespace gleaner::tools
