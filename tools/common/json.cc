#include "tools/common/json.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace gleaner::tools {
namespace {

std::string Written(const nlohmann::json& scalar) {
  return scalar.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Json::Json(const char* text) : scalar_(Written(text)) {}
Json::Json(const std::string& text) : scalar_(Written(text)) {}
Json::Json(bool truth) : scalar_(truth ? "true" : "false") {}
Json::Json(double number) : scalar_(Written(number)) {}

Json::Json(const std::map<std::string, std::string>& members) : Json(object()) {
  for (const auto& [name, text] : members) (*this)[name] = text;
}

Json::Json(std::initializer_list<Json> values) : Json(array(values)) {
  const bool are_members = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.values_.size() == 2 && value.kind_ == Kind::kArray &&
           value.values_[0].scalar_[0] == '"';
  });
  if (!are_members) return;
  *this = object();
  for (const Json& member : values) {
    names_.push_back(member.values_[0].scalar_);
    values_.push_back(member.values_[1]);
  }
}

Json Json::array(std::initializer_list<Json> values) { return std::vector<Json>(values); }

Json Json::object() {
  Json made;
  made.kind_ = Kind::kObject;
  return made;
}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

void Json::push_back(Json value) {
  if (kind_ == Kind::kScalar) kind_ = Kind::kArray;
  values_.push_back(std::move(value));
}

Json& Json::operator[](const std::string& name) {
  if (kind_ == Kind::kScalar) kind_ = Kind::kObject;
  const std::string written = Written(name);
  const auto found = std::find(names_.begin(), names_.end(), written);
  if (found != names_.end()) return values_[static_cast<size_t>(found - names_.begin())];
  names_.push_back(written);
  return values_.emplace_back();
}

void Json::update(const Json& object) {
  names_.insert(names_.end(), object.names_.begin(), object.names_.end());
  values_.insert(values_.end(), object.values_.begin(), object.values_.end());
}

void Json::AppendTo(std::string* text) const {
  if (kind_ == Kind::kScalar) {
    *text += scalar_;
    return;
  }
  *text += kind_ == Kind::kArray ? '[' : '{';
  for (size_t i = 0; i < values_.size(); ++i) {
    if (i > 0) *text += ',';
    if (kind_ == Kind::kObject) *text += names_[i] + ':';
    values_[i].AppendTo(text);
  }
  *text += kind_ == Kind::kArray ? ']' : '}';
}

std::string TextOf(const Json& value) {
  std::string text;
  value.AppendTo(&text);
  return text;
}

void Print(const Json& object) {
  const char* before = "{";
  for (size_t i = 0; i < object.values_.size(); ++i) {
    printf("%s\n%s: %s", before, object.names_[i].c_str(), TextOf(object.values_[i]).c_str());
    before = ",";
  }
  puts("\n}");
}

}  // namespace gleaner::tools
