#include "tools/explained_path.h"

#include <algorithm>

#include "tools/debug_info.h"
#include "tools/text.h"

namespace gleaner::tools {

namespace {

// Whether the word may be a number, or be left from an ended call.
bool IsDoubtful(const ExplainedPath& path, size_t i) {
  const ExplainedStep& step = path.steps[i];
  return !step.is_known && (step.is_interior || (i == 0 && path.is_stack));
}

bool AreAlike(const ExplainedStep& a, const ExplainedStep& b) {
  return a.bytes == b.bytes && a.kind == b.kind && a.type == b.type && a.offset == b.offset &&
         a.is_interior == b.is_interior && a.is_only == b.is_only;
}

std::string WordOf(const ExplainedStep& step) {
  if (step.offset == kNoOffset) return "by its mark procedure";
  return "word at +" + std::to_string(step.offset);
}

void PrintStep(const ExplainedStep& step, FILE* out) {
  fprintf(out, "    -> %s  %s bytes  %s%s%s\n", Hexadecimal(step.address).c_str(),
          Count(step.bytes).c_str(), step.kind.c_str(), step.type.empty() ? "" : " ",
          step.type.c_str());
}

const char* NameOf(Certainty certainty) {
  static const char* const kNames[] = {"known", "probable", "doubtful"};
  return kNames[static_cast<int>(certainty)];
}

const char* Boolean(bool value) { return value ? "true" : "false"; }

}  // namespace

void PathExplainer::CountReferences(const RootPath& path) {
  counts_.clear();
  std::vector<bool> is_counted(graph_.size());
  for (const PathStep& step : path.steps) is_counted[step.object] = true;
  for (const RootReference& reference : graph_.root_references()) {
    if (is_counted[reference.target]) ++counts_[reference.target];
  }
  for (ObjectId source = 0; source < graph_.size(); ++source) {
    graph_.ForEachReference(source, [&](ObjectId target, bool) {
      if (is_counted[target] && target != source) ++counts_[target];
    });
  }
}

bool PathExplainer::IsKnown(const PathStep& before, const PathStep& step) {
  for (const SnapshotWord& word : file_.WordsOf(graph_.AddressOf(before.object))) {
    if (word.offset == step.offset && graph_.Find(word.base) == step.object) return word.is_known;
  }
  return false;
}

ExplainedPath PathExplainer::Explain(const RootPath& path) {
  CountReferences(path);
  const RootReference& root = graph_.root_references()[path.root_reference];
  const SnapshotRoot kind = graph_.roots()[root.root].kind;
  ExplainedPath explained = {names_.Group(root),
                             names_.Word(root),
                             kind == SnapshotRoot::kStack || kind == SnapshotRoot::kRegisters,
                             {},
                             Certainty::kProbable};
  const bool is_without_word =
      kind == SnapshotRoot::kUncollectable || (kind == SnapshotRoot::kFinalizer && root.word == 0);
  // On a long path the answers are the same again and again, and each costs reading a block.
  constexpr size_t kMaxAsked = 1000;
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const PathStep& step = path.steps[i];
    const bool is_known =
        i == 0 ? is_without_word : i < kMaxAsked && IsKnown(path.steps[i - 1], step);
    const uint32_t type = graph_.TypeOf(step.object);
    explained.steps.push_back({step.object, graph_.AddressOf(step.object),
                               graph_.BytesOf(step.object), names_.Kind(graph_.KindOf(step.object)),
                               names_.Type(type), step.offset, step.is_interior, is_known,
                               counts_[step.object] <= 1});
  }
  bool all_known = true;
  for (size_t i = 0; i < explained.steps.size(); ++i) {
    all_known = all_known && explained.steps[i].is_known;
    if (IsDoubtful(explained, i)) explained.certainty = Certainty::kDoubtful;
  }
  if (all_known) explained.certainty = Certainty::kKnown;
  return explained;
}

void PrintWrapped(const std::string& text, int indent, FILE* out) {
  const size_t room = 80 - static_cast<size_t>(indent);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    if (end - begin > room) {
      end = text.rfind(' ', begin + room);
      // A word that is too long stands alone.
      if (end == std::string::npos || end <= begin) end = text.find(' ', begin + room);
      end = std::min(end, text.size());
    }
    fprintf(out, "%*s%s\n", indent, "", text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
}

void PrintPath(const ExplainedPath& path, FILE* out) {
  PrintWrapped(path.root, 2, out);
  for (size_t i = 0; i < path.steps.size(); ++i) {
    if (i > 0)
      fprintf(out, "       %s%s\n", WordOf(path.steps[i]).c_str(),
              path.steps[i].is_interior ? ", into the middle of" : "");
    else if (path.steps[i].is_interior)
      fprintf(out, "       into the middle of\n");
    PrintStep(path.steps[i], out);
    size_t end = i + 1;
    while (i > 0 && end < path.steps.size() && AreAlike(path.steps[i], path.steps[end])) ++end;
    constexpr size_t kShown = 3;
    if (end - i > kShown) {
      fprintf(out, "       ... %s more like it, one from the other ...\n",
              Count(end - i - 2).c_str());
      i = end - 2;
    }
  }
}

std::string CertaintyInWords(const ExplainedPath& path) {
  if (path.certainty == Certainty::kKnown) {
    return "Certain: the program says that each of these words is a pointer.";
  }
  if (path.certainty == Certainty::kProbable) {
    return "Probable: each word holds the address of an object's beginning; their memory has no "
           "types that would say for certain that they are pointers.";
  }
  std::string text = "Doubtful.";
  constexpr int kMaxTold = 3;
  int told = 0;
  for (size_t i = 0; i < path.steps.size() && told < kMaxTold; ++i) {
    if (!IsDoubtful(path, i)) continue;
    const ExplainedStep& step = path.steps[i];
    ++told;
    text += " The word that leads to " + Hexadecimal(step.address) + " ";
    text +=
        step.is_interior
            ? "points into the middle of the object: it may be a number that looks like an address."
            : "lies on a stack or in a register: it may be left from a call that has ended, or "
              "be a number.";
    if (step.is_only) text += " No other word refers to that object.";
  }
  return text;
}

std::string PathAsJson(const ExplainedPath& path) {
  std::string text = "{\"root\":" + Quoted(path.root) + ",\"root_group\":" + Quoted(path.group) +
                     ",\"certainty\":" + Quoted(NameOf(path.certainty)) +
                     ",\"explanation\":" + Quoted(CertaintyInWords(path)) + ",\"objects\":[";
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const ExplainedStep& step = path.steps[i];
    text += i == 0 ? "" : ",";
    text += "{\"address\":" + Quoted(Hexadecimal(step.address)) +
            ",\"bytes\":" + std::to_string(step.bytes) + ",\"kind\":" + Quoted(step.kind) +
            ",\"type\":" + Quoted(step.type) + ",\"referred_at\":" +
            (i == 0 || step.offset == kNoOffset ? "null" : std::to_string(step.offset)) +
            ",\"interior\":" + Boolean(step.is_interior) + ",\"known\":" + Boolean(step.is_known) +
            ",\"only_reference\":" + Boolean(step.is_only) + "}";
  }
  return text + "]}";
}

}  // namespace gleaner::tools
