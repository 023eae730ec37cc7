// The reader of grammar files; see cky_grammar.h. It splits lines into tokens, gathers the rules,
// resolves names, brings the rules into normal form, and numbers the symbols.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "bench_util.h"
#include "cky_grammar.h"

namespace cky {
namespace {

struct Token {
  std::string text;
  bool quoted;
};

// As in the file. A word has its quotes in `text` still, so that it is no name.
struct FileRule {
  Symbol parent;
  std::vector<Token> children;
  double weight;
  int line;
};

bool IsName(const std::string& text) {
  if (std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '\''; });
}

bool IsOperator(const Token& token, const char* text) {
  return !token.quoted && token.text == text;
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

class Reader {
 public:
  Reader(const std::string& path, Grammar* grammar) : path_(path), grammar_(grammar) {}

  void Run() {
    ReadLines();
    if (!has_start_) bench::Fail("%s: the file has no rule", path_.c_str());
    for (const FileRule& rule : file_rules_) AddRule(rule);
    Renumber();
  }

 private:
  [[noreturn]] void Reject(const std::string& reason) const {
    bench::Fail("%s:%d: %s", path_.c_str(), line_, reason.c_str());
  }

  void ReadLines() {
    std::ifstream file(path_);
    if (!file) bench::Fail("%s: %s", path_.c_str(), std::strerror(errno));
    std::string text;
    while (std::getline(file, text)) {
      ++line_;
      ReadLine(TokensOf(text));
    }
    if (!file.eof()) bench::Fail("%s: cannot be read as a file", path_.c_str());
  }

  std::vector<Token> TokensOf(const std::string& text) const {
    std::vector<Token> tokens;
    size_t i = 0;
    while (i < text.size() && text[i] != '#') {
      if (IsBlank(text[i])) {
        ++i;
        continue;
      }
      const bool quoted = text[i] == '"';
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && !IsBlank(text[end]) &&
             (quoted || text[end] != '#')) {
        if (std::iscntrl(static_cast<unsigned char>(text[end])) != 0) {
          Reject("a control character");
        }
        ++end;
      }
      if (quoted) {
        if (end == text.size() || text[end] != '"') {
          Reject("no closing quote after " + text.substr(i, end - i));
        }
        ++end;
        if (end - i == 2) Reject("a word without characters");
      }
      tokens.push_back({text.substr(i, end - i), quoted});
      i = end;
    }
    return tokens;
  }

  // [weight] name -> alternative | alternative ..., or [weight] name : word word ...
  void ReadLine(std::vector<Token> tokens) {
    if (tokens.empty()) return;
    const double weight = TakeWeight(&tokens);
    if (tokens.size() < 2 || !(IsOperator(tokens[1], "->") || IsOperator(tokens[1], ":"))) {
      Reject("a rule is written NAME -> ... or NAME : ..., with blanks");
    }
    if (tokens[0].quoted || !IsName(tokens[0].text)) {
      Reject(tokens[0].text + " is not a name: a letter, then letters, digits, _ and '");
    }
    const Symbol parent = Intern(tokens[0].text);
    defined_[parent] = true;
    if (!has_start_) grammar_->start_ = parent;
    has_start_ = true;
    const bool words = IsOperator(tokens[1], ":");
    tokens.erase(tokens.begin(), tokens.begin() + 2);
    if (words) {
      ReadWords(parent, tokens, weight);
    } else {
      ReadAlternatives(parent, tokens, weight);
    }
  }

  double TakeWeight(std::vector<Token>* tokens) const {
    const std::string text = tokens->front().text;
    if (std::isdigit(static_cast<unsigned char>(text[0])) == 0) return 1;
    char* end;
    const double weight = std::strtod(text.c_str(), &end);
    if (*end != '\0' || !(weight >= 1e-6 && weight <= 1e6)) {
      Reject(text + " is not a weight: a number from 0.000001 to 1000000");
    }
    tokens->erase(tokens->begin());
    return weight;
  }

  void ReadWords(Symbol parent, const std::vector<Token>& tokens, double weight) {
    if (tokens.empty()) Reject("no word after the colon");
    for (const Token& token : tokens) {
      for (const char* op : {"->", ":", "|"}) {
        if (IsOperator(token, op)) Reject(token.text + " among words is written in quotes");
      }
      const std::string word =
          token.quoted ? token.text.substr(1, token.text.size() - 2) : token.text;
      AddLexicalRule(parent, word, weight / static_cast<double>(tokens.size()));
    }
  }

  void ReadAlternatives(Symbol parent, const std::vector<Token>& tokens, double weight) {
    std::vector<Token> children;
    for (size_t i = 0; i <= tokens.size(); ++i) {
      if (i < tokens.size() && !IsOperator(tokens[i], "|")) {
        children.push_back(tokens[i]);
        continue;
      }
      ReadAlternative(parent, children, weight);
      children.clear();
    }
  }

  void ReadAlternative(Symbol parent, const std::vector<Token>& children, double weight) {
    if (children.empty()) Reject("an empty right-hand side of " + NameOf(parent));
    if (children.size() > kMaxRuleLength) {
      Reject("more than " + std::to_string(kMaxRuleLength) + " symbols on a right-hand side");
    }
    for (const Token& child : children) {
      if (!child.quoted && !IsName(child.text)) {
        Reject(child.text + " is neither a name nor a word in quotes");
      }
    }
    if (children.size() == 1 && children[0].quoted) {
      const std::string& text = children[0].text;
      AddLexicalRule(parent, text.substr(1, text.size() - 2), weight);
    } else {
      file_rules_.push_back({parent, children, weight, line_});
    }
  }

  void AddLexicalRule(Symbol parent, const std::string& text, double weight) {
    const auto [entry, is_new] = words_.emplace(text, static_cast<Word>(words_.size()));
    if (is_new) grammar_->words_.push_back(text);
    const Word word = entry->second;
    if (!lexical_seen_.emplace(parent, word).second) {
      Reject("the rule " + NameOf(parent) + " -> \"" + text + "\" is there already");
    }
    grammar_->lexical_.push_back({parent, word, weight});
  }

  const std::string& NameOf(Symbol symbol) const { return grammar_->names_[symbol]; }

  Symbol Intern(const std::string& name) {
    const auto found = symbols_.find(name);
    if (found != symbols_.end()) return found->second;
    if (symbols_.size() == kMaxSymbols) {
      Reject("more than " + std::to_string(kMaxSymbols) +
             " symbols, those of parts of long rules included");
    }
    const auto symbol = static_cast<Symbol>(symbols_.size());
    symbols_.emplace(name, symbol);
    grammar_->names_.push_back(name);
    defined_.push_back(false);
    return symbol;
  }

  // All lines are read, so every name that has a rule is known.
  Symbol Resolve(const Token& child) {
    if (child.quoted) {
      const Symbol symbol = Intern(child.text);
      if (!defined_[symbol]) {
        defined_[symbol] = true;
        AddLexicalRule(symbol, child.text.substr(1, child.text.size() - 2), 1);
      }
      return symbol;
    }
    const auto found = symbols_.find(child.text);
    if (found == symbols_.end()) Reject("no rule has " + child.text + " on its left-hand side");
    return found->second;
  }

  void AddRule(const FileRule& rule) {
    line_ = rule.line;
    std::vector<Symbol> symbols{rule.parent};
    for (const Token& child : rule.children) symbols.push_back(Resolve(child));
    if (!grammar_->rules_.insert(symbols).second) {
      std::string text = NameOf(rule.parent) + " ->";
      for (const Token& child : rule.children) text += " " + child.text;
      Reject("the rule " + text + " is there already");
    }
    const std::vector<Symbol> children(symbols.begin() + 1, symbols.end());
    if (children.size() == 1) {
      grammar_->unary_.push_back({rule.parent, children[0], rule.weight});
      unary_lines_.push_back(rule.line);
    } else {
      grammar_->binary_.push_back({rule.parent, children[0], SuffixOf(children, 1), rule.weight});
    }
  }

  // The symbol of children[first] and all that follow.
  Symbol SuffixOf(const std::vector<Symbol>& children, size_t first) {
    if (first + 1 == children.size()) return children[first];
    std::string name = "<";
    for (size_t i = first; i < children.size(); ++i) {
      name += (i == first ? "" : " ") + NameOf(children[i]);
    }
    name += ">";
    const Symbol suffix = Intern(name);
    if (!grammar_->suffixes_.Has(suffix)) {
      grammar_->suffixes_.Add(suffix);
      grammar_->binary_.push_back({suffix, children[first], SuffixOf(children, first + 1), 1});
    }
    return suffix;
  }

  // Numbers symbols by a depth-first walk from the parents to the children of unary rules.
  void Renumber() {
    const size_t count = grammar_->names_.size();
    number_.assign(count, 0);
    states_.assign(count, State::kNew);
    for (Symbol s = 0; s < count; ++s) Visit(s);
    std::vector<std::string> names(count);
    SymbolSet suffixes;
    for (Symbol s = 0; s < count; ++s) {
      names[number_[s]] = NameOf(s);
      if (grammar_->suffixes_.Has(s)) suffixes.Add(number_[s]);
    }
    grammar_->names_ = names;
    grammar_->suffixes_ = suffixes;
    grammar_->start_ = number_[grammar_->start_];
    for (BinaryRule& rule : grammar_->binary_) {
      rule.parent = number_[rule.parent];
      rule.left = number_[rule.left];
      rule.right = number_[rule.right];
    }
    for (UnaryRule& rule : grammar_->unary_) {
      rule.parent = number_[rule.parent];
      rule.child = number_[rule.child];
    }
    for (LexicalRule& rule : grammar_->lexical_) rule.parent = number_[rule.parent];
    std::set<std::vector<Symbol>> rules;
    for (std::vector<Symbol> rule : grammar_->rules_) {
      for (Symbol& symbol : rule) symbol = number_[symbol];
      rules.insert(std::move(rule));
    }
    grammar_->rules_ = std::move(rules);
  }

  void Visit(Symbol symbol) {
    if (states_[symbol] == State::kDone) return;
    states_[symbol] = State::kOpen;
    for (size_t i = 0; i < unary_lines_.size(); ++i) {
      const UnaryRule& rule = grammar_->unary_[i];
      if (rule.parent != symbol) continue;
      if (states_[rule.child] == State::kOpen) {
        line_ = unary_lines_[i];
        Reject("the rule " + NameOf(symbol) + " -> " + NameOf(rule.child) +
               " closes a cycle of rules with one symbol each");
      }
      Visit(rule.child);
    }
    states_[symbol] = State::kDone;
    number_[symbol] = next_number_++;
  }

  enum class State { kNew, kOpen, kDone };

  const std::string path_;
  Grammar* const grammar_;
  int line_ = 0;
  bool has_start_ = false;
  std::vector<FileRule> file_rules_;  // Without those of one word.
  std::map<std::string, Symbol> symbols_;
  std::map<std::string, Word> words_;
  std::set<std::pair<Symbol, Word>> lexical_seen_;
  std::vector<bool> defined_;     // Of a symbol: it has a rule.
  std::vector<int> unary_lines_;  // Of grammar_->unary_.
  std::vector<Symbol> number_;    // By the number of the order in the file.
  std::vector<State> states_;
  Symbol next_number_ = 0;
};

Grammar::Grammar(const std::string& path) {
  Reader(path, this).Run();
  Index();
}

}  // namespace cky
