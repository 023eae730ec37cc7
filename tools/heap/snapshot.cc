#include "tools/heap/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "tools/common/debug_info.h"
#include "tools/common/text.h"
#include "tools/heap/explained_path.h"
#include "tools/heap/snapshot_summary.h"

using namespace gleaner::tools;

namespace {

constexpr int kFailed = 1;
constexpr size_t kColumns = 80;
// Before the names in the tables' rows; before the root of an object on a line of its own.
constexpr int kRowColumns = 33;
constexpr int kGrownColumns = 37;
constexpr int kRootColumns = 26;

int Fail(const std::string& message) {
  fprintf(stderr, "gleaner snapshot: %s\n", ForTerminal(message).c_str());
  return kFailed;
}

// As much of the name as fits in a line that has `used` columns already.
std::string Fit(const std::string& raw, size_t used) {
  std::string name = ForTerminal(raw);
  constexpr char kCut[] = "...";
  const size_t room = kColumns - used;
  if (name.size() <= room) return name;
  size_t end = room - strlen(kCut);
  while ((static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // inside a character
  return name.substr(0, end) + kCut;
}

std::string Amount(uint64_t bytes) { return Bytes(static_cast<double>(bytes)); }

std::string Grown(int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + Bytes(static_cast<double>(std::llabs(bytes)));
}

std::string GrownCount(int64_t count) {
  return (count < 0 ? "-" : "+") + Count(static_cast<uint64_t>(std::llabs(count)));
}

// Roots are what a reader looks for: their names are not cut.
std::string NameOf(const SummaryRow& row, size_t used) {
  if (!row.root.empty()) return row.root;
  return Fit(
      Count(row.object_bytes) + " bytes  " + row.kind + (row.type.empty() ? "" : " ") + row.type,
      used);
}

double Part(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

const std::string& Described(const SnapshotSummary& summary, const char* key) {
  static const std::string kNone;
  const auto found = summary.description.find(key);
  return found == summary.description.end() ? kNone : found->second;
}

class Text {
 public:
  explicit Text(size_t top) : top_(top) {}

  void Print(const SnapshotSummary& summary) const {
    PrintTotals(summary);
    printf("\nWhat each root alone keeps:\n");
    PrintRows(summary.roots, summary.bytes);
    if (summary.shared_bytes != 0) {
      PrintRow(summary.shared_bytes, summary.shared_objects, summary.bytes,
               "(kept by several roots)");
    }
    const uint64_t unreached = summary.bytes - summary.reached_bytes;
    if (unreached != 0) {
      PrintRow(unreached, summary.objects - summary.reached_objects, summary.bytes,
               "(reached by no root)");
    }
    printf("\nThe objects that keep most:\n");
    printf("%10s %13s  %-18s\n", "keeps", "objects", "address");
    for (const SummaryObject& object : summary.largest) PrintObject(object);
    printf("\nBy size and kind:\n");
    PrintRows(summary.kinds, summary.bytes);
  }

  void PrintGrowth(const SnapshotSummary& before, const SnapshotSummary& after) const {
    PrintTotals(before);
    PrintTotals(after);
    printf("grown by %s, %s objects\n",
           Grown(static_cast<int64_t>(after.bytes - before.bytes)).c_str(),
           GrownCount(static_cast<int64_t>(after.objects - before.objects)).c_str());
    printf("\nWhat each root alone keeps:\n");
    PrintGrown(Growth(before.roots, after.roots));
    printf("\nBy size and kind:\n");
    PrintGrown(Growth(before.kinds, after.kinds));
    printf("\nThe objects that keep most in %s:\n", after.path.c_str());
    for (const SummaryObject& object : after.largest) PrintObject(object);
  }

 private:
  static void PrintTotals(const SnapshotSummary& summary) {
    const std::string& process = Described(summary, "process");
    printf("%s", summary.path.c_str());
    if (!process.empty()) {
      printf(": process %s, %s", ForTerminal(process).c_str(),
             ForTerminal(Described(summary, "command")).c_str());
    }
    printf("\n%s in %s objects, %s references\n", Amount(summary.bytes).c_str(),
           Count(summary.objects).c_str(), Count(summary.references).c_str());
  }

  static void PrintRow(uint64_t bytes, uint64_t objects, uint64_t all_bytes,
                       const std::string& name) {
    printf("%10s %6s %13s  ", Amount(bytes).c_str(), Share(Part(bytes, all_bytes)).c_str(),
           Count(objects).c_str());
    PrintWrapped(name, kRowColumns, stdout, true);
  }

  void PrintRows(const std::vector<SummaryRow>& rows, uint64_t all_bytes) const {
    printf("%10s %6s %13s\n", "bytes", "share", "objects");
    for (size_t i = 0; i < std::min(rows.size(), top_); ++i) {
      PrintRow(rows[i].bytes, rows[i].objects, all_bytes, NameOf(rows[i], kRowColumns));
    }
    if (rows.size() > top_) printf("%32s %s more\n", "", Count(rows.size() - top_).c_str());
  }

  static void PrintObject(const SummaryObject& object) {
    std::string what = Count(object.bytes) + " bytes  " + object.kind;
    if (!object.type.empty()) what += " " + object.type;
    const std::string address = Hexadecimal(object.address);
    const size_t used = 28 + std::max<size_t>(address.size(), 14);
    const std::string root = "<- " + object.root;
    const bool is_apart = used + what.size() + strlen("  ") + root.size() > kColumns;
    if (!is_apart) what += "  " + root;
    printf("%10s %13s  %-14s  %s\n", Amount(object.retained_bytes).c_str(),
           Count(object.retained_objects).c_str(), address.c_str(), Fit(what, used).c_str());
    if (is_apart) PrintWrapped(root, kRootColumns, stdout);
  }

  void PrintGrown(const std::vector<GrowthRow>& rows) const {
    printf("%10s %13s %10s\n", "bytes", "objects", "after");
    for (size_t i = 0; i < std::min(rows.size(), top_); ++i) {
      const GrowthRow& row = rows[i];
      printf("%10s %13s %10s  ", Grown(row.grown_bytes()).c_str(),
             GrownCount(row.grown_objects()).c_str(), Amount(row.after.bytes).c_str());
      PrintWrapped(NameOf(row.after, kGrownColumns), kGrownColumns, stdout, true);
    }
    if (rows.size() > top_) printf("%36s %s more\n", "", Count(rows.size() - top_).c_str());
    if (rows.empty()) printf("%36s nothing has changed\n", "");
  }

  const size_t top_;
};

Json NamesOf(const SummaryRow& row) {
  if (!row.root.empty()) return {{"root", row.root}};
  return {{"kind", row.kind}, {"type", row.type}, {"object_bytes", row.object_bytes}};
}

Json JsonOf(const std::vector<SummaryRow>& rows, size_t top) {
  Json all = Json::array();
  for (size_t i = 0; i < std::min(rows.size(), top); ++i) {
    all.push_back(NamesOf(rows[i]));
    all.back().update({{"objects", rows[i].objects}, {"bytes", rows[i].bytes}});
  }
  return all;
}

Json JsonOf(const std::vector<GrowthRow>& rows, size_t top) {
  Json all = Json::array();
  for (size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const GrowthRow& row = rows[i];
    all.push_back(NamesOf(row.after));
    all.back().update({{"objects", row.after.objects},
                       {"bytes", row.after.bytes},
                       {"grown_objects", row.grown_objects()},
                       {"grown_bytes", row.grown_bytes()}});
  }
  return all;
}

Json JsonOf(const SnapshotSummary& summary, size_t top) {
  Json largest = Json::array();
  for (const SummaryObject& object : summary.largest) {
    largest.push_back({{"address", Hexadecimal(object.address)},
                       {"bytes", object.bytes},
                       {"kind", object.kind},
                       {"type", object.type},
                       {"retained_bytes", object.retained_bytes},
                       {"retained_objects", object.retained_objects},
                       {"root", object.root}});
  }
  return {{"description", summary.description},
          {"file", summary.path},
          {"objects", summary.objects},
          {"bytes", summary.bytes},
          {"references", summary.references},
          {"reached_objects", summary.reached_objects},
          {"reached_bytes", summary.reached_bytes},
          {"shared_objects", summary.shared_objects},
          {"shared_bytes", summary.shared_bytes},
          {"roots", JsonOf(summary.roots, top)},
          {"largest", largest},
          {"kinds", JsonOf(summary.kinds, top)}};
}

Json GrowthOf(const SnapshotSummary& before, const SnapshotSummary& after, size_t top) {
  return {{"before", JsonOf(before, top)},
          {"after", JsonOf(after, top)},
          {"grown",
           {{"roots", JsonOf(Growth(before.roots, after.roots), top)},
            {"kinds", JsonOf(Growth(before.kinds, after.kinds), top)}}}};
}

bool Read(const std::string& path, size_t top, SnapshotSummary* summary) {
  std::string error;
  try {
    if (!Summarize(path, top, summary, &error)) {
      Fail(error);
      return false;
    }
  } catch (const std::bad_alloc&) {
    Fail(path + ": there is not enough memory to read it");
    return false;
  }
  for (const std::string& warning : summary->warnings) Fail(warning);
  return true;
}

}  // namespace

int ShowSnapshot(const SnapshotOptions& options) {
  SnapshotSummary first;
  SnapshotSummary second;
  const bool are_two = !options.other.empty();
  if (!Read(options.snapshot, options.top, &first)) return kFailed;
  if (are_two && !Read(options.other, options.top, &second)) return kFailed;
  if (options.json) {
    Print(are_two ? GrowthOf(first, second, options.top) : JsonOf(first, options.top));
  } else {
    const Text text(options.top);
    are_two ? text.PrintGrowth(first, second) : text.Print(first);
  }
  return 0;
}
