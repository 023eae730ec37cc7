#include "tools/report/report_blocks.h"

#include <algorithm>

namespace gleaner::tools {

std::string PageOf(const Json& content) {
  std::string page = kPageBeforeContent;
  // A script element ends at a '<'.
  for (const char c : TextOf(content)) c == '<' ? page += "\\u003c" : page += c;
  return page + kPageBehindContent;
}

Json Text(const std::string& text) { return {{"text", text}}; }
Json Soft(const std::string& text) { return {{"soft", text}}; }
Json Heading(const std::string& text) { return {{"heading", text}}; }
Json Figures(const Pairs& figures) { return {{"figures", figures}}; }

Json AdviceBox(const std::string& rule, const std::string& title, const std::string& evidence,
               const std::string& action, const std::string& document) {
  return {{"advice",
           {{"rule", rule},
            {"title", title},
            {"evidence", evidence},
            {"action", action},
            {"document", document}}}};
}

Json Table(const std::string& name, const Cells& headings, const std::vector<Cells>& rows) {
  return {{"table", {{"name", name}, {"headings", headings}, {"rows", rows}}}};
}

Json Bars(const std::string& caption, const Pairs& keys, const Cells& headings,
          const std::vector<BarRow>& rows, double full) {
  Json made = Json::array();
  double longest = 0;
  for (const BarRow& row : rows) {
    double length = 0;
    for (const auto& [part, colour] : row.parts) length += part;
    longest = std::max(longest, length);
    made.push_back({{"label", row.label}, {"parts", row.parts}, {"cells", row.cells}});
  }
  return {{"bars",
           {{"caption", caption},
            {"keys", keys},
            {"headings", headings},
            {"rows", made},
            {"full", full == 0 ? longest : full}}}};
}

Json Section(const std::string& id, const std::string& title, Json blocks) {
  return {{"id", id}, {"title", title}, {"blocks", std::move(blocks)}};
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace gleaner::tools
