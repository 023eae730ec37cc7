#include "tools/heap/why.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/common/debug_info.h"
#include "tools/common/text.h"
#include "tools/heap/dominators.h"
#include "tools/heap/explained_path.h"
#include "tools/heap/heap_graph.h"
#include "tools/heap/path_shapes.h"
#include "tools/heap/process_image.h"
#include "tools/heap/root_paths.h"
#include "tools/heap/snapshot_file.h"
#include "tools/heap/snapshot_names.h"

using namespace gleaner::tools;

namespace {

constexpr int kFailed = 1;

int Fail(const std::string& message) {
  fprintf(stderr, "gleaner why: %s\n", ForTerminal(message).c_str());
  return kFailed;
}

// 0x, which may be left out, and 1 to 16 hexadecimal digits.
bool ReadAddress(const std::string& text, uint64_t* address) {
  const size_t begin = text.starts_with("0x") || text.starts_with("0X") ? 2 : 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + begin, end, *address, 16);
  return error == std::errc() && rest == end;
}

std::string Objects(uint64_t count) { return count == 1 ? "1 object" : Count(count) + " objects"; }

// One object, or all of a kind or class, of one snapshot.
class Question {
 public:
  Question(const WhyOptions& options, SnapshotFile* file)
      : options_(options),
        file_(*file),
        image_(file->modules()),
        names_(*file, graph_, &image_),
        explainer_(file, graph_, &names_),
        paths_(graph_) {
    for (const std::string& warning : image_.warnings()) Fail(warning);
  }

  int Answer() {
    std::string retained;
    uint64_t address = 0;
    if (options_.largest && !FindLargest(&address, &retained)) return Fail(file_.error());
    if (!file_.Fill(&graph_)) return Fail(file_.error());
    if (graph_.size() == 0) return Fail(options_.snapshot + ": there are no objects");
    if (!options_.type.empty()) return AnswerType();
    if (!options_.largest) {
      if (!ReadAddress(options_.address, &address)) {
        return Fail("\"" + options_.address + "\" is no address: 0x and hexadecimal digits");
      }
    } else if (largest_objects_ == 0) {
      return Fail(options_.snapshot + ": no root reaches any of its objects");
    }
    const ObjectId object = graph_.Find(address);
    return object == kNoObject ? FailWithNearest(address) : AnswerObject(object, address, retained);
  }

 private:
  // The object that retains the most. A graph of its own, which the dominators use up.
  bool FindLargest(uint64_t* address, std::string* retained) {
    HeapGraph graph(false);
    if (!file_.Fill(&graph)) return false;
    // A group for each round.
    std::vector<uint32_t> group_of;
    for (const RootReference& reference : graph.root_references()) {
      group_of.push_back(static_cast<uint32_t>(SearchRound(graph, reference)));
    }
    const Dominators dominators(&graph, group_of, {0, 1, 2});
    ObjectId largest = kNoObject;
    for (ObjectId object = 0; object < graph.size(); ++object) {
      if (dominators.IsReached(object) &&
          (largest == kNoObject ||
           dominators.RetainedBytes(object) > dominators.RetainedBytes(largest))) {
        largest = object;
      }
    }
    if (largest == kNoObject) return true;
    *address = graph.AddressOf(largest);
    largest_bytes_ = dominators.RetainedBytes(largest);
    largest_objects_ = dominators.RetainedObjects(largest);
    *retained = "Without it " + Bytes(static_cast<double>(largest_bytes_)) + " in " +
                Objects(largest_objects_) + " would be free, more than without any other object.";
    return true;
  }

  int FailWithNearest(uint64_t address) {
    std::string message = Hexadecimal(address) + " is in no object of the snapshot";
    const ObjectId below = graph_.FindBelow(address);
    const ObjectId above = below == kNoObject ? 0 : below + 1;
    if (below != kNoObject) {
      message += "; the next one below is " + Describe(below) + ", which ends " +
                 Count(address - graph_.AddressOf(below) - graph_.BytesOf(below)) +
                 " bytes below it";
    }
    if (above < graph_.size()) {
      message += "; the next one above is " + Describe(above) + ", " +
                 Count(graph_.AddressOf(above) - address) + " bytes behind it";
    }
    return Fail(message + ".");
  }

  std::string Describe(ObjectId object) {
    return Hexadecimal(graph_.AddressOf(object)) + " (" + Count(graph_.BytesOf(object)) +
           " bytes, " +
           ForTerminal(names_.KindAndType(graph_.KindOf(object), graph_.TypeOf(object))) + ")";
  }

  int AnswerObject(ObjectId object, uint64_t address, const std::string& retained) {
    std::vector<ExplainedPath> paths;
    for (uint32_t i = 0; i < options_.paths; ++i) {
      paths_.Search(object);
      const RootPath path = paths_.PathTo(object);
      if (path.steps.empty()) break;
      paths.push_back(explainer_.Explain(path));
      if (i + 1 < options_.paths) paths_.Exclude(path);
    }
    // Whether words that may be no pointers are all that keeps it.
    std::vector<ExplainedPath> sure;
    if (!paths.empty() && paths[0].certainty == Certainty::kDoubtful) {
      RootPaths search(graph_);
      search.Search(object, true);
      const RootPath path = search.PathTo(object);
      if (!path.steps.empty()) sure.push_back(explainer_.Explain(path));
    }
    if (options_.json) {
      PrintJson(object, paths, sure);
    } else {
      PrintText(object, address, retained, paths, sure);
    }
    return 0;
  }

  void PrintText(ObjectId object, uint64_t address, const std::string& retained,
                 const std::vector<ExplainedPath>& paths, const std::vector<ExplainedPath>& sure) {
    if (address != graph_.AddressOf(object)) {
      printf("%s is %s bytes behind the beginning of\n", Hexadecimal(address).c_str(),
             Count(address - graph_.AddressOf(object)).c_str());
    }
    printf("%s\n", Describe(object).c_str());
    if (!retained.empty()) PrintWrapped(retained, 0, stdout);
    if (paths.empty()) {
      PrintWrapped(
          "No root reaches it: nothing in the snapshot refers to it but objects that no "
          "root reaches either.",
          0, stdout);
    }
    for (size_t i = 0; i < paths.size(); ++i) {
      printf("\n%s\n", i == 0 ? "It is kept by" : "By other words, it is kept by");
      explainer_.Print(paths[i], stdout);
      printf("\n");
      PrintWrapped(explainer_.CertaintyInWords(paths[i]), 0, stdout);
    }
    if (paths.empty() || paths[0].certainty != Certainty::kDoubtful) return;
    if (sure.empty()) {
      PrintWrapped(
          "Nothing else keeps the object: without words that may be no pointers it would "
          "be free.",
          0, stdout);
    } else {
      printf("\nThe object would be kept without such words, too, by\n");
      explainer_.Print(sure[0], stdout);
    }
  }

  Json PathsOf(const std::vector<ExplainedPath>& paths) {
    Json all = Json::array();
    for (const ExplainedPath& path : paths) all.push_back(explainer_.JsonOf(path));
    return all;
  }

  void PrintJson(ObjectId object, const std::vector<ExplainedPath>& paths,
                 const std::vector<ExplainedPath>& sure) {
    Json all = names_.JsonOf(object);
    if (options_.largest) {
      all["retained_bytes"] = largest_bytes_;
      all["retained_objects"] = largest_objects_;
    }
    all["paths"] = PathsOf(paths);
    all["sure_path"] = sure.empty() ? Json() : explainer_.JsonOf(sure[0]);
    Print(all);
  }

  bool IsAskedFor(uint32_t kind, uint32_t type) {
    const auto [found, is_new] = is_asked_for_.try_emplace({kind, type}, false);
    if (is_new) found->second = HasName(kind, type);
    return found->second;
  }

  bool HasName(uint32_t kind, uint32_t type) {
    return names_.Kind(kind).find(options_.type) != std::string::npos ||
           names_.Type(type).find(options_.type) != std::string::npos;
  }

  int AnswerType() {
    paths_.Search();
    PathShapes shapes(graph_, paths_,
                      [this](const auto& reference) { return names_.Group(reference); });
    graph_.ForEachObject([&](ObjectId object, uint64_t bytes, uint32_t kind) {
      if (IsAskedFor(kind, graph_.TypeOf(object))) shapes.Add(object, bytes);
    });
    const std::vector<PathShapes::Group> groups = shapes.Largest(options_.top);
    if (groups.empty()) {
      return Fail(options_.snapshot + ": there are no objects of a kind or class with \"" +
                  options_.type + "\" in its name");
    }
    Json all = {
        {"objects", shapes.objects()}, {"bytes", shapes.bytes()}, {"groups", Json::array()}};
    if (!options_.json) {
      printf("%s, %s, kept in %s\n", Objects(shapes.objects()).c_str(),
             Bytes(static_cast<double>(shapes.bytes())).c_str(),
             shapes.count() == 1 ? "1 way" : (Count(shapes.count()) + " ways").c_str());
    }
    for (const PathShapes::Group& group : groups) {
      const RootPath path = paths_.PathTo(group.example);
      const bool is_kept = !path.steps.empty();
      if (options_.json) {
        all["groups"].push_back(
            {{"objects", group.objects},
             {"bytes", group.bytes},
             {"example", is_kept ? explainer_.JsonOf(explainer_.Explain(path)) : Json()}});
        continue;
      }
      printf("\n%s, %s; one of them is %s\n", Objects(group.objects).c_str(),
             Bytes(static_cast<double>(group.bytes)).c_str(),
             Hexadecimal(graph_.AddressOf(group.example)).c_str());
      if (is_kept) {
        explainer_.Print(explainer_.Explain(path), stdout);
      } else {
        printf("  no root reaches them\n");
      }
    }
    if (options_.json) Print(all);
    return 0;
  }

  const WhyOptions& options_;
  SnapshotFile& file_;
  HeapGraph graph_;
  ProcessImage image_;
  SnapshotNames names_;
  PathExplainer explainer_;
  RootPaths paths_;
  std::map<std::pair<uint32_t, uint32_t>, bool> is_asked_for_;  // by kind and type
  uint64_t largest_bytes_ = 0;
  uint32_t largest_objects_ = 0;
};

}  // namespace

int Why(const WhyOptions& options) {
  SnapshotFile file;
  try {
    if (!file.Open(options.snapshot)) return Fail(file.error());
    return Question(options, &file).Answer();
  } catch (const std::bad_alloc&) {
    return Fail(options.snapshot + ": there is not enough memory to read it");
  }
}
