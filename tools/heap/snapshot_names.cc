#include "tools/heap/snapshot_names.h"

#include "tools/common/debug_info.h"

namespace gleaner::tools {

std::string SnapshotNames::Kind(uint32_t kind) const {
  return kind < file_.kinds().size() ? file_.kinds()[kind].name : "kind " + std::to_string(kind);
}

const std::string& SnapshotNames::Type(uint32_t type) {
  while (types_.size() < graph_.vtables().size()) {
    types_.push_back(types_.empty() ? "" : image_.ClassOf(graph_.vtables()[types_.size()]));
  }
  return types_[type];
}

std::string SnapshotNames::KindAndType(uint32_t kind, uint32_t type) {
  const std::string& name = Type(type);
  return name.empty() ? Kind(kind) : Kind(kind) + " " + name;
}

Json SnapshotNames::JsonOf(ObjectId object) {
  return {{"address", Hexadecimal(graph_.AddressOf(object))},
          {"bytes", graph_.BytesOf(object)},
          {"kind", Kind(graph_.KindOf(object))},
          {"type", Type(graph_.TypeOf(object))}};
}

std::string SnapshotNames::Thread(const GraphRoot& root, bool in_full) const {
  if (root.thread >= file_.threads().size()) return "an unknown thread";
  const SnapshotThread& thread = file_.threads()[root.thread];
  if (thread.is_main)
    return in_full ? "the main thread " + std::to_string(thread.tid) : "the main thread";
  if (!in_full) return "thread " + thread.name;
  return "thread " + std::to_string(thread.tid) + " (" + thread.name + ")";
}

std::string SnapshotNames::Static(const RootReference& reference, bool in_full) {
  const GraphRoot& root = graph_.roots()[reference.root];
  const Place place = image_.PlaceOf(reference.word);
  const bool is_registered = root.kind == SnapshotRoot::kRegistered;
  std::string text;
  if (!place.symbol.empty()) {
    text = (is_registered ? "registered variable " : "static variable ") + place.symbol + " (" +
           place.module + ")";
    if (in_full && place.offset != 0) text += " + " + std::to_string(place.offset);
    const std::string line = in_full ? image_.DeclarationOf(reference.word) : "";
    if (!line.empty()) text += ", declared at " + line;
  } else if (!place.module.empty()) {
    text = (is_registered ? "registered data of " : "static data of ") + place.module;
    if (in_full) text += " + " + Hexadecimal(place.offset);
  } else {
    text = is_registered ? "registered roots" : "static data";
    if (!root.name.empty()) text += " of " + root.name;
  }
  return text;
}

std::string SnapshotNames::Stack(const RootReference& reference, bool in_full) {
  const GraphRoot& root = graph_.roots()[reference.root];
  // Of a fiber, or an alternate stack of the thread.
  std::string text = root.name.empty() ? "stack" : root.name;
  if (root.thread >= file_.threads().size()) return text;
  text += " of " + Thread(root, in_full);
  const FoundFrame found = image_.FrameOf(file_.threads()[root.thread], reference.word);
  if (found.frame.function == "?") return text;
  text += found.is_guess && in_full ? ", probably in " : ", in ";
  text += found.frame.function;
  if (in_full && !found.frame.source.empty()) text += " (" + found.frame.source + ")";
  return text;
}

void SnapshotNames::IndexFinalizers() {
  has_finalizers_ = true;
  for (const SnapshotFinalizer& finalizer : file_.finalizers()) {
    finalizer_of_word_.try_emplace(finalizer.data_word, &finalizer);
    const ObjectId object = finalizer.is_queued ? graph_.Find(finalizer.object) : kNoObject;
    if (object != kNoObject) finalizer_of_object_.try_emplace(object, &finalizer);
  }
}

std::string SnapshotNames::Finalizer(const RootReference& reference, bool in_full) {
  if (!has_finalizers_) IndexFinalizers();
  const bool is_object = reference.word == 0;
  if (is_object && !in_full) return "objects that wait for their finalizer";
  const SnapshotFinalizer* finalizer = nullptr;
  if (is_object) {
    const auto found = finalizer_of_object_.find(reference.target);
    if (found != finalizer_of_object_.end()) finalizer = found->second;
  } else {
    const auto found = finalizer_of_word_.find(reference.word);
    if (found != finalizer_of_word_.end()) finalizer = found->second;
  }
  std::string text =
      is_object ? "no root: the object waits for its finalizer" : "data of a finalizer";
  if (finalizer == nullptr) return text;
  const Place place = image_.PlaceOf(finalizer->function);
  text = is_object ? text + " " : "data of the finalizer ";
  text += place.symbol.empty() ? place.module + "+" + Hexadecimal(place.offset) : place.symbol;
  if (in_full && !is_object) text += " of " + Hexadecimal(finalizer->object);
  return text;
}

std::string SnapshotNames::Group(const RootReference& reference) {
  if (reference.is_past_end) return "words one past the end of an object";
  return GroupOfRoot(reference);
}

std::string SnapshotNames::GroupOfRoot(const RootReference& reference) {
  const GraphRoot& root = graph_.roots()[reference.root];
  const std::string& type = Type(graph_.TypeOf(reference.target));
  switch (root.kind) {
    case SnapshotRoot::kStack:
      return Stack(reference, false);
    case SnapshotRoot::kRegisters:
      return "registers of " + Thread(root, false);
    case SnapshotRoot::kThreadLocal:
      return "thread-local data of " + Thread(root, false);
    case SnapshotRoot::kStatic:
    case SnapshotRoot::kRegistered:
      return Static(reference, false);
    case SnapshotRoot::kUncollectable:
      return "uncollectable objects" + (type.empty() ? "" : " " + type);
    case SnapshotRoot::kFinalizer:
      return Finalizer(reference, false);
    case SnapshotRoot::kOther:
      break;
  }
  return root.name.empty() ? "other roots" : root.name;
}

std::string SnapshotNames::Word(const RootReference& reference) {
  const GraphRoot& root = graph_.roots()[reference.root];
  std::string text;
  switch (root.kind) {
    case SnapshotRoot::kStack:
      text = Stack(reference, true);
      break;
    case SnapshotRoot::kRegisters:
      text = "registers of " + Thread(root, true);
      break;
    case SnapshotRoot::kThreadLocal:
      text = "thread-local data of " + Thread(root, true);
      break;
    case SnapshotRoot::kStatic:
    case SnapshotRoot::kRegistered:
      text = Static(reference, true);
      break;
    case SnapshotRoot::kUncollectable:
      return "no root: the object is uncollectable, so it is there until the program frees it";
    case SnapshotRoot::kFinalizer:
      text = Finalizer(reference, true);
      break;
    case SnapshotRoot::kOther:
      text = GroupOfRoot(reference);
      break;
  }
  return reference.word == 0 ? text : text + ", at " + Hexadecimal(reference.word);
}

}  // namespace gleaner::tools
