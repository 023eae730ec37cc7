#include "gc/inspect/verify.h"

#include "alloc/metadata/hash_table.h"
#include "alloc/walk.h"

namespace gleaner::gc {
namespace {

using alloc::FindSlot;
using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Space;

// Words of black objects that point into the reservation, by the word's address, as they were at
// the end of the last collection. Guarded by the collector lock.
constinit alloc::HashTable<Addr> g_old_words;
constinit bool g_all_noted = false;  // there was memory for all of these words

// A plain depth-first marker: one object at a time, no rings, no filter, no packing.
class SerialMarker {
 public:
  SerialMarker(const Marker& marker, const MarkConfig& config, const VerifyOptions& options)
      : marker_(marker),
        config_(config),
        more_may_be_marked_(options.more_may_be_marked || marker.marked_explicitly()),
        minor_(options.minor),
        sink_(this) {}

  bool Init() {
    const size_t pages = g_space.page_count();
    return seen_.Reserve(2 * pages * alloc::kMarkBytesPerPage) &&
           stack_.Reserve(pages * alloc::kMarkBytesPerPage);
  }
  ~SerialMarker() {
    seen_.Release();
    stack_.Release();
  }

  void FromRoots(const RootTasks& roots) {
    for (size_t i = 0; i < roots.size(); ++i) {
      const platform::Range range = roots.at(i).range;
      const RootKind kind = roots.at(i).kind;
      if (kind == RootKind::kUncollectablePages) {
        for (Addr page = range.begin; page < range.end; ++page) {
          Uncollectable(static_cast<PageNumber>(page));
        }
      } else {
        Words(range.begin, range.end, true, kind == RootKind::kStack);
      }
      Drain();
    }
  }

  // Whether memory was short, so that not all objects were visited.
  bool no_memory() const { return no_memory_; }
  void CompareAll() const {
    alloc::ForEachSlot([this](const ObjectRef& object) { Compare(object); });
  }

 private:
  void Uncollectable(PageNumber page) {
    const PageInfo& info = g_space.info[page];
    const bool visited = IsUncollectable(info.kind);
    if (!visited && !RowOf(info.kind).marks_contents_of_unreachable) return;
    alloc::ForEachSlotOf(page, [this, visited](const ObjectRef& object) {
      if (visited) {
        Visit(object.base, true);
      } else if (*object.mark() != alloc::kFreeSlot) {
        Scan(object);
      }
    });
  }

  // Whether a word that has not changed since the last collection leads to a younger object. At
  // that time no object was there, or the object was freed since.
  bool IsStale(Addr at, Addr word) const {
    if (!minor_) return false;
    const Addr* before = g_old_words.Find(at);
    ObjectRef object;
    return before != nullptr && *before == word && FindSlot(word, &object) &&
           !marker_.IsMarked(object);
  }

  struct Sink : MarkSink {
    explicit Sink(SerialMarker* m) : MarkSink{Push, PushRange}, marker(m) {}
    static void Push(MarkSink* sink, Addr word) {
      static_cast<Sink*>(sink)->marker->Visit(word, false);
    }
    static void PushRange(MarkSink* sink, Addr begin, Addr end, bool interior) {
      static_cast<Sink*>(sink)->marker->Words(AlignUp(begin, kWordBytes),
                                              AlignDown(end, kWordBytes), false, interior);
    }
    SerialMarker* marker;
  };

  void Scan(const ObjectRef& object) {
    switch (g_space.info[object.page].contents) {
      case alloc::Contents::kWords:
        return Words(object.base, object.base + object.bytes, false, false);
      case alloc::Contents::kPointerFree:
        return;
      case alloc::Contents::kDescribed:
        return PushDescribed(object, &sink_);
    }
  }

  void Words(Addr begin, Addr end, bool root, bool interior) {
    for (Addr at = begin; at < end; at += kWordBytes) {
      const Addr word = LoadForeignWord(at);
      if (root || !IsStale(at, word)) Visit(word, interior);
      const bool past_end = root && config_.all_interior_pointers && config_.past_the_end &&
                            word % alloc::kGranuleBytes == 0;
      // Not for words of objects after a minor collection: a pointer to an object may be one past
      // the end of a slot that was freed since and holds a young object now.
      if (past_end || (config_.pad_objects && (root || !minor_))) {
        Visit(word - 1, past_end);
      }
    }
  }

  void Visit(Addr word, bool interior) {
    ObjectRef object;
    if (!FindSlot(word, &object)) return;
    if (word - object.base >= object.bytes) return;
    const PageInfo& info = g_space.info[object.page];
    if (info.state == PageState::kLarge && g_space.PageOf(word) != object.page &&
        info.ignore_off_page) {
      return;
    }
    if (!interior && !config_.all_interior_pointers) {
      const size_t displacement = word - object.base;
      if (displacement >= alloc::kPageBytes || !g_valid_displacement[displacement]) return;
    }
    if (!marker_.IsWhite(object) && !marker_.IsMarked(object)) return;
    const size_t place = PlaceOf(object);
    if (!seen_.EnsureCommitted(place + 1)) return GiveUp();
    if (seen_[place] != 0) return;
    seen_[place] = 1;
    if (info.contents == alloc::Contents::kPointerFree) return;
    if (!stack_.EnsureCommitted(depth_ + 1)) return GiveUp();
    stack_[depth_++] = object.base;
  }

  void GiveUp() { no_memory_ = true; }

  void Drain() {
    while (depth_ != 0 && !no_memory_) {
      ObjectRef object;
      if (!FindSlot(stack_[--depth_], &object)) Fatal("mark verification: object vanished");
      Scan(object);
    }
  }

  // The object's place in `seen_`. Pages of both spaces are interleaved, each counted from its own
  // end of the reservation: counting the high space from the low end would commit everything below.
  static size_t PlaceOf(const ObjectRef& object) {
    const bool scanned = alloc::SpaceOfPage(object.page) == Space::kScanned;
    const size_t rank = scanned ? object.page : g_space.page_count() - 1 - object.page;
    return (rank * 2 + (scanned ? 0 : 1)) * alloc::kMarkBytesPerPage + object.slot;
  }

  void Compare(const ObjectRef& object) const {
    const size_t place = PlaceOf(object);
    const bool reachable = place < seen_.committed() && seen_[place] != 0;
    const bool black = marker_.IsMarked(object);
    GLEANER_CHECK(reachable == black || (black && more_may_be_marked_),
                  "[inv.mark-complete] object %p (page state %d, kind %d) is %s",
                  PointerAt<void>(object.base), static_cast<int>(g_space.info[object.page].state),
                  static_cast<int>(object.kind()),
                  black ? "marked but not reachable" : "reachable but not marked");
  }

  const Marker& marker_;
  const MarkConfig& config_;
  const bool more_may_be_marked_;
  const bool minor_;
  bool no_memory_ = false;
  Sink sink_;
  alloc::ReservedArray<uint8_t> seen_;
  alloc::ReservedArray<Addr> stack_;
  size_t depth_ = 0;
};

}  // namespace

void RecordOldWords(const Marker& marker) {
  g_old_words.Clear();
  g_all_noted = true;
  alloc::ForEachSlot([&](const ObjectRef& object) {
    if (!marker.IsMarked(object) ||
        g_space.info[object.page].contents == alloc::Contents::kPointerFree) {
      return;
    }
    for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
      const Addr word = LoadForeignWord(at);
      // Includes words that point beyond the committed pages: an object may be there next time.
      if (g_space.Reserves(word) && g_old_words.Insert(at, word) == nullptr) g_all_noted = false;
    }
  });
}

void VerifyMarks(const Marker& marker, const MarkConfig& config, const RootTasks& roots,
                 const VerifyOptions& options) {
  if (options.minor && !g_all_noted) {
    Complain("mark verification skipped: no memory for the words of old objects");
    return;
  }
  SerialMarker serial(marker, config, options);
  if (!serial.Init()) {
    Complain("mark verification skipped: no address space for a second table");
    return;
  }
  serial.FromRoots(roots);
  if (serial.no_memory()) {
    Complain("mark verification skipped: no memory for a second table");
    return;
  }
  serial.CompareAll();
}

}  // namespace gleaner::gc
