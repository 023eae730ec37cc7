// Names of addresses of code in a process that may have ended, by the text of its /proc/PID/maps
// and the files that it names. libdw reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct Dwfl;

namespace gleaner::tools {

class FrameNames {
 public:
  explicit FrameNames(std::string maps);
  ~FrameNames();
  FrameNames(const FrameNames&) = delete;
  FrameNames& operator=(const FrameNames&) = delete;

  // The function's name; else the file's and the address; else the address.
  const std::string& FunctionAt(uint64_t address);
  // "file.c:12"; empty if that is not known.
  std::string PlaceOf(uint64_t address);

 private:
  std::string Find(uint64_t address);

  Dwfl* session_;
  std::map<uint64_t, std::string> names_;
};

}  // namespace gleaner::tools
