// The parts of a report's page that are the same in all: made of files of tools/report/ and of
// Debian's dygraphs when the tool is built (tools/report/embed.py).
#pragma once

namespace gleaner::tools {

extern const char kReportStyle[];
extern const char kReportScript[];
extern const char kReportLicence[];  // of dygraphs
// As a Content-Security-Policy names them.
extern const char kReportStyleHash[];
extern const char kReportScriptHash[];

}  // namespace gleaner::tools
