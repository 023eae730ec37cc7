// Factoring by continued fractions (Morrison and Brillhart), every number a small block of its own:
// each intermediate result is allocated, and freed when its last user lets go of it, as in the
// program cfrac that allocators have been measured with since the nineties.
//
// From the expansion of sqrt(N): A[n]^2 = (-1)^(n+1) Q[n+1] (mod N). Where Q factors over small
// primes, the exponents modulo 2 make a row; rows that add up to zero make x^2 = y^2 (mod N).
#include <cstdlib>
#include <utility>
#include <vector>

#include "copies.h"

namespace {

__extension__ using Wide = unsigned __int128;

// A natural number below 2^128 in a block as large as it needs, shared by counting.
class Number {
 public:
  Number(Wide value = 0) {  // NOLINT: numbers are written as such
    uint32_t limbs = 1;
    while (limbs < 4 && value >> (32 * limbs) != 0) ++limbs;
    block_ = static_cast<Block*>(std::malloc(sizeof(Block) + limbs * sizeof(uint32_t)));
    if (block_ == nullptr) bench::Fail("no memory");
    block_->users = 1;
    block_->limbs = limbs;
    for (uint32_t i = 0; i < limbs; ++i) {
      block_->limb[i] = static_cast<uint32_t>(value >> (32 * i));
    }
  }
  Number(const Number& other) : block_(other.block_) { ++block_->users; }
  Number& operator=(const Number& other) {
    Number copy(other);
    std::swap(block_, copy.block_);
    return *this;
  }
  ~Number() {
    if (--block_->users == 0) std::free(block_);
  }
  Wide Value() const {
    Wide value = 0;
    for (uint32_t i = 0; i < block_->limbs; ++i) value |= Wide{block_->limb[i]} << (32 * i);
    return value;
  }

 private:
  struct Block {
    uint16_t users, limbs;
    uint32_t limb[];
  };
  Block* block_;
};

Number operator+(const Number& a, const Number& b) { return a.Value() + b.Value(); }
Number operator-(const Number& a, const Number& b) { return a.Value() - b.Value(); }
Number operator*(const Number& a, const Number& b) { return a.Value() * b.Value(); }
Number operator/(const Number& a, const Number& b) { return a.Value() / b.Value(); }
Number operator%(const Number& a, const Number& b) { return a.Value() % b.Value(); }

Number MultiplyModulo(const Number& a, const Number& b, const Number& n) {
  Number sum = 0, addend = a % n;
  for (Wide rest = b.Value(); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) sum = (sum + addend) % n;
    addend = (addend + addend) % n;
  }
  return sum;
}

Number GreatestCommonDivisor(Number a, Number b) {
  while (b.Value() != 0) {
    const Number rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

Number SquareRoot(const Number& n) {
  Number root = Wide{1} << 64;
  for (;;) {
    const Number better = (root + n / root) / 2;
    if (better.Value() >= root.Value()) return root;
    root = better;
  }
}

bool IsPrime(uint64_t n) {
  for (uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

// Whether n is a square modulo the odd prime p: no other prime divides any Q.
bool IsSquareModulo(const Number& n, uint64_t p) {
  uint64_t power = 1, base = static_cast<uint64_t>((n % p).Value());
  if (base == 0) return true;
  for (uint64_t exponent = (p - 1) / 2; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = power * base % p;
    base = base * base % p;
  }
  return power == 1;
}

struct Relation {
  Number a;                         // A[n]
  std::vector<uint32_t> exponents;  // of -1, then of the primes
  std::vector<uint64_t> odd;        // a bit for each exponent
  std::vector<uint64_t> made_of;    // a bit for each relation added to this row
};

// A factor of n other than 1 and n; 0 if these relations give none.
Number Combine(std::vector<Relation>& rows, const std::vector<uint64_t>& primes, const Number& n) {
  const size_t columns = primes.size() + 1;
  std::vector<bool> used(rows.size());
  for (size_t column = 0; column < columns; ++column) {
    const auto has = [&](size_t row) {
      return (rows[row].odd[column / 64] >> column % 64 & 1) != 0;
    };
    size_t pivot = 0;
    while (pivot < rows.size() && (used[pivot] || !has(pivot))) ++pivot;
    if (pivot == rows.size()) continue;
    used[pivot] = true;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (row == pivot || !has(row)) continue;
      for (size_t i = 0; i < rows[row].odd.size(); ++i) rows[row].odd[i] ^= rows[pivot].odd[i];
      for (size_t i = 0; i < rows[row].made_of.size(); ++i) {
        rows[row].made_of[i] ^= rows[pivot].made_of[i];
      }
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    if (used[row]) continue;
    Number x = 1, y = 1;
    std::vector<uint32_t> sums(columns);
    for (size_t i = 0; i < rows.size(); ++i) {
      if ((rows[row].made_of[i / 64] >> i % 64 & 1) == 0) continue;
      x = MultiplyModulo(x, rows[i].a, n);
      for (size_t c = 0; c < columns; ++c) sums[c] += rows[i].exponents[c];
    }
    for (size_t c = 1; c < columns; ++c) {
      for (uint32_t i = 0; i < sums[c] / 2; ++i) y = MultiplyModulo(y, primes[c - 1], n);
    }
    const Number factor = GreatestCommonDivisor(x + n - y, n);
    if (factor.Value() != 1 && factor.Value() != n.Value()) return factor;
  }
  return 0;
}

Number Factor(const Number& n, size_t base) {
  std::vector<uint64_t> primes = {2};
  for (uint64_t p = 3; primes.size() < base; p += 2) {
    if (IsPrime(p) && IsSquareModulo(n, p)) primes.push_back(p);
  }
  const size_t wanted = primes.size() + 20;
  std::vector<Relation> rows;
  const Number root = SquareRoot(n);
  Number p = 0, q = 1, a_before = 1, a = root, step = root;
  for (bool negative = true; rows.size() < wanted; negative = !negative) {
    p = step * q - p;
    q = (n - p * p) / q;
    if (q.Value() == 1) bench::Fail("the expansion is periodic before there are enough relations");
    Number rest = q;
    std::vector<uint32_t> exponents(primes.size() + 1);
    exponents[0] = negative ? 1 : 0;
    for (size_t i = 0; i < primes.size() && rest.Value() != 1; ++i) {
      const Number prime = primes[i];
      for (Number quotient = rest / prime; (quotient * prime).Value() == rest.Value();
           quotient = rest / prime) {
        rest = quotient;
        ++exponents[i + 1];
      }
    }
    if (rest.Value() == 1) {
      Relation row;
      row.a = a;
      row.odd.resize((exponents.size() + 63) / 64);
      row.made_of.resize((wanted + 63) / 64);
      row.made_of[rows.size() / 64] |= uint64_t{1} << rows.size() % 64;
      for (size_t c = 0; c < exponents.size(); ++c) {
        row.odd[c / 64] |= uint64_t{exponents[c] % 2} << c % 64;
      }
      row.exponents = std::move(exponents);
      rows.push_back(std::move(row));
    }
    step = (root + p) / q;
    const Number a_next = (MultiplyModulo(a, step, n) + a_before) % n;
    a_before = a;
    a = a_next;
  }
  return Combine(rows, primes, n);
}

uint64_t PrimeFrom(uint64_t n) {
  while (!IsPrime(n)) ++n;
  return n;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t bits, base;
  bench::Options options("cfrac", "factoring by continued fractions, all numbers in small blocks");
  options.Number("bits", &bits, 40, 24, 16, 44, "of each of the two prime factors");
  options.Number("base", &base, 200, 30, 8, 2000, "primes to factor over");
  options.Parse(argc, argv);
  const uint64_t one = PrimeFrom((uint64_t{1} << bits) + 1'000), other = PrimeFrom(one + one / 3);
  Wide factor;
  const double seconds = bench::RunCopies(options.threads(), &factor,
                                          [&] { return Factor(Wide{one} * other, base).Value(); });
  if (factor != one && factor != other) bench::Fail("no factor found");
  bench::ResultLine result("cfrac");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("seconds", seconds);
  result.Count("checksum", one ^ other);
  result.Print();
}
