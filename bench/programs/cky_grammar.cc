// The normal form of the table, and questions about it; see cky_grammar.h.
#include "cky_grammar.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "bench_util.h"
#include "cky_english.h"

namespace cky {

class Normaliser {
 public:
  explicit Normaliser(Grammar* grammar) : grammar_(*grammar) {}

  void Run() {
    for (const RuleRow& row : kEnglishRules) Intern(row.parent);
    std::istringstream lines(kEnglishWords);
    for (std::string line; std::getline(lines, line);) AddWords(line);
    for (const RuleRow& row : kEnglishRules) AddRules(row);
    Renumber();
  }

 private:
  Symbol Intern(const std::string& name) {
    const auto [entry, is_new] = symbols_.emplace(name, static_cast<Symbol>(symbols_.size()));
    if (is_new) grammar_.names_.push_back(name);
    if (symbols_.size() > kMaxSymbols) bench::Fail("more than %zu symbols", kMaxSymbols);
    return entry->second;
  }

  void AddWords(const std::string& line) {
    std::istringstream stream(line);
    std::string parent;
    stream >> parent;
    const auto count = static_cast<double>(std::count(line.begin(), line.end(), ' '));
    for (std::string word; stream >> word;) AddWord(Intern(parent), word, 1 / count);
  }

  void AddWord(Symbol parent, const std::string& text, double weight) {
    const Word word = words_.emplace(text, static_cast<Word>(words_.size())).first->second;
    grammar_.by_word_.resize(words_.size());
    grammar_.lexical_.push_back({parent, word, weight});
  }

  // Of each alternative of the row.
  void AddRules(const RuleRow& row) {
    std::istringstream alternatives(row.alternatives);
    for (std::string alternative; std::getline(alternatives, alternative, '|');) {
      std::vector<Symbol> rule{Intern(row.parent)};
      std::istringstream names(alternative);
      for (std::string name; names >> name;) {
        const bool is_new_word = !symbols_.contains(name);
        rule.push_back(Intern(name));
        if (is_new_word) AddWord(rule.back(), name, 1);
      }
      grammar_.rules_.insert(rule);
      if (rule.size() == 2) {
        grammar_.unary_.push_back({rule[0], rule[1], row.weight});
      } else {
        grammar_.binary_.push_back({rule[0], rule[1], SuffixOf(rule, 2), row.weight});
      }
    }
  }

  // The symbol of rule[first] and all that follow.
  Symbol SuffixOf(const std::vector<Symbol>& rule, size_t first) {
    if (first + 1 == rule.size()) return rule[first];
    std::string name;
    for (size_t i = first; i < rule.size(); ++i) name += " " + grammar_.names_[rule[i]];
    const Symbol suffix = Intern("<" + name + ">");
    if (!grammar_.suffixes_.Has(suffix)) {
      grammar_.suffixes_.Add(suffix);
      grammar_.binary_.push_back({suffix, rule[first], SuffixOf(rule, first + 1), 1});
    }
    return suffix;
  }

  // By a depth-first walk from the parents to the children of unary rules.
  void Renumber() {
    const size_t count = grammar_.symbols();
    numbers_.assign(count, kNoNumber);
    for (Symbol s = 0; s < count; ++s) Visit(s);
    std::vector<std::string> names(count);
    SymbolSet suffixes;
    for (Symbol s = 0; s < count; ++s) {
      names[numbers_[s]] = grammar_.names_[s];
      if (grammar_.suffixes_.Has(s)) suffixes.Add(numbers_[s]);
    }
    grammar_.names_ = names;
    grammar_.suffixes_ = suffixes;
    grammar_.start_ = numbers_[0];
    for (BinaryRule& rule : grammar_.binary_) {
      rule = {numbers_[rule.parent], numbers_[rule.left], numbers_[rule.right], rule.weight};
    }
    for (UnaryRule& rule : grammar_.unary_) {
      rule = {numbers_[rule.parent], numbers_[rule.child], rule.weight};
    }
    for (LexicalRule& rule : grammar_.lexical_) rule.parent = numbers_[rule.parent];
    std::set<std::vector<Symbol>> rules;
    for (std::vector<Symbol> rule : grammar_.rules_) {
      for (Symbol& symbol : rule) symbol = numbers_[symbol];
      rules.insert(std::move(rule));
    }
    grammar_.rules_ = std::move(rules);
  }

  void Visit(Symbol symbol) {
    if (numbers_[symbol] != kNoNumber) return;
    for (const UnaryRule& rule : grammar_.unary_) {
      if (rule.parent == symbol) Visit(rule.child);
    }
    numbers_[symbol] = next_number_++;
  }

  static constexpr Symbol kNoNumber = kMaxSymbols;

  Grammar& grammar_;
  std::map<std::string, Symbol> symbols_;  // A word of a rule by its text.
  std::map<std::string, Word> words_;
  std::vector<Symbol> numbers_;  // By the number in the order of the table.
  Symbol next_number_ = 0;
};

Grammar::Grammar() {
  Normaliser(this).Run();
  Index();
}

void Grammar::Index() {
  by_left_.resize(symbols());
  by_child_.resize(symbols());
  partners_.resize(symbols());
  for (const BinaryRule& rule : binary_) {
    by_left_[rule.left].push_back(rule);
    partners_[rule.left].Add(rule.right);
  }
  for (std::vector<BinaryRule>& rules : by_left_) {
    std::sort(rules.begin(), rules.end(), [](const BinaryRule& a, const BinaryRule& b) {
      return a.right != b.right ? a.right < b.right : a.parent < b.parent;
    });
  }
  for (const UnaryRule& rule : unary_) by_child_[rule.child].push_back(rule);
  for (const LexicalRule& rule : lexical_) by_word_[rule.word].push_back(rule);
}

bool Grammar::HasRule(Symbol parent, const Symbol* children, size_t count) const {
  std::vector<Symbol> rule{parent};
  rule.insert(rule.end(), children, children + count);
  return rules_.contains(rule);
}

bool Grammar::HasLexicalRule(Symbol parent, Word word) const {
  const std::vector<LexicalRule>& rules = by_word_[word];
  return std::any_of(rules.begin(), rules.end(),
                     [&](const LexicalRule& rule) { return rule.parent == parent; });
}

}  // namespace cky
