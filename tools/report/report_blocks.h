// The content of a report's page, as the JSON of which tools/report/report.js makes text, tables,
// bars and curves. All words and figures of the page are in it.
//
// A page is {heading, command, origin, notes: [text...], sections: [{id, title, blocks}...]}. A
// block has one member, whose name says what it is. A colour is a class of the page's style: kN is
// the N-th, `rest` a quiet one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/common/json.h"

namespace gleaner::tools {

// What is the same in all pages: made of files of tools/report/ and of Debian's dygraphs when the
// tool is built (tools/report/embed.py).
extern const char kPageBeforeContent[];
extern const char kPageBehindContent[];
// The page as one file, nothing of which is fetched from elsewhere.
std::string PageOf(const Json& content);

using Cells = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

Json Text(const std::string& text);
Json Soft(const std::string& text);
Json Heading(const std::string& text);
// Names and their values.
Json Figures(const Pairs& figures);
// `rule` is part of an id.
Json AdviceBox(const std::string& rule, const std::string& title, const std::string& evidence,
               const std::string& action, const std::string& document);
// Behind a line to open it by.
Json Table(const std::string& name, const Cells& headings, const std::vector<Cells>& rows);

struct BarRow {
  std::string label;
  std::vector<std::pair<double, std::string>> parts;  // lengths and their colours
  Cells cells;
};
// A table with a bar in each row: the picture and its figures in one. `keys` are names and their
// colours; `headings` those of the label, then of the cells; `full` is the length of a bar that
// fills its place, or 0 for that of the longest row.
Json Bars(const std::string& caption, const Pairs& keys, const Cells& headings,
          const std::vector<BarRow>& rows, double full = 0);

// Without a section's blocks, nothing is shown but its title.
Json Section(const std::string& id, const std::string& title, Json blocks);

double Ratio(double a, double b);

}  // namespace gleaner::tools
