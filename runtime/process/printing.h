// Text for people: to standard output, to standard error, and to the log.
//
// Nothing here allocates, or waits for a lock that a stopped thread could hold. Every function may
// be called with the world stopped and under any lock of a rank below kLog. errno is kept.
#pragma once

#include <cstdarg>

#include "platform/os/base.h"

namespace gleaner::runtime {

enum class Stream : uint8_t { kOutput, kError, kLog };

// The longest text of one call; longer text is cut off.
inline constexpr size_t kMaxPrintedBytes = 1023;

// An address, or a count, as %llx or %llu prints it.
inline unsigned long long AsNumber(Addr a) { return a; }

void Print(Stream stream, const char* format, ...) __attribute__((format(printf, 2, 3)));
void PrintArguments(Stream stream, const char* format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

// One line to the log (standard error, or the log file).
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Sets the file that kLog writes to; standard error before the first call.
void SetLogFd(int fd);
// From now on kOutput and kError go to the log's file, too.
void PrintAllToLog();

// Copies the contents of a file to standard error; no effect if it cannot be read.
void PrintFile(const char* path);

void ResetPrintingAfterFork();

}  // namespace gleaner::runtime
