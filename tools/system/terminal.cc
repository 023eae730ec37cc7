#include "tools/system/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "platform/os/clock.h"
#include "tools/system/write_all.h"

namespace gleaner::tools {
namespace {

// Another screen without a cursor; the first one, with it.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[1;1H";
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr char kClearLine[] = "\033[2K";
constexpr char kNextLine[] = "\r\n";
constexpr char kClearBelow[] = "\033[J";
constexpr char kHome[] = "\033[H";

// Signals that end a process unless it says otherwise.
constexpr int kEnding[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGALRM,
                           SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
// Signals that Wait takes. They are blocked, so that they come nowhere else.
constexpr int kWaitedFor[] = {SIGTSTP, SIGCONT, SIGWINCH};

// What a signal that ends this process has to leave. Changed with kEnding blocked only.
struct {
  bool is_drawn;
  const char* frame;
  size_t bytes;
} g_shown;

bool IsIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t Ending() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEnding) sigaddset(&set, signal);
  return set;
}

sigset_t WaitedFor() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kWaitedFor) {
    // A blocked signal is not lost though it is ignored: it would stop who must not be stopped.
    if (signal != SIGTSTP || !IsIgnored(signal)) sigaddset(&set, signal);
  }
  return set;
}

bool Write(const std::string& text) { return WriteAll(STDOUT_FILENO, text.data(), text.size()); }

// The handler of kEnding; all of them are blocked in it. A terminal that takes no more output must
// not hold the process: other processes share the terminal's flags, so they are set for this only.
void GiveTerminalBackAndEnd(int signal) {
  if (g_shown.is_drawn) {
    constexpr int kLimitMs = 200;
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    (void)fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    (void)(WriteAll(STDOUT_FILENO, kLeave, strlen(kLeave), kLimitMs) &&
           WriteAll(STDOUT_FILENO, g_shown.frame, g_shown.bytes, kLimitMs));
    (void)fcntl(STDOUT_FILENO, F_SETFL, flags);
  }
  if (signal == SIGINT) _exit(0);
  ::signal(signal, SIG_DFL);
  raise(signal);
  const sigset_t set = Ending();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + signal);
}

void HandleEnding(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_mask = Ending();
  for (const int signal : kEnding) {
    if (!IsIgnored(signal)) sigaction(signal, &action, nullptr);
  }
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
  HandleEnding(GiveTerminalBackAndEnd);
}

Screen::~Screen() {
  Leave();
  HandleEnding(SIG_DFL);
  const sigset_t set = WaitedFor();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Screen::Remember(const std::string& frame, bool is_drawn) {
  const sigset_t set = Ending();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &set, &before);
  frame_ = frame;
  is_drawn_ = is_drawn;
  g_shown = {is_drawn, frame_.data(), frame_.size()};
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

bool Screen::Show(const std::string& text) {
  if (!is_terminal_) return Write(text);
  const bool enters = !is_drawn_;
  Remember(text, true);
  return Write((enters ? kEnter : "") + Drawn(text));
}

bool Screen::Print(const std::string& text) { return Write(text); }

void Screen::Leave() {
  if (!is_drawn_) return;
  (void)Write(kLeave);
  Remember(frame_, false);
}

bool Screen::LeaveLastFrame() {
  if (!is_drawn_) return true;
  Leave();
  return Write(frame_);
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
    if (signal == SIGTSTP) {
      Leave();
      raise(SIGSTOP);
    } else if (is_terminal_) {
      return Woken::kResized;
    }
  }
}

}  // namespace gleaner::tools
