#include "tools/system/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "platform/clock.h"

namespace gleaner::tools {
namespace {

// Another screen without a cursor; the first one, with it.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[1;1H";
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr char kClearLine[] = "\033[2K";
constexpr char kNextLine[] = "\r\n";
constexpr char kClearBelow[] = "\033[J";
constexpr char kHome[] = "\033[H";

sigset_t WaitedFor() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}) {
    sigaddset(&set, signal);
  }
  return set;
}

bool WriteAll(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += static_cast<size_t>(n);
  }
  return true;
}

// `text` as lines of at most the window's size, drawn over what is there, from home to home. One
// byte is one column. A line is cleared before it is written: behind one of full width, clearing
// may take its last character.
std::string Drawn(const std::string& text) {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    window.ws_col = 80;
    window.ws_row = 24;
  }
  std::string out;
  size_t rows = 0;
  for (size_t at = 0; at < text.size() && rows < window.ws_row; ++rows) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (rows != 0) out += kNextLine;
    out += kClearLine + text.substr(at, std::min<size_t>(end - at, window.ws_col));
    at = end + 1;
  }
  if (rows < window.ws_row) out += std::string(kNextLine) + kClearBelow;
  return out + kHome;
}

}  // namespace

Screen::Screen() : is_terminal_(isatty(STDOUT_FILENO) != 0) {
  const sigset_t set = WaitedFor();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

Screen::~Screen() {
  Leave();
  const sigset_t set = WaitedFor();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

bool Screen::Show(const std::string& text) {
  if (!is_terminal_) return WriteAll(text);
  const bool enters = !is_drawn_;
  is_drawn_ = true;
  return WriteAll((enters ? kEnter : "") + Drawn(text));
}

void Screen::Leave() {
  if (!is_drawn_) return;
  is_drawn_ = false;
  (void)WriteAll(kLeave);
}

Screen::Woken Screen::Wait(uint64_t end_ns) {
  const sigset_t set = WaitedFor();
  for (;;) {
    const uint64_t now = platform::NowNs();
    const uint64_t left = end_ns > now ? end_ns - now : 0;
    const timespec time = {static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    const int signal = sigtimedwait(&set, nullptr, &time);
    if (signal < 0) {
      if (errno == EINTR) continue;
      return Woken::kTime;
    }
    if (signal == SIGWINCH || signal == SIGCONT) {
      if (is_terminal_) return Woken::kResized;
      continue;
    }
    if (signal != SIGTSTP) {
      signal_ = signal;
      return Woken::kEnd;
    }
    Leave();
    raise(SIGSTOP);
  }
}

void Screen::EndBySignal() const {
  if (signal_ == SIGINT) exit(0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_);
  ::signal(signal_, SIG_DFL);
  raise(signal_);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + signal_);
}

}  // namespace gleaner::tools
