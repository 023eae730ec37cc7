// The table, the forest and a tree of it; see cky_parser.h.
#include "cky_parser.h"

#include "gc.h"
#include "gc_run.h"

namespace cky {
namespace {

constexpr uint64_t kNotCounted = ~UINT64_C(0);

template <typename T>
T* New() {
  bench::RecordProgress();
  return static_cast<T*>(GC_malloc(sizeof(T)));
}

}  // namespace

Findings Parser::Parse(const Sentence& sentence, bench::Rng* rng) {
  sentence_ = &sentence;
  words_ = sentence.size();
  table_ = static_cast<Cell**>(GC_malloc((words_ + 1) * (words_ + 1) * sizeof(Cell*)));
  FillTable();
  Findings findings;
  CountTable(&findings);
  const Cell* whole = CellOf(0, words_);
  if (whole == nullptr || !whole->sets->present.Has(grammar_.start())) {
    bench::Fail("a sentence of %zu words has no parse", words_);
  }
  Item* root = whole->items;
  while (root->symbol != grammar_.start()) root = root->next;
  findings.trees = TreesOf(root);
  CheckTree(root, rng);
  table_ = nullptr;
  return findings;
}

void Parser::FillTable() {
  for (size_t end = 1; end <= words_; ++end) {
    for (size_t begin = end; begin-- > 0;) CellOf(begin, end) = NewCell(begin, end);
  }
}

Cell* Parser::NewCell(size_t begin, size_t end) {
  begin_ = begin;
  end_ = end;
  item_count_ = 0;
  present_ = SymbolSet();
  if (end == begin + 1) {
    for (const LexicalRule& rule : grammar_.WithWord((*sentence_)[begin])) {
      AddDerivation(rule.parent, nullptr, nullptr);
    }
  }
  for (size_t middle = begin + 1; middle < end; ++middle) {
    const Cell* left = CellOf(begin, middle);
    const Cell* right = CellOf(middle, end);
    if (left != nullptr && right != nullptr &&
        left->sets->wanted.Intersects(right->sets->present)) {
      Combine(left, right);
    }
  }
  if (item_count_ == 0) return nullptr;
  Cell* cell = New<Cell>();
  auto* sets = static_cast<CellSets*>(GC_malloc_atomic(sizeof(CellSets)));
  cell->sets = sets;
  sets->wanted = SymbolSet();
  Item** last = &cell->items;
  // A unary rule adds its parent, which is a greater symbol.
  for (Symbol s = 0; s < grammar_.symbols(); ++s) {
    if (!present_.Has(s)) continue;
    for (const UnaryRule& rule : grammar_.WithChild(s)) {
      AddDerivation(rule.parent, items_[s], nullptr);
    }
    sets->wanted.AddAll(grammar_.PartnersOf(s));
    *last = items_[s];
    last = &items_[s]->next;
  }
  sets->present = present_;
  return cell;
}

// The rules of a left item and the items of the right cell both ascend by the right symbol.
void Parser::Combine(const Cell* left, const Cell* right) {
  const SymbolSet& present = right->sets->present;
  for (Item* first = left->items; first != nullptr; first = first->next) {
    if (!grammar_.PartnersOf(first->symbol).Intersects(present)) continue;
    Item* second = right->items;
    for (const BinaryRule& rule : grammar_.WithLeft(first->symbol)) {
      if (!present.Has(rule.right)) continue;
      while (second->symbol < rule.right) second = second->next;
      AddDerivation(rule.parent, first, second);
    }
  }
}

void Parser::AddDerivation(Symbol parent, Item* left, Item* right) {
  if (!present_.Has(parent)) {
    Item* item = New<Item>();
    item->trees = kNotCounted;
    item->begin = static_cast<uint16_t>(begin_);
    item->end = static_cast<uint16_t>(end_);
    item->symbol = parent;
    items_[parent] = item;
    present_.Add(parent);
    ++item_count_;
  }
  Derivation* derivation = New<Derivation>();
  derivation->left = left;
  derivation->right = right;
  derivation->next = items_[parent]->derivations;
  items_[parent]->derivations = derivation;
}

void Parser::CountTable(Findings* findings) {
  for (size_t end = 1; end <= words_; ++end) {
    for (size_t begin = 0; begin < end; ++begin) {
      const Cell* cell = CellOf(begin, end);
      if (cell == nullptr) continue;
      for (const Item* item = cell->items; item != nullptr; item = item->next) {
        ++findings->items;
        for (const Derivation* d = item->derivations; d != nullptr; d = d->next) {
          ++findings->derivations;
        }
      }
    }
  }
}

uint64_t Parser::TreesOf(Item* item) {
  if (item->trees != kNotCounted) return item->trees;
  uint64_t trees = 0;
  for (const Derivation* d = item->derivations; d != nullptr; d = d->next) {
    uint64_t product = d->left == nullptr ? 1 : TreesOf(d->left);
    if (d->right != nullptr) product = MultiplyModulo(product, TreesOf(d->right));
    trees = AddModulo(trees, product);
  }
  item->trees = trees;
  return trees;
}

// Each derivation of the item is equally likely.
const Derivation* Parser::DrawDerivation(const Item* item, bench::Rng* rng) {
  const Derivation* drawn = nullptr;
  uint64_t seen = 0;
  for (const Derivation* d = item->derivations; d != nullptr; d = d->next) {
    if (rng->Below(++seen) == 0) drawn = d;
  }
  return drawn;
}

// Fails unless a tree below the item, drawn at random, has rules of the table and the words of
// the sentence.
void Parser::CheckTree(const Item* item, bench::Rng* rng) {
  const Item* children[kMaxRuleLength];
  Symbol symbols[kMaxRuleLength];
  size_t count = 0;
  const Derivation* derivation = DrawDerivation(item, rng);
  const char* name = grammar_.NameOf(item->symbol).c_str();
  if (derivation->left == nullptr) {
    if (item->end != item->begin + 1 ||
        !grammar_.HasLexicalRule(item->symbol, (*sentence_)[item->begin])) {
      bench::Fail("a tree has a word %u that %s does not derive", item->begin, name);
    }
    return;
  }
  // A part <C D> of a longer rule gives its children to the rule.
  size_t end = item->begin;
  const auto add = [&](const Item* child) {
    if (count == kMaxRuleLength || child->begin != end) {
      bench::Fail("a tree has children of %s that do not follow each other", name);
    }
    end = child->end;
    symbols[count] = child->symbol;
    children[count++] = child;
  };
  add(derivation->left);
  while (derivation->right != nullptr && grammar_.IsSuffix(derivation->right->symbol)) {
    derivation = DrawDerivation(derivation->right, rng);
    add(derivation->left);
  }
  if (derivation->right != nullptr) add(derivation->right);
  if (end != item->end || !grammar_.HasRule(item->symbol, symbols, count)) {
    bench::Fail("a tree has a node %s of words %u to %u that no rule makes", name, item->begin,
                item->end);
  }
  for (size_t i = 0; i < count; ++i) CheckTree(children[i], rng);
}

}  // namespace cky
