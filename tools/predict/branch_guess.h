// How a processor guesses the outcome of a branch: a counter of two bits, the simplest that is in
// use. What it guesses wrong it does again.
#pragma once

namespace gleaner::tools {

class BranchGuess {
 public:
  // Whether the outcome is a surprise.
  bool IsWrong(bool taken) {
    const bool guess = count_ >= 2;
    if (taken) {
      if (count_ < 3) ++count_;
    } else if (count_ > 0) {
      --count_;
    }
    return guess != taken;
  }

 private:
  int count_ = 2;
};

}  // namespace gleaner::tools
