// What the pages of `gleaner report` have in common: head, headings, sections, and pieces of text
// as HTML. Text is escaped here, unless a name ends in _html.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gleaner::tools {

std::string Paragraph(const std::string& text);
std::string Soft(const std::string& text);
// That something is missing from the page.
std::string MissingNote(const std::string& text);
// Names and their values.
std::string FigureList(const std::vector<std::pair<const char*, std::string>>& figures);
// `rule` is part of an id.
std::string AdviceBox(const char* rule, const std::string& title, const std::string& evidence,
                      const std::string& action, const std::string& document);

struct Section {
  const char* id;
  const char* title;
  std::string content_html;
};

struct Page {
  std::string heading;
  std::string command;  // what ran
  std::string origin;   // where and when
  std::string notes_html;
  std::vector<Section> sections;
  std::string series;  // for the page's script, as JSON; empty: the page has no script
};
// The page as one file, nothing of which is fetched from elsewhere.
std::string Drawn(const Page& page);

}  // namespace gleaner::tools
