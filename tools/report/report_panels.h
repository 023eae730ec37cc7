// The panels of a report's page, as HTML: pictures, tables, and what they mean.
#pragma once

#include <string>

#include "tools/predict/predict.h"
#include "tools/report/report_model.h"
#include "tools/report/report_profile.h"

namespace gleaner::tools {

std::string SummaryPanel(const ReportModel& model);
std::string AdvicePanel(const ReportModel& model);
std::string PausesPanel(const ReportModel& model);
std::string UtilisationPanel(const ReportModel& model);
std::string HeapPanel(const ReportModel& model);
std::string OccupancyPanel(const ReportModel& model);
std::string OwnersPanel(const ReportModel& model);
std::string NodesPanel(const ReportModel& model);
std::string MarkersPanel(const ReportModel& model);
// `predicted` is null if there is no snapshot.
std::string PredictionPanel(const PredictedHeap* predicted);
std::string StallsPanel(const ReportModel& model);
// `profile` is null if there is none.
std::string SitesPanel(const HeapProfile* profile);

}  // namespace gleaner::tools
