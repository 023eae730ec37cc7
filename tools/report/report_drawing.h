// Pictures of a report's page that need no script: bars in tables, and curves. Everything is
// scalable and takes its colours from the page's style: class kN is the N-th colour, `rest` a quiet
// one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gleaner::tools {

struct BarPart {
  double length;
  const char* colour;
};
struct BarRow {
  std::string label;
  std::vector<BarPart> parts;
  std::vector<std::string> cells;
};
struct BarTable {
  std::string caption;
  std::vector<std::string> headings;  // of the label, then of the cells
  std::vector<BarRow> rows;
  double full = 0;  // the length of a bar that fills its place; 0: that of the longest row
};
// A table with a bar in each row: the picture and its figures in one.
std::string Drawn(const BarTable& table);

struct Key {
  std::string name;
  const char* colour;
};
// What the colours of the bars that follow mean.
std::string DrawnKeys(const std::vector<Key>& keys);

struct PlainTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
// In a region of its own that scrolls sideways, which `name` tells.
std::string Drawn(const PlainTable& table, const std::string& name);
// The same behind a line to open it by.
std::string DrawnFolded(const PlainTable& table, const std::string& summary);

struct CurvePoint {
  double x;
  double y;
};
struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
};
struct Tick {
  double at;
  std::string label;
};
// Curves over [x_begin, x_end] and [0, 1].
struct Plot {
  std::string title;
  std::vector<Curve> curves;
  double x_begin;
  double x_end;
  std::vector<Tick> x_ticks;
  std::string x_label;
};
std::string Drawn(const Plot& plot);

}  // namespace gleaner::tools
