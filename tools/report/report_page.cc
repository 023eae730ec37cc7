#include "tools/report/report_page.h"

#include <ctime>

#include "tools/common/text.h"
#include "tools/report/report_frame.h"
#include "tools/report/report_panels.h"
#include "tools/report/report_series.h"

namespace gleaner::tools {

namespace {

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

std::string Origin(const ReportModel& model) {
  return "Process " + model.Text("process") + " on " + model.Text("host") + ", " +
         TimeOf(model.Number("began_wall_ns", 0)) + ", Gleaner " + model.Text("version") + ".";
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
  if (!text.empty()) out += MissingNote(text);
  for (const std::string& stranger : model.strangers) out += MissingNote(stranger);
  if (model.dropped_events != 0 || model.untraced_threads != 0) {
    out += MissingNote(Count(model.dropped_events) + " events found no room, and " +
                       Count(model.untraced_threads) +
                       " threads no ring: they are missing from all figures.");
  }
  return out;
}

}  // namespace

std::string MakePage(const ReportModel& model, const HeapProfile* profile,
                     const PredictedHeap* predicted) {
  return Drawn(Page{
      "What the collector did",
      model.Text("command"),
      Origin(model),
      Missing(model),
      {
          {"summary", "Summary", SummaryPanel(model)},
          {"advice", "Advice", AdvicePanel(model)},
          {"pauses", "Pauses", PausesPanel(model)},
          {"utilisation", "Mutator utilisation", UtilisationPanel(model)},
          {"heap", "Heap", HeapPanel(model)},
          {"occupancy", "Occupancy by size class", OccupancyPanel(model)},
          {"owners", "Pages by owner", OwnersPanel(model)},
          {"nodes", "Memory nodes", NodesPanel(model)},
          {"markers", "Markers", MarkersPanel(model)},
          {"prediction", "More markers", PredictionPanel(predicted)},
          {"stalls", "Stalls by cause", StallsPanel(model)},
          {"sites", "Allocation sites", SitesPanel(profile)},
      },
      SeriesOf(model),
  });
}

}  // namespace gleaner::tools
