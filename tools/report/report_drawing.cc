#include "tools/report/report_drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/text.h"

namespace gleaner::tools {

namespace {

constexpr double kBarWidth = 1000;

// A figure of a picture, rounded to what can be seen.
std::string Figure(double value) {
  if (!std::isfinite(value)) value = 0;
  char text[64];
  snprintf(text, sizeof text, "%.1f", value);
  return text;
}

double LengthOf(const BarRow& row) {
  double length = 0;
  for (const BarPart& part : row.parts) length += part.length;
  return length;
}

std::string DrawnBar(const BarRow& row, double full) {
  std::string out =
      "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  double x = 0;
  for (const BarPart& part : row.parts) {
    if (part.length <= 0 || full <= 0) continue;
    // What is there is seen, however small.
    const double width = std::min(std::max(part.length / full * kBarWidth, 1.5), kBarWidth - x);
    out += "<rect x=\"" + Figure(x) + "\" y=\"1\" width=\"" + Figure(width) +
           "\" height=\"8\" class=\"" + part.colour + "\"/>";
    x += width;
  }
  return out + "</svg>";
}

std::string Heading(const std::string& text) {
  return "<th scope=\"col\">" + Escaped(text) + "</th>";
}
std::string Cell(const std::string& text) { return "<td>" + Escaped(text) + "</td>"; }

std::string Scrolled(const std::string& content, const std::string& name) {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + Escaped(name) +
         "\">" + content + "</div>\n";
}

}  // namespace

std::string Drawn(const BarTable& table) {
  double full = table.full;
  if (full == 0) {
    for (const BarRow& row : table.rows) full = std::max(full, LengthOf(row));
  }
  std::string out = "<table class=\"bars\"><caption class=\"soft left\">" + Escaped(table.caption) +
                    "</caption><thead><tr>" + Heading(table.headings[0]) + "<td></td>";
  for (size_t i = 1; i < table.headings.size(); ++i) out += Heading(table.headings[i]);
  out += "</tr></thead><tbody>\n";
  for (const BarRow& row : table.rows) {
    out +=
        "<tr><td>" + Escaped(row.label) + "</td><td class=\"bar\">" + DrawnBar(row, full) + "</td>";
    for (const std::string& cell : row.cells) out += Cell(cell);
    out += "</tr>\n";
  }
  return Scrolled(out + "</tbody></table>", table.caption);
}

std::string DrawnKeys(const std::vector<Key>& keys) {
  std::string out = "<ul class=\"keys\">";
  for (const Key& key : keys) {
    out += std::string("<li><span class=\"swatch ") + key.colour + "\"></span> " +
           Escaped(key.name) + "</li>";
  }
  return out + "</ul>\n";
}

std::string Drawn(const PlainTable& table, const std::string& name) {
  std::string out = "<table><thead><tr>";
  for (const std::string& heading : table.headings) out += Heading(heading);
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += Cell(cell);
    out += "</tr>\n";
  }
  return Scrolled(out + "</tbody></table>", name);
}

std::string DrawnFolded(const PlainTable& table, const std::string& summary) {
  return "<details><summary>" + Escaped(summary) + "</summary>" + Drawn(table, summary) +
         "</details>\n";
}

std::string Drawn(const Plot& plot) {
  // Room for the labels at the font of a narrow page, which is larger.
  constexpr double kLeft = 60;
  constexpr double kRight = 448;
  constexpr double kTop = 12;
  constexpr double kBottom = 220;
  const double width = plot.x_end > plot.x_begin ? plot.x_end - plot.x_begin : 1;
  const auto x = [&](double at) {
    return Figure(kLeft + (at - plot.x_begin) / width * (kRight - kLeft));
  };
  const auto y = [&](double at) { return Figure(kBottom - at * (kBottom - kTop)); };
  std::string out = "<svg class=\"plot\" viewBox=\"0 0 480 260\" role=\"img\" aria-label=\"" +
                    Escaped(plot.title) + "\">\n";
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    out += "<line class=\"grid\" x1=\"" + Figure(kLeft) + "\" x2=\"" + Figure(kRight) + "\" y1=\"" +
           y(share) + "\" y2=\"" + y(share) + "\"/><text text-anchor=\"end\" x=\"" +
           Figure(kLeft - 6) + "\" y=\"" + Figure(kBottom - share * (kBottom - kTop) + 4) + "\">" +
           Figure(share * 100)
               .substr(0, share == 1   ? 3
                          : share == 0 ? 1
                                       : 2) +
           " %</text>\n";
  }
  for (const Tick& tick : plot.x_ticks) {
    out += "<text text-anchor=\"middle\" x=\"" + x(tick.at) + "\" y=\"" + Figure(kBottom + 18) +
           "\">" + Escaped(tick.label) + "</text>\n";
  }
  out += "<text text-anchor=\"middle\" x=\"" + Figure((kLeft + kRight) / 2) + "\" y=\"" +
         Figure(kBottom + 36) + "\">" + Escaped(plot.x_label) + "</text>\n";
  for (size_t i = 0; i < plot.curves.size(); ++i) {
    out += "<polyline class=\"curve s" + std::to_string(i) + "\" points=\"";
    for (const CurvePoint& point : plot.curves[i].points) {
      out += x(point.x) + "," + y(point.y) + " ";
    }
    out += "\"/>\n";
  }
  return out + "</svg>\n";
}

}  // namespace gleaner::tools
