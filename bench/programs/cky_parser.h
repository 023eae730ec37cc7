// The chart parser of the CKY program (Cocke, Kasami, Younger): all parses of all substrings of a
// sentence, bottom-up, in collected memory.
//
// The table has a cell for each span of words. A cell holds the list of its items, one for each
// symbol that derives the span. An item holds the list of its derivations, which point to the items
// that they are made of. The items are thus a packed forest of all parse trees.
#ifndef GLEANER_BENCH_CKY_PARSER_H_
#define GLEANER_BENCH_CKY_PARSER_H_

#include <cstddef>
#include <cstdint>

#include "bench_util.h"
#include "cky_grammar.h"
#include "cky_sentences.h"

namespace cky {

struct Item;

// A binary rule has two items, a unary rule has a left one, a word has none.
struct Derivation {
  Derivation* next;
  Item* left;
  Item* right;
};

struct Item {
  Item* next;  // In the cell, by growing symbol.
  Derivation* derivations;
  uint64_t trees;  // Modulo kPrime, kNotCounted before TreesOf.
  uint16_t begin, end;
  Symbol symbol;
};

// In memory that is not scanned.
struct CellSets {
  SymbolSet present;  // The symbols of the items.
  SymbolSet wanted;   // Those that a rule has to the right of one of them.
};

// A span that no symbol derives has no cell.
struct Cell {
  Item* items;
  const CellSets* sets;
};

// Of one thread. It lies on a stack, from which the collector finds the table.
class Parser {
 public:
  explicit Parser(const Grammar& grammar) : grammar_(grammar) {}

  // Parses a sentence, counts what the table and the forest hold, and checks a tree drawn from the
  // forest against the grammar. Fails if the sentence has no parse. The table is garbage
  // afterwards.
  Findings Parse(const Sentence& sentence, bench::Rng* rng);

 private:
  void FillTable();
  Cell* NewCell(size_t begin, size_t end);
  void Combine(const Cell* left, const Cell* right);
  void AddDerivation(Symbol parent, Item* left, Item* right);
  Cell*& CellOf(size_t begin, size_t end) { return table_[begin * (words_ + 1) + end]; }
  void CountTable(Findings* findings);
  uint64_t TreesOf(Item* item);
  const Derivation* DrawDerivation(const Item* item, bench::Rng* rng);
  void CheckTree(const Item* item, bench::Rng* rng);

  const Grammar& grammar_;
  const Sentence* sentence_ = nullptr;
  size_t words_ = 0;
  Cell** table_ = nullptr;
  // The cell under construction.
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t item_count_ = 0;
  SymbolSet present_;
  Item* items_[kMaxSymbols];  // By symbol, where present.
};

}  // namespace cky

#endif  // GLEANER_BENCH_CKY_PARSER_H_
