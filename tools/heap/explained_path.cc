#include "tools/heap/explained_path.h"

#include <algorithm>

#include "tools/common/debug_info.h"
#include "tools/common/text.h"

namespace gleaner::tools {

namespace {

// Whether the word may be a number, or be left from an ended call.
bool IsDoubtful(const ExplainedPath& path, size_t i) {
  const ExplainedStep& step = path.steps[i];
  return !step.is_known && (step.step.is_interior || (i == 0 && path.is_stack));
}

std::string WordOf(const PathStep& step) {
  std::string text = step.offset == kNoOffset ? "as its mark procedure says"
                                              : "word at +" + std::to_string(step.offset);
  if (step.is_interior) text += ", into the middle of";
  return text;
}

const char* NameOf(Certainty certainty) {
  static const char* const kNames[] = {"known", "probable", "doubtful"};
  return kNames[static_cast<int>(certainty)];
}

// Of the path's objects those that more than one word of other objects and roots refers to.
std::vector<bool> FindShared(const HeapGraph& graph, const RootPath& path) {
  std::vector<bool> is_on_path(graph.size());
  for (const PathStep& step : path.steps) is_on_path[step.object] = true;
  std::vector<bool> is_referred(graph.size());
  std::vector<bool> is_shared(graph.size());
  const auto refer = [&](ObjectId target) {
    if (!is_on_path[target]) return;
    if (is_referred[target]) is_shared[target] = true;
    is_referred[target] = true;
  };
  for (const RootReference& reference : graph.root_references()) refer(reference.target);
  for (ObjectId source = 0; source < graph.size(); ++source) {
    graph.ForEachReference(source, [&](ObjectId target, bool) {
      if (target != source) refer(target);
    });
  }
  return is_shared;
}

}  // namespace

bool PathExplainer::IsKnown(const PathStep& before, const PathStep& step) {
  for (const SnapshotWord& word : file_.WordsOf(graph_.AddressOf(before.object))) {
    if (word.offset == step.offset && graph_.Find(word.base) == step.object) return word.is_known;
  }
  return false;
}

ExplainedPath PathExplainer::Explain(const RootPath& path) {
  const std::vector<bool> is_shared = FindShared(graph_, path);
  const RootReference& root = graph_.root_references()[path.root_reference];
  const SnapshotRoot kind = graph_.roots()[root.root].kind;
  ExplainedPath explained = {names_.Group(root),
                             names_.Word(root),
                             kind == SnapshotRoot::kStack || kind == SnapshotRoot::kRegisters,
                             root.is_past_end,
                             {},
                             Certainty::kKnown};
  const bool is_without_word =
      kind == SnapshotRoot::kUncollectable || (kind == SnapshotRoot::kFinalizer && root.word == 0);
  // On a long path the answers are the same again and again, and each costs reading a block.
  constexpr size_t kMaxAsked = 1000;
  explained.steps.reserve(path.steps.size());
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const PathStep& step = path.steps[i];
    const bool is_known =
        i == 0 ? is_without_word : i < kMaxAsked && IsKnown(path.steps[i - 1], step);
    explained.steps.push_back({step, is_known, !is_shared[step.object]});
    if (!is_known) explained.certainty = std::max(explained.certainty, Certainty::kProbable);
    if (IsDoubtful(explained, i)) explained.certainty = Certainty::kDoubtful;
  }
  return explained;
}

bool PathExplainer::AreAlike(const ExplainedStep& a, const ExplainedStep& b) const {
  const ObjectId x = a.step.object;
  const ObjectId y = b.step.object;
  return a.step.offset == b.step.offset && a.step.is_interior == b.step.is_interior &&
         a.is_only == b.is_only && graph_.BytesOf(x) == graph_.BytesOf(y) &&
         graph_.KindOf(x) == graph_.KindOf(y) && graph_.TypeOf(x) == graph_.TypeOf(y);
}

void PathExplainer::PrintStep(const PathStep& step, FILE* out) {
  fprintf(out, "    -> %s  %s bytes  %s\n", Hexadecimal(graph_.AddressOf(step.object)).c_str(),
          Count(graph_.BytesOf(step.object)).c_str(),
          ForTerminal(names_.KindAndType(graph_.KindOf(step.object), graph_.TypeOf(step.object)))
              .c_str());
}

size_t PathExplainer::EndOfRepetition(const ExplainedPath& path, size_t begin,
                                      size_t period) const {
  size_t end = begin + period;
  // The word that leads to the first object of all has no offset.
  if (begin == 0) return end;
  while (end < path.steps.size() && AreAlike(path.steps[end - period], path.steps[end])) ++end;
  return end - (end - begin) % period;
}

std::vector<PathExplainer::Part> PathExplainer::PartsOf(const ExplainedPath& path) const {
  constexpr size_t kMaxPeriod = 4;
  std::vector<Part> parts;
  for (size_t begin = 0; begin < path.steps.size();) {
    Part part = {begin, begin + 1, 0};
    for (size_t period = 1; period <= kMaxPeriod && part.period == 0; ++period) {
      const size_t end = EndOfRepetition(path, begin, period);
      // The first time and the last one are shown.
      if (end - begin > 3 * period) part = {begin, end, period};
    }
    parts.push_back(part);
    begin = part.end;
  }
  return parts;
}

void PathExplainer::PrintPart(const ExplainedPath& path, const Part& part, FILE* out) {
  const auto print = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (i > 0) fprintf(out, "       %s\n", WordOf(path.steps[i].step).c_str());
      PrintStep(path.steps[i].step, out);
    }
  };
  if (part.period == 0) return print(part.begin, part.end);
  const size_t hidden = part.end - part.begin - 2 * part.period;
  print(part.begin, part.begin + part.period);
  if (part.period == 1) {
    fprintf(out, "       ... %s more like it, one from the other ...\n", Count(hidden).c_str());
  } else {
    fprintf(out, "       ... the last %zu in the same way %s more times ...\n", part.period,
            Count(hidden / part.period).c_str());
  }
  print(part.end - part.period, part.end);
}

void PathExplainer::Print(const ExplainedPath& path, FILE* out) {
  PrintWrapped(path.root, 2, out);
  if (path.steps[0].step.is_interior) {
    fprintf(out, "       %s\n", path.is_past_end ? "one past the end of" : "into the middle of");
  }
  // At both ends.
  constexpr size_t kMaxParts = 20;
  const std::vector<Part> parts = PartsOf(path);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == kMaxParts && parts.size() > 2 * kMaxParts + 1) {
      i = parts.size() - kMaxParts;
      fprintf(out, "       ... %s more objects ...\n",
              Count(parts[i].begin - parts[kMaxParts].begin).c_str());
    }
    PrintPart(path, parts[i], out);
  }
}

std::string PathExplainer::CertaintyInWords(const ExplainedPath& path) const {
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
    text += " The word that leads to " + Hexadecimal(graph_.AddressOf(step.step.object)) + " ";
    text += i == 0 && path.is_past_end
                ? "is one past the end of the object: as a rule such a word is meant for the "
                  "object that begins there."
            : step.step.is_interior
                ? "points into the middle of the object: it may be a number that looks like an "
                  "address."
                : "lies on a stack or in a register: it may be left from a call that has ended, or "
                  "be a number.";
    if (step.is_only) text += " No other word refers to that object.";
  }
  return text;
}

Json PathExplainer::JsonOf(const ExplainedPath& path) {
  Json objects = Json::array();
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const ExplainedStep& explained = path.steps[i];
    const PathStep& step = explained.step;
    const bool has_offset = i > 0 && step.offset != kNoOffset;
    Json object = names_.JsonOf(step.object);
    object.update({{"referred_at", has_offset ? Json(step.offset) : Json()},
                   {"interior", step.is_interior},
                   {"known", explained.is_known},
                   {"only_reference", explained.is_only}});
    objects.push_back(object);
  }
  return {{"root", path.root},
          {"root_group", path.group},
          {"certainty", NameOf(path.certainty)},
          {"explanation", CertaintyInWords(path)},
          {"objects", objects}};
}

void PrintWrapped(const std::string& raw, int indent, FILE* out, bool is_begun) {
  const std::string text = ForTerminal(raw);
  const size_t room = 80 - static_cast<size_t>(indent);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    if (end - begin > room) {
      end = text.rfind(' ', begin + room);
      // A word that is too long stands alone.
      if (end == std::string::npos || end <= begin) end = text.find(' ', begin + room);
      end = std::min(end, text.size());
    }
    fprintf(out, "%*s%s\n", begin == 0 && is_begun ? 0 : indent, "",
            text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
}

}  // namespace gleaner::tools
