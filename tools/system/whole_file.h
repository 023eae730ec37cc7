// An output file that is there as a whole or not at all.
#pragma once

#include <cstdio>
#include <string>

namespace gleaner::tools {

// Call order: Open, Write or output to the stream, Commit. The file gets its name in Commit;
// without it the file of that name stays as it was. What is no regular file (a device, a pipe) is
// written to directly. Where the file system has files without names, the file has none before:
// then nothing is left if the process ends meanwhile, however it ends.
class WholeFile {
 public:
  WholeFile() = default;
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile();

  // All three: false, with the reason in errno, if that is not possible. "-" is standard output.
  [[nodiscard]] bool Open(const std::string& path);
  [[nodiscard]] bool Write(const std::string& text);
  [[nodiscard]] bool Commit();
  FILE* stream() { return file_; }  // Commit returns what goes wrong in it

 private:
  [[nodiscard]] bool GiveName(int descriptor);

  FILE* file_ = nullptr;
  std::string path_;
  std::string temporary_;  // empty: written to directly, or without a name
  bool has_no_name_ = false;
};

// A new empty folder for temporary files; empty, with the reason in errno, if there can be none.
std::string NewTemporaryFolder();

}  // namespace gleaner::tools
