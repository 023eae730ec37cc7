#include "tools/top/top.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "platform/os/clock.h"
#include "tools/common/text.h"
#include "tools/heap/live_heap.h"
#include "tools/system/process_memory.h"
#include "tools/system/terminal.h"
#include "tools/top/top_frame.h"

using namespace gleaner::tools;
using gleaner::platform::NowNs;

namespace {

constexpr int kFailed = 1;
// How long a program that is executed anew may take to map the library.
constexpr uint64_t kLoadingNs = 2'000'000'000;
// And one that a shell has just started, as in "program & gleaner top $!".
constexpr uint64_t kStartingNs = 500'000'000;

class TopRun {
 public:
  explicit TopRun(const TopOptions& options) : options_(options) {}

  int Go() {
    const uint64_t started_by_ns = NowNs() + kStartingNs;
    while (!Attach()) {
      if (!is_open_ || NowNs() >= started_by_ns) return Fail();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (uint64_t frame = 1;; ++frame) {
      const uint64_t begin_ns = NowNs();
      if (!Look()) return has_ended_ ? SayItHasEnded() : Fail();
      if (!Show()) return FailToWrite();
      if (frame == options_.frames) return screen_.LeaveLastFrame() ? 0 : FailToWrite();
      const auto period_ns = static_cast<uint64_t>(options_.seconds * 1e9);
      while (screen_.Wait(begin_ns + period_ns) == Screen::Woken::kResized) {
        if (!Show()) return FailToWrite();
      }
    }
  }

 private:
  [[nodiscard]] bool Attach() {
    is_open_ = memory_.Open(options_.process);
    if (!is_open_) {
      message_ = memory_.error();
      return false;
    }
    bool has_32_bits;
    heaps_ = LiveHeap::Find(memory_, &has_32_bits);
    previous_.clear();
    if (!heaps_.empty()) return true;
    message_ = Whose() + "there is no Gleaner in it that this version reads";
    if (has_32_bits) message_ += ": it has 32 bits";
    return false;
  }

  std::string Whose() const {
    return "process " + std::to_string(options_.process) + " (" + Printable(memory_.name()) + "): ";
  }

  // Makes the next frame. False with a message, or if the process has ended.
  [[nodiscard]] bool Look() {
    constexpr int kTries = 10;
    for (int failed = 0; failed < kTries;) {
      if (heaps_.empty() && !Attach()) {
        has_ended_ = memory_.is_missing();
        frame_ = Whose() + "it executes another program\n";
        if (has_ended_ || NowNs() >= loading_until_ns_) return false;
        if (options_.frames != 1) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      bool is_readable;
      if (MakeFrame(&is_readable)) return true;
      if (is_readable) return false;
      // What was there is gone.
      ++failed;
      const ProcessMemory::State state = memory_.state();
      has_ended_ = state == ProcessMemory::State::kEnded;
      if (has_ended_) return false;
      if (state == ProcessMemory::State::kOther) {
        heaps_.clear();
        loading_until_ns_ = NowNs() + kLoadingNs;
      }
    }
    message_ = Whose() + "its heap cannot be read";
    return false;
  }

  // Makes a frame of the heaps. False if a heap is not readable, or with a message.
  [[nodiscard]] bool MakeFrame(bool* is_readable) {
    TopFrame frame(memory_.process(), memory_.name());
    bool is_unused = false;
    bool is_other = false;
    bool is_uncollected = false;
    *is_readable = true;
    for (size_t i = 0; i < heaps_.size(); ++i) {
      HeapSample sample;
      switch (heaps_[i].Read(memory_, &sample)) {
        case LiveHeap::Found::kYes:
          if (i >= previous_.size()) previous_.resize(i + 1);
          frame.Add(heaps_[i], sample, previous_[i]);
          previous_[i] = sample;
          break;
        case LiveHeap::Found::kUnused:
          is_unused = true;
          break;
        case LiveHeap::Found::kUncollected:
          is_uncollected = true;
          break;
        case LiveHeap::Found::kOtherVersion:
          is_other = true;
          break;
        case LiveHeap::Found::kUnreadable:
          *is_readable = false;
          return false;
      }
    }
    frame_ = frame.is_empty() && !options_.json ? Whose() + "the collector has not been used yet\n"
             : options_.json                    ? frame.JsonText()
                                                : frame.Text();
    if (!frame.is_empty() || (is_unused && options_.frames != 1)) return true;
    message_ =
        Whose() +
        (is_other ? "its Gleaner is of another version"
         : is_unused || !is_uncollected
             ? "the collector has not been used yet; gleaner top without --once waits for that"
             : "its malloc is Gleaner's, without a collector: there is nothing to show; gleaner "
               "run "
               "--malloc --collect has one");
    return false;
  }

  [[nodiscard]] bool Show() {
    errno = 0;
    const std::string separator =
        has_shown_ && !screen_.is_terminal() && !options_.json ? "\n" : "";
    has_shown_ = true;
    // A single frame stays on the screen.
    return options_.frames == 1 ? screen_.Print(frame_) : screen_.Show(separator + frame_);
  }

  int SayItHasEnded() {
    (void)screen_.LeaveLastFrame();
    Tell("top", Whose() + "it has ended");
    return has_shown_ ? 0 : kFailed;
  }
  int Fail() {
    screen_.Leave();
    Tell("top", message_);
    return kFailed;
  }
  int FailToWrite() {
    message_ = std::string("standard output: ") + strerror(errno);
    return Fail();
  }

  const TopOptions& options_;
  Screen screen_;
  ProcessMemory memory_;
  std::vector<LiveHeap> heaps_;
  std::vector<HeapSample> previous_;  // of each heap; time 0: there is none
  std::string frame_;
  std::string message_;
  uint64_t loading_until_ns_ = 0;
  bool is_open_ = false;
  bool has_shown_ = false;
  bool has_ended_ = false;
};

}  // namespace

int Top(const TopOptions& options) { return TopRun(options).Go(); }
