// Documents like JSON in collected memory, their texts, and the ways from one to the other.
// Thread-safety: as for the standard containers.
#ifndef GLEANER_BENCH_JSON_TEXT_H_
#define GLEANER_BENCH_JSON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bench::json {

enum Kind : uint32_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject, kKinds };
inline constexpr std::string_view kLiterals[] = {"null", "false", "true"};

struct Node;

struct Member {
  const char* name;
  uint64_t name_length;
  Node* value;
};

struct Node {
  Kind kind;
  uint32_t length;  // Characters, items or members.
  union {
    double number;
    const char* characters;
    Node** items;
    Member* members;
  };
};

// A text in pointer-free memory that grows.
struct Buffer {
  char* data = nullptr;
  size_t length = 0;
  size_t capacity = 0;
  std::string_view View() const { return {data, length}; }
};

void Append(Buffer* buffer, std::string_view text);
// The shortest text that is read as this number.
void AppendNumber(Buffer* buffer, double number);
// With quotes. Quotes, backslashes and codes below 32 are escaped.
void AppendString(Buffer* buffer, std::string_view characters);
// Without blanks.
void AppendDocument(Buffer* buffer, const Node* node);

// Calls RecordProgress. Nodes without pointers lie in pointer-free memory; the others are zero.
Node* NewNode(Kind kind, uint64_t length = 0);

// Fails with the offset if the text is none.
Node* Parse(std::string_view text);

}  // namespace bench::json

#endif  // GLEANER_BENCH_JSON_TEXT_H_
