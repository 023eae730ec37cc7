// Parser and writer; see json_text.h.
#define GC_THREADS
#include "json_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace bench::json {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  Node* Document() {
    Node* node = Value();
    if (Next() != '\0') Refuse("its end");
    return node;
  }

 private:
  [[noreturn]] void Refuse(const char* wanted) const {
    Fail("a text has no %s at offset %td", wanted, at_ - begin_);
  }

  // The first character after blanks; 0 at the end.
  char Next() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }

  bool Take(char wanted) {
    if (Next() != wanted) return false;
    ++at_;
    return true;
  }

  Node* Value() {
    switch (Next()) {
      case '{':
        return Object();
      case '[':
        return Array();
      case '"': {
        uint64_t length;
        const char* characters = String(&length);
        Node* node = NewNode(kString, length);
        node->characters = characters;
        return node;
      }
      default:
        return Number();
    }
  }

  Node* Number() {
    for (const Kind kind : {kNull, kFalse, kTrue}) {
      if (!std::string_view(at_, end_).starts_with(kLiterals[kind])) continue;
      at_ += kLiterals[kind].size();
      return NewNode(kind);
    }
    Node* node = NewNode(kNumber);
    const std::from_chars_result result = std::from_chars(at_, end_, node->number);
    if (result.ec != std::errc()) Refuse("value");
    at_ = result.ptr;
    return node;
  }

  const char* String(uint64_t* length) {
    if (!Take('"')) Refuse("string");
    const char* close = at_;
    while (close != end_ && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= end_) Refuse("closed string");
    auto* characters = static_cast<char*>(GC_malloc_atomic(static_cast<size_t>(close - at_) + 1));
    char* to = characters;
    while (at_ != close) *to++ = Character();
    *to = '\0';
    ++at_;
    *length = static_cast<uint64_t>(to - characters);
    return characters;
  }

  char Character() {
    const char c = *at_++;
    if (c != '\\') return c;
    const char escaped = *at_++;
    if (escaped != 'u') return escaped;
    unsigned code = 0;
    if (end_ - at_ < 4 || std::from_chars(at_, at_ + 4, code, 16).ptr != at_ + 4 || code > 0x7f) {
      Refuse("ASCII code");
    }
    at_ += 4;
    return static_cast<char>(code);
  }

  // Doubles the array when the length is a power of two from 4 on.
  template <class T>
  static void Grow(T** array, uint32_t length) {
    if (length == 0) {
      *array = static_cast<T*>(GC_malloc(4 * sizeof(T)));
    } else if (length >= 4 && (length & (length - 1)) == 0) {
      *array = static_cast<T*>(GC_realloc(*array, 2 * length * sizeof(T)));
    }
  }

  Node* Array() {
    Node* node = NewNode(kArray);
    ++at_;
    if (Take(']')) return node;
    do {
      Node* item = Value();
      Grow(&node->items, node->length);
      node->items[node->length++] = item;
    } while (Take(','));
    if (!Take(']')) Refuse("end of its array");
    return node;
  }

  Node* Object() {
    Node* node = NewNode(kObject);
    ++at_;
    if (Take('}')) return node;
    do {
      Member member;
      member.name = String(&member.name_length);
      if (!Take(':')) Refuse("colon");
      member.value = Value();
      Grow(&node->members, node->length);
      node->members[node->length++] = member;
    } while (Take(','));
    if (!Take('}')) Refuse("end of its object");
    return node;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
};

}  // namespace

void Append(Buffer* buffer, std::string_view text) {
  if (buffer->length + text.size() > buffer->capacity) {
    buffer->capacity = std::max<size_t>(2 * buffer->capacity, buffer->length + text.size() + 256);
    void* grown = buffer->data == nullptr ? GC_malloc_atomic(buffer->capacity)
                                          : GC_realloc(buffer->data, buffer->capacity);
    buffer->data = static_cast<char*>(grown);
  }
  std::memcpy(buffer->data + buffer->length, text.data(), text.size());
  buffer->length += text.size();
}

void AppendNumber(Buffer* buffer, double number) {
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof text, number);
  Append(buffer, {text, static_cast<size_t>(result.ptr - text)});
}

void AppendString(Buffer* buffer, std::string_view characters) {
  Append(buffer, "\"");
  size_t begin = 0;
  for (size_t i = 0; i < characters.size(); ++i) {
    const auto c = static_cast<unsigned char>(characters[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    Append(buffer, characters.substr(begin, i - begin));
    begin = i + 1;
    const char code[] = {'\\', 'u', '0', '0', "01"[c >> 4], "0123456789abcdef"[c & 15]};
    const char quoted[] = {'\\', static_cast<char>(c)};
    Append(buffer, c < 0x20 ? std::string_view(code, 6) : std::string_view(quoted, 2));
  }
  Append(buffer, characters.substr(begin));
  Append(buffer, "\"");
}

void AppendDocument(Buffer* buffer, const Node* node) {
  switch (node->kind) {
    case kNumber:
      AppendNumber(buffer, node->number);
      break;
    case kString:
      AppendString(buffer, {node->characters, node->length});
      break;
    case kArray:
      Append(buffer, "[");
      for (uint32_t i = 0; i < node->length; ++i) {
        if (i != 0) Append(buffer, ",");
        AppendDocument(buffer, node->items[i]);
      }
      Append(buffer, "]");
      break;
    case kObject:
      Append(buffer, "{");
      for (uint32_t i = 0; i < node->length; ++i) {
        const Member& member = node->members[i];
        if (i != 0) Append(buffer, ",");
        AppendString(buffer, {member.name, member.name_length});
        Append(buffer, ":");
        AppendDocument(buffer, member.value);
      }
      Append(buffer, "}");
      break;
    default:
      if (node->kind >= kNumber) Fail("a node has the kind %u", node->kind);
      Append(buffer, kLiterals[node->kind]);
  }
}

Node* NewNode(Kind kind, uint64_t length) {
  RecordProgress();
  void* memory = kind < kString ? GC_malloc_atomic(sizeof(Node)) : GC_malloc(sizeof(Node));
  auto* node = static_cast<Node*>(memory);
  node->kind = kind;
  node->length = static_cast<uint32_t>(length);
  return node;
}

Node* Parse(std::string_view text) { return Parser(text).Document(); }

}  // namespace bench::json
