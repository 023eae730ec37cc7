#include "tools/report/collector_trace.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gc/collector.h"
#include "observe/trace_file.h"
#include "platform/os/stalls.h"
#include "platform/tracking/write_tracking.h"

namespace gleaner::tools {

using platform::TraceEvent;

namespace {

constexpr uint64_t kMaxDescriptionBytes = 1 << 20;

std::vector<TraceArgument> ParseArguments(const std::string& text) {
  std::vector<TraceArgument> arguments;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('|', begin);
    if (end == std::string::npos) end = text.size();
    const std::string argument = text.substr(begin, end - begin);
    const size_t colon = argument.find(':');
    arguments.push_back(
        {argument.substr(0, colon), colon == std::string::npos ? "" : argument.substr(colon + 1)});
    begin = end + 1;
  }
  return arguments;
}

const std::vector<TraceEventRow>& Rows() {
  static const std::vector<TraceEventRow> rows = {
#define TRACE_EVENT(number, id, name, form, arguments) \
  {TraceEvent::k##id, name, TraceForm::k##form, ParseArguments(arguments)},
#include "observe/trace_events.def"
#undef TRACE_EVENT
  };
  return rows;
}

template <class Enum>
const char* Word(uint64_t number, Enum last) {
  return number <= static_cast<uint64_t>(last) ? NameOf(static_cast<Enum>(number)) : nullptr;
}

}  // namespace

const TraceEventRow* RowOfTraceEvent(TraceEvent event) {
  for (const TraceEventRow& row : Rows()) {
    if (row.event == event) return &row;
  }
  return nullptr;
}

const char* WordOfTrace(const std::string& list, uint64_t number) {
  if (list == "part") return Word(number, gc::PausePart::kResume);
  if (list == "cause") return Word(number, gc::Cause::kInspection);
  if (list == "kind") return Word(number, gc::CollectionKind::kMinor);
  if (list == "reason") return Word(number, gc::Reason::kDearCycle);
  if (list == "stall") return Word(number, platform::StallCause::kPause);
  if (list == "state") return Word(number, gc::CycleState::kAbandoned);
  if (list == "tracking") {
    return number < platform::kTrackingKinds
               ? platform::TraitsOf(static_cast<platform::TrackingKind>(number)).name
               : nullptr;
  }
  if (list == "path") return Word(number, platform::TracePath::kGrowth);
  return nullptr;
}

std::string TextOfTrace(const uint64_t* words, size_t count) {
  const char* text = reinterpret_cast<const char*>(words);
  return {text, strnlen(text, count * sizeof *words)};
}

std::string NameInTrace(const TraceRecord& record) {
  return TextOfTrace(record.arguments + 2, 2) + " " + std::to_string(record.arguments[0]);
}

CollectorTrace::~CollectorTrace() {
  if (file_ != nullptr) fclose(file_);
}

size_t CollectorTrace::Read(uint64_t* words, size_t count) {
  const size_t bytes = fread(words, 1, count * sizeof *words, file_);
  offset_ += bytes;
  return bytes / sizeof *words;
}

bool CollectorTrace::Damaged(const char* what) {
  error_ = path_ + ": damaged at byte " + std::to_string(offset_) + ": " + what;
  return false;
}

bool CollectorTrace::Open(const std::string& path) {
  path_ = path;
  file_ = fopen(path.c_str(), "rb");
  if (file_ == nullptr) {
    error_ = path + ": " + strerror(errno);
    return false;
  }
  platform::TraceFileHead head;
  static_assert(sizeof head % sizeof(uint64_t) == 0);
  errno = 0;
  const size_t words = Read(reinterpret_cast<uint64_t*>(&head), sizeof head / sizeof(uint64_t));
  if (ferror(file_) != 0) {
    error_ = path + ": " + strerror(errno);
    return false;
  }
  if (words == 0 || head.magic != platform::TraceFileHead::kMagic) {
    // The seventh letter of the magic word is the version.
    constexpr uint64_t kVersionBits = uint64_t{0xff} << 48;
    const uint64_t other = head.magic ^ platform::TraceFileHead::kMagic;
    error_ = words != 0 && (other & ~kVersionBits) == 0
                 ? path + ": a trace of another version; this reads version 1"
                 : path + ": no collector trace";
    return false;
  }
  if (words < sizeof head / sizeof(uint64_t)) return Damaged("the head is cut off");
  return ReadDescription(head.text_bytes);
}

bool CollectorTrace::ReadDescription(uint64_t bytes) {
  if (bytes > kMaxDescriptionBytes || bytes % sizeof(uint64_t) != 0) {
    return Damaged("the length of the description");
  }
  std::string text(bytes, 0);
  const size_t read = fread(text.data(), 1, bytes, file_);
  offset_ += read;
  if (read != bytes) return Damaged("the description is cut off");
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      description_[line.substr(0, equals)] = line.substr(equals + 1);
    }
    begin = end + 1;
  }
  return true;
}

uint64_t CollectorTrace::Number(const char* key) const {
  const auto found = description_.find(key);
  return found == description_.end() ? 0 : strtoull(found->second.c_str(), nullptr, 10);
}

std::string CollectorTrace::Flaw(const std::string& output) const {
  if (!error_.empty()) return error_ + "; what comes before is in " + output;
  if (complete_) return "";
  return path_ +
         ": the end is missing: the process goes on, was killed, called _exit or exec, or could "
         "not write; what there is is in " +
         output;
}

std::map<uint32_t, std::string> CollectorTrace::ReadThreadNames() {
  std::map<uint32_t, std::string> names;
  const off_t begin = ftello(file_);
  if (begin < 0) return names;
  const uint64_t offset = offset_;
  for (TraceRecord record; Next(&record);) {
    if (record.event == TraceEvent::kThread) names[record.thread] = NameInTrace(record);
  }
  offset_ = offset;
  complete_ = false;
  dropped_ = untraced_ = 0;
  error_.clear();
  (void)fseeko(file_, begin, SEEK_SET);  // ftello has shown that the file can be moved in
  return names;
}

bool CollectorTrace::Next(TraceRecord* record) {
  for (;;) {
    const uint64_t at = offset_;
    if (Read(words_, 1) == 0) return false;  // the end, or a word that is cut off
    const uint64_t header = words_[0];
    const size_t count = platform::TraceWordsOf(header);
    const auto event = platform::TraceEventOf(header);
    if (count < 2 || (header & 0xffff0000u) != 0 || event == TraceEvent::kNone) {
      offset_ = at;
      return Damaged("no record begins there");
    }
    if (Read(words_ + 1, count - 1) < count - 1) return false;  // cut off
    const TraceEventRow* row = RowOfTraceEvent(event);
    if (row == nullptr) continue;  // of a later version
    const bool is_span = row->form == TraceForm::kSpan;
    const size_t fixed = is_span ? 3 : 2;
    if (count < fixed + row->arguments.size()) {
      offset_ = at;
      return Damaged("a record is too short");
    }
    *record = {event,          platform::TraceThreadOf(header),
               words_[1],      is_span ? words_[2] : 0,
               words_ + fixed, count - fixed};
    if (event != TraceEvent::kEnd) return true;
    complete_ = true;
    dropped_ = record->arguments[0];
    untraced_ = record->arguments[1];
  }
}

}  // namespace gleaner::tools
