#include "tools/report_page.h"

#include <ctime>

#include "tools/report_panels.h"
#include "tools/report_parts.h"
#include "tools/report_series.h"
#include "tools/text.h"

namespace gleaner::tools {

namespace {

struct Section {
  const char* id;
  const char* title;
  std::string content;
};

std::string Drawn(const Section& section) {
  return std::string("<section id=\"") + section.id + "\" aria-labelledby=\"" + section.id +
         "-title\"><h2 id=\"" + section.id + "-title\">" + section.title + "</h2>\n" +
         section.content + "</section>\n";
}

std::string TimeOf(uint64_t wall_ns) {
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm parts = {};
  char text[64];
  if (wall_ns == 0 || gmtime_r(&seconds, &parts) == nullptr ||
      strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return "an unknown time";
  }
  return text;
}

std::string Header(const ReportModel& model) {
  return "<header><h1>What the collector did</h1>\n<p class=\"command\">" +
         Escaped(model.Text("command")) + "</p>\n<p class=\"soft\">" +
         Escaped("Process " + model.Text("process") + " on " + model.Text("host") + ", " +
                 TimeOf(model.Number("began_wall_ns", 0)) + ", Gleaner " + model.Text("version") +
                 ".") +
         "</p>\n";
}

std::string Missing(const ReportModel& model) {
  std::string text;
  if (!model.error.empty()) {
    text = "The trace is damaged: " + model.error + ". What comes before is shown.";
  } else if (!model.is_complete) {
    text =
        "The end of the trace is missing: the process goes on, was killed, called _exit or exec, "
        "or could not write. What there is is shown.";
  }
  std::string out;
  if (!text.empty()) out += "<p class=\"missing\" role=\"note\">" + Escaped(text) + "</p>\n";
  if (model.dropped_events != 0 || model.untraced_threads != 0) {
    out += "<p class=\"missing\" role=\"note\">" + Count(model.dropped_events) +
           " events found no room, and " + Count(model.untraced_threads) +
           " threads no ring: they are missing from all figures.</p>\n";
  }
  return out;
}

std::string Head(const ReportModel& model) {
  return std::string("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n") +
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "script-src '" +
         kReportScriptHash + "'; style-src '" + kReportStyleHash +
         "'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<link rel=\"icon\" href=\"data:,\">\n<title>Collector report: " +
         Escaped(model.Text("command").substr(0, 100)) + "</title>\n<style>" + kReportStyle +
         "</style>\n</head>\n";
}

}  // namespace

std::string MakePage(const ReportModel& model, const HeapProfile* profile) {
  const Section sections[] = {
      {"summary", "Summary", SummaryPanel(model)},
      {"advice", "Advice", AdvicePanel(model)},
      {"pauses", "Pauses", PausesPanel(model)},
      {"utilisation", "Mutator utilisation", UtilisationPanel(model)},
      {"heap", "Heap", HeapPanel(model)},
      {"occupancy", "Occupancy by size class", OccupancyPanel(model)},
      {"owners", "Pages by owner", OwnersPanel(model)},
      {"markers", "Markers", MarkersPanel(model)},
      {"stalls", "Stalls by cause", StallsPanel(model)},
      {"sites", "Allocation sites", SitesPanel(profile)},
  };
  std::string page = Head(model) +
                     "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n" +
                     Header(model) + "<nav aria-label=\"Panels\"><ul>";
  for (const Section& section : sections) {
    page += std::string("<li><a href=\"#") + section.id + "\">" + section.title + "</a></li>\n";
  }
  page += "</ul></nav>\n" + Missing(model) + "</header>\n<main id=\"main\" tabindex=\"-1\">\n" +
          "<noscript><p>The two charts over time need the page’s script; all else does not."
          "</p></noscript>\n";
  for (const Section& section : sections) page += Drawn(section);
  page +=
      "</main>\n<footer><details><summary>The charts are drawn by dygraphs: its "
      "licence</summary><pre>" +
      Escaped(kReportLicence) + "</pre></details></footer>\n" +
      "<script type=\"application/json\" id=\"series\">" + SeriesOf(model) + "</script>\n" +
      "<script>" + kReportScript + "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace gleaner::tools
