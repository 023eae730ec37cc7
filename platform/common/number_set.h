// A set of small numbers, as a bit mask in the kernel's form: number n is bit n % 64 of word n
// / 64. Allocates nothing.
#pragma once

#include "platform/common/bits.h"
#include "platform/common/units.h"

namespace gleaner::platform {

// Reads a list like "0-3,5" into the mask of `limit` numbers, which is empty before; an empty list
// is a set, too. *end is where the list ends: at the first character that cannot belong to it.
// False if a number is missing, is not below `limit`, or a range falls.
bool ParseNumbers(const char* text, const char** end, uint64_t* words, int limit);

// Writes such a list as a string of at most `size` - 1 characters. Returns the length of all of it,
// of which the end is cut off if it does not fit. pre: size > 0.
size_t FormatNumbers(const uint64_t* words, int limit, char* out, size_t size);

// Numbers from 0 to kLimit - 1.
template <int kLimit>
class NumberSet {
  static_assert(kLimit % 64 == 0);

 public:
  static constexpr int kWords = kLimit / 64;

  // False for numbers that cannot be in the set.
  constexpr bool Has(int number) const {
    return IsPossible(number) && (words_[number / 64] & Bit(number)) != 0;
  }
  // Ignores numbers that cannot be in the set.
  constexpr void Add(int number) {
    if (IsPossible(number)) words_[number / 64] |= Bit(number);
  }
  constexpr void Remove(int number) {
    if (IsPossible(number)) words_[number / 64] &= ~Bit(number);
  }

  constexpr int Count() const {
    uint64_t count = 0;
    for (const uint64_t word : words_) count += CountBits(word);
    return static_cast<int>(count);
  }
  constexpr bool IsEmpty() const { return First() < 0; }
  // The smallest number; -1 if the set is empty.
  constexpr int First() const { return Next(-1); }
  // The smallest number above `after`; -1 if there is none. pre: after >= -1.
  constexpr int Next(int after) const {
    for (int number = after + 1; number < kLimit; number = (number / 64 + 1) * 64) {
      const uint64_t rest = words_[number / 64] >> (number % 64);
      if (rest != 0) return number + __builtin_ctzll(rest);
    }
    return -1;
  }

  constexpr void Unite(const NumberSet& other) {
    for (int i = 0; i < kWords; ++i) words_[i] |= other.words_[i];
  }
  constexpr void Intersect(const NumberSet& other) {
    for (int i = 0; i < kWords; ++i) words_[i] &= other.words_[i];
  }
  constexpr void Subtract(const NumberSet& other) {
    for (int i = 0; i < kWords; ++i) words_[i] &= ~other.words_[i];
  }
  friend constexpr bool operator==(const NumberSet&, const NumberSet&) = default;

  // For system calls.
  constexpr const uint64_t* words() const { return words_; }
  constexpr uint64_t* words() { return words_; }

  // ParseNumbers and FormatNumbers. A list that is wrong leaves the set as it is.
  bool Parse(const char* text, const char** end) {
    NumberSet parsed;
    if (!ParseNumbers(text, end, parsed.words_, kLimit)) return false;
    *this = parsed;
    return true;
  }
  size_t Format(char* out, size_t size) const { return FormatNumbers(words_, kLimit, out, size); }

 private:
  static constexpr bool IsPossible(int number) { return number >= 0 && number < kLimit; }
  static constexpr uint64_t Bit(int number) { return uint64_t{1} << (number % 64); }

  uint64_t words_[kWords] = {};
};

}  // namespace gleaner::platform
