// What `gleaner top` shows of the heaps of a process at one time: text of 80 columns, or JSON.
#pragma once

#include <string>

#include "tools/common/json.h"
#include "tools/heap/live_heap.h"

namespace gleaner::tools {

// `text` with what is no printable ASCII character as '?': names may be anything.
std::string Printable(const std::string& text);

class TopFrame {
 public:
  TopFrame(int process, const std::string& name);
  // `before`: the look before this one; its time is 0 if there was none.
  void Add(const LiveHeap& heap, const HeapSample& now, const HeapSample& before);
  bool is_empty() const { return text_.empty(); }
  // Lines.
  std::string Text() const;
  // An object on one line.
  std::string JsonText() const;

 private:
  int process_;
  std::string name_;
  std::string text_;
  Json heaps_ = Json::array();
};

}  // namespace gleaner::tools
