#include "tools/report/report_frame.h"

#include "tools/common/text.h"
#include "tools/report/report_parts.h"

namespace gleaner::tools {

namespace {

std::string Head(const Page& page) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '";
  out += kReportScriptHash;
  out += "'; style-src '";
  out += kReportStyleHash;
  out += "'; img-src data:; base-uri 'none'; form-action 'none'\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<link rel=\"icon\" href=\"data:,\">\n<title>Collector report: ";
  out += Escaped(page.command.substr(0, 100)) + "</title>\n<style>" + kReportStyle;
  return out + "</style>\n</head>\n";
}

std::string Header(const Page& page) {
  std::string out = "<header><h1>" + Escaped(page.heading) + "</h1>\n<p class=\"command\">" +
                    Escaped(page.command) + "</p>\n" + Soft(page.origin) +
                    "<nav aria-label=\"Panels\"><ul>";
  for (const Section& section : page.sections) {
    out += std::string("<li><a href=\"#") + section.id + "\">" + section.title + "</a></li>\n";
  }
  return out + "</ul></nav>\n" + page.notes_html + "</header>\n";
}

std::string Drawn(const Section& section) {
  return std::string("<section id=\"") + section.id + "\" aria-labelledby=\"" + section.id +
         "-title\"><h2 id=\"" + section.id + "-title\">" + section.title + "</h2>\n" +
         section.content_html + "</section>\n";
}

std::string Script(const Page& page) {
  return "<footer><details><summary>The charts are drawn by dygraphs: its licence</summary><pre>" +
         Escaped(kReportLicence) + "</pre></details></footer>\n" +
         "<script type=\"application/json\" id=\"series\">" + page.series + "</script>\n" +
         "<script>" + kReportScript + "</script>\n";
}

}  // namespace

std::string Paragraph(const std::string& text) { return "<p>" + Escaped(text) + "</p>\n"; }

std::string Soft(const std::string& text) {
  return "<p class=\"soft\">" + Escaped(text) + "</p>\n";
}

std::string MissingNote(const std::string& text) {
  return "<p class=\"missing\" role=\"note\">" + Escaped(text) + "</p>\n";
}

std::string FigureList(const std::vector<std::pair<const char*, std::string>>& figures) {
  std::string out = "<dl class=\"figures\">";
  for (const auto& [name, figure] : figures) {
    out += std::string("<div><dt>") + name + "</dt><dd>" + Escaped(figure) + "</dd></div>\n";
  }
  return out + "</dl>\n";
}

std::string AdviceBox(const char* rule, const std::string& title, const std::string& evidence,
                      const std::string& action, const std::string& document) {
  return std::string("<div class=\"advice\" id=\"advice-") + rule + "\"><h3>" + Escaped(title) +
         "</h3><p>" + Escaped(evidence) + "</p><p>" + Escaped(action) +
         "</p><p class=\"soft\">More: <cite>" + Escaped(document) + "</cite></p></div>\n";
}

std::string Drawn(const Page& page) {
  std::string out = Head(page) +
                    "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n" +
                    Header(page) + "<main id=\"main\" tabindex=\"-1\">\n";
  if (!page.series.empty()) {
    out +=
        "<noscript><p>The two charts over time need the page’s script; all else does not."
        "</p></noscript>\n";
  }
  for (const Section& section : page.sections) out += Drawn(section);
  return out + "</main>\n" + (page.series.empty() ? "" : Script(page)) + "</body>\n</html>\n";
}

}  // namespace gleaner::tools
