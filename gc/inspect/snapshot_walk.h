// Writes all live objects, their references and the roots into a snapshot, in the order of the
// heap's pages and of the collector's list of roots.
//
// The world is stopped, marking is over and it is decided which objects are black. So nobody else
// reads or writes objects, mark bytes, page descriptors and roots; the walk writes none of them.
// The live objects are the black ones. Every word of a live object that counts as a pointer
// (gc/mark/pointer.h) leads to a black slot or to a free one; those to black ones are the
// references.
//
// A page's candidate words are collected, then resolved to slots, then looked up among the mark
// bytes, then written. Each step prefetches what the next one reads: done one by one, the words
// would wait for memory twice each.
#pragma once

#include "alloc/object.h"
#include "gc/inspect/snapshot_writer.h"
#include "gc/mark/marker.h"

namespace gleaner::gc {

// What the layer above knows of the memory of a root.
struct RootSource {
  SnapshotRoot kind = SnapshotRoot::kOther;
  uint32_t thread = 0;  // its number in the file, from 1; 0: of none
  const char* name = "";
  Addr end = ~Addr{0};     // up to which this holds
  bool is_copied = false;  // the words are copies: their addresses say nothing
  bool operator==(const RootSource&) const = default;
};

// Memory in which a first word that points there tells an object's type: data of loaded objects.
struct TypeRanges {
  const platform::Range* ranges = nullptr;  // ascending, disjoint
  size_t count = 0;
};

// What a snapshot holds.
struct SnapshotCounts {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t references = 0;
  uint64_t roots = 0;
  uint64_t root_references = 0;
};

// Call order: Init before the stop; in the stop Begin, then WriteObjects and what writes roots;
// Release.
class SnapshotWalk {
 public:
  // False without memory.
  [[nodiscard]] bool Init(SnapshotWriter* writer);
  void Release();

  void Begin(const Marker& marker, const MarkConfig& config, TypeRanges types);
  void WriteObjects();
  // A root, in a block of roots: BeginRoot, any number of AddWords and AddTarget, EndRoot. AddWords
  // adds the words of [begin, end), read as `kind` says; AddCopiedWords words that were read at
  // `at`; AddTarget an object that no word refers to.
  void BeginRoot(const RootSource& source, Addr begin, Addr end);
  void AddWords(RootKind kind, Addr begin, Addr end);
  void AddCopiedWords(RootKind kind, Addr at, const Addr* words, size_t count);
  void AddTarget(Addr object);
  void EndRoot();
  const SnapshotCounts& counts() const { return counts_; }

 private:
  // A word that points into the heap.
  struct Candidate {
    Addr at;  // of the word; 0: not known
    Addr value;
    Addr lookup;  // what is looked up: the value, or less 1
    bool is_known;
    bool interior;  // counts wherever it points into an object
    // Once it is resolved:
    const uint8_t* mark;  // of the slot that it leads to; null if there is none
    Addr base;            // of the slot
  };
  // A live object of the page being written.
  struct Live {
    Addr base;
    uint32_t end;     // of its references among the candidates
    uint32_t number;  // of its shape; SnapshotWriter::kNoShape: it has none, but a type
    SnapshotWriter::Shape shape;
  };
  struct Sink : MarkSink {
    explicit Sink(SnapshotWalk* w);
    SnapshotWalk* walk;
  };

  static constexpr size_t kChunkWords = alloc::kPageBytes / kWordBytes;
  // A word may lead to two slots: to the one that it points into and to the one that ends there.
  static constexpr size_t kMaxCandidates = 2 * kChunkWords;
  // More than a page's record takes: kMaxCandidates runs of one reference each.
  static constexpr size_t kPageRoom = 256 * kKiB;
  static constexpr size_t kRecordRoom = 16 * kKiB;
  static constexpr size_t kMaxName = 4096;

  void WritePage(alloc::PageNumber page, const alloc::PageInfo& info);
  void CollectPage(alloc::Contents contents);
  void ChooseShape(Live* live, uint32_t begin);
  void WriteLive(size_t shapes_defined);
  void WriteRuns(const Live& live, uint32_t begin);
  void WriteTargets(const Live& live, uint32_t begin);
  void WriteObject(const alloc::ObjectRef& object, alloc::Contents contents);

  void CollectWords(Addr begin, Addr end, bool is_known, bool interior);
  void CollectWord(Addr word, Addr at, bool is_known, bool interior);
  void CollectDescribed(const alloc::ObjectRef& object);
  void AddCandidate(Addr lookup, Addr value, Addr at, bool is_known, bool interior);
  // The address of a word of current_ that a mark procedure has pushed; 0 if it is not found near
  // the one before.
  Addr FindWord(Addr word);

  // References that go to the writer at once, with words numbered from `begin`; words outside
  // [begin, end) have no number.
  void BeginStream(Addr begin, Addr end);
  void ResolveCandidates();
  bool IsLive(const Candidate& candidate) const {
    return candidate.mark != nullptr && *candidate.mark == black_;
  }
  void WriteCandidates();
  // Returns the number of references of the stream.
  uint64_t FlushStream();
  uint64_t TypeOf(Addr object);

  SnapshotWriter* writer_ = nullptr;
  uint8_t black_ = 0;
  MarkConfig config_;
  TypeRanges types_;
  platform::Range last_type_range_;
  SnapshotCounts counts_;

  alloc::ReservedArray<Candidate> candidates_;
  size_t candidate_count_ = 0;
  alloc::ReservedArray<Live> live_;
  size_t live_count_ = 0;
  uint32_t page_bytes_ = 0;  // of a slot of the page being written
  alloc::PageNumber page_ = 0;

  bool streams_ = false;
  bool is_root_ = false;  // pointers one past the end count as in roots
  platform::Range stream_;
  uint64_t stream_count_ = 0;
  alloc::ObjectRef current_ = {};  // the object whose descriptor is followed
  Addr found_ = 0;                 // behind the word of current_ that was found last
};

}  // namespace gleaner::gc
