// How long a stop-parallel collection of the whole heap would stop the program.
//
//   stop = rest + mark time per byte * bytes to scan / parallelism + sweep time per page * pages
//
// The parallelism is the mean of the markers at work (gc/mark/marker_count.h), the higher one of
// the last two collections that marked in their stop, and at most the number of markers. Where more
// than twice as many bytes are to be scanned it is the number of markers: they may have more work
// for all. The rest is the shorter of those of the last two collections. Each rate is the lower of
// those of the last two collections that marked, or swept, in their stop: a stop that was held up
// once does not count, which matters since concurrent collections measure no rate. The bytes to
// scan are those of the last collection of the whole heap, and a part of what has been allocated
// since: as large a part as was added before each of the last two such collections, the smaller of
// the two, since a structure that is built once is no growth.
//
// Guarded by the collector lock.
#pragma once

#include <limits>

#include "gc/mark/marker_count.h"
#include "gc/policy/pause.h"

namespace gleaner::gc {

class StopForecast {
 public:
  struct Full {
    uint64_t scanned_bytes;
    uint64_t allocated_bytes;  // net, since the collection before, minor or not
    uint64_t pages;            // of the heap
    MarkingTimes marking;      // if it marked in its stop
    bool marked_in_stop;
    bool swept_in_stop;
  };
  // A collection of the whole heap is over.
  void LearnFromFull(const PauseTimes& pause, const Full& full);
  // A minor collection is over.
  void LearnFromMinor(uint64_t allocated_bytes) { allocated_bytes_ += allocated_bytes; }

  // The part of what is allocated that is expected to stay; 0 to 1.
  double growth() const { return growth_; }
  // Bytes to scan after `allocated_bytes` more have been allocated since the last collection.
  uint64_t ScanBytes(uint64_t allocated_bytes) const;
  uint64_t MarkNs(uint64_t scan_bytes, int markers) const {
    const bool is_known = scan_bytes <= 2 * parallel_bytes_;
    const double busy = is_known && parallelism_ < markers ? parallelism_ : markers;
    return static_cast<uint64_t>(static_cast<double>(scan_bytes) * mark_ns_per_byte_.used / busy);
  }
  uint64_t StopNs(uint64_t scan_bytes, int markers, uint64_t pages) const {
    return MarkNs(scan_bytes, markers) +
           static_cast<uint64_t>(rest_ns_.used +
                                 static_cast<double>(pages) * sweep_ns_per_page_.used);
  }

  // Fixes a marker's time for a byte, which is otherwise measured and depends on the machine and
  // its load, and leaves out the rest of the stop. pre: no other thread uses the collector.
  void SetMarkTimeForTesting(double ns_per_byte) {
    mark_ns_per_byte_.used = ns_per_byte;
    rest_ns_.used = 0;
    sweep_ns_per_page_.used = 0;
    is_fixed_ = true;
  }

 private:
  // The lower of the last two measurements; before the first, an assumption.
  struct Measured {
    static constexpr double kNone = std::numeric_limits<double>::infinity();
    double used;
    double last = kNone;
    void Add(double measured) {
      used = measured < last ? measured : last;
      last = measured;
    }
  };
  Measured mark_ns_per_byte_ = {1};  // of one marker
  double parallelism_ = 1;           // used
  double last_parallelism_ = 1;
  uint64_t parallel_bytes_ = 0;  // scanned when it was measured last; 0: it was not
  Measured sweep_ns_per_page_ = {0};
  Measured rest_ns_ = {0};
  uint64_t scanned_bytes_ = 0;    // by the last collection of the whole heap
  uint64_t allocated_bytes_ = 0;  // net, between the last such collection and the last of any kind
  // Added to the bytes to scan by a byte allocated before the last such collection, and before each
  // of the last two; 0 to 1.
  double last_growth_ = 0;
  double growth_ = 0;
  bool is_fixed_ = false;  // SetMarkTimeForTesting was called
};

}  // namespace gleaner::gc
