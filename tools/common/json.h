// JSON that commands write.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gleaner::tools {

// Values in braces are an object if all of them are pairs that begin with a text, else an array.
// Members stay in the order in which they are added.
class Json {
 public:
  Json() = default;  // null
  Json(const char* text);
  Json(const std::string& text);
  Json(bool truth);
  Json(double number);
  template <std::integral T>
  Json(T number) : scalar_(std::to_string(number)) {}
  template <class T>
  Json(const std::vector<T>& values) : kind_(Kind::kArray), values_(values.begin(), values.end()) {}
  template <class A, class B>
  Json(const std::pair<A, B>& pair) : Json(array({pair.first, pair.second})) {}
  Json(const std::map<std::string, std::string>& members);
  Json(std::initializer_list<Json> values);
  static Json array(std::initializer_list<Json> values = {});
  static Json object();

  // Not inline: there are many in whatever is in braces.
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  // Of an array: elements. A scalar has none.
  bool empty() const { return values_.empty(); }
  Json& back() { return values_.back(); }
  // Null becomes an array.
  void push_back(Json value);

  // The member of an object; null if it is new. Null becomes an object.
  Json& operator[](const std::string& name);
  // Adds the members of `object`.
  void update(const Json& object);

  // On one line. Bytes that are no UTF-8 become U+FFFD: names of threads may be cut anywhere.
  friend std::string TextOf(const Json& value);
  // An object on standard output, a line for each member.
  friend void Print(const Json& object);

 private:
  enum class Kind { kScalar, kArray, kObject };

  void AppendTo(std::string* text) const;

  Kind kind_ = Kind::kScalar;
  std::string scalar_ = "null";     // as it is written
  std::vector<std::string> names_;  // of an object's members, as they are written
  std::vector<Json> values_;
};

std::string TextOf(const Json& value);
void Print(const Json& object);

}  // namespace gleaner::tools
