// Cords from files, which are read at once, or block by block on access.
#include <stdio.h>

#include "cord/node.h"
#include "gc/gc.h"

namespace cord {
namespace {

// CORD_from_file reads files up to this length at once.
constexpr long kEagerLength = 128 * 1024;

// The file of a Function node. The lock of the stream guards it, so that several threads can use
// the cord. A finalizer closes the stream.
struct LazyFile {
  static constexpr size_t kBlockLength = 4096;
  static constexpr size_t kBlocks = 64;

  FILE* stream;
  // A cache with one place for each block number modulo kBlocks; `number` is the block's number
  // plus 1, or 0 if the place is empty. Guarded by the stream's lock.
  struct {
    size_t number;
    char* text;
  } blocks[kBlocks];
};

[[noreturn]] void ReadFailed() { Misuse("CORD_from_file: the file cannot be read"); }

void Read(LazyFile* file, size_t block, char* text) {
  const off_t offset = static_cast<off_t>(block * LazyFile::kBlockLength);
  if (fseeko(file->stream, offset, SEEK_SET) != 0 ||
      fread(text, 1, LazyFile::kBlockLength, file->stream) == 0) {
    ReadFailed();
  }
}

char FetchLazily(size_t i, void* data) {
  LazyFile* file = static_cast<LazyFile*>(data);
  const size_t block = i / LazyFile::kBlockLength;
  auto& place = file->blocks[block % LazyFile::kBlocks];
  flockfile(file->stream);
  if (place.number != block + 1) {
    if (!place.text) {
      GC_PTR_STORE_AND_DIRTY(&place.text, AllocateTextOrDie(LazyFile::kBlockLength));
    }
    Read(file, block, place.text);
    place.number = block + 1;
  }
  const char c = place.text[i % LazyFile::kBlockLength];
  funlockfile(file->stream);
  GC_reachable_here(file);
  return c;
}

void Close(void* file, void*) { fclose(static_cast<LazyFile*>(file)->stream); }

// The length of a seekable file, or -1.
long FileLength(FILE* f) { return fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1; }

CORD FromFileLazy(FILE* f, size_t length) {
  LazyFile* file = static_cast<LazyFile*>(AllocateOrDie(sizeof(LazyFile)));
  file->stream = f;
  GC_register_finalizer_no_order(file, Close, nullptr, nullptr, nullptr);
  return CORD_from_fn(FetchLazily, file, length);
}

// Reads from the file's position to its end; about `expected` characters.
CORD FromFileEager(FILE* f, size_t expected) {
  size_t capacity = expected;
  size_t length = 0;
  char* text = AllocateTextOrDie(capacity);
  for (;;) {
    length += fread(text + length, 1, capacity - length, f);
    if (length < capacity) break;
    const int next = getc(f);
    if (next == EOF) break;
    capacity = 2 * capacity + LazyFile::kBlockLength;
    text = static_cast<char*>(memcpy(AllocateTextOrDie(capacity), text, length));
    text[length++] = static_cast<char>(next);
  }
  if (ferror(f)) ReadFailed();
  fclose(f);
  text[length] = '\0';
  return TextToCord(text, length);
}

}  // namespace
}  // namespace cord

using namespace cord;

CORD CORD_from_file_eager(FILE* f) {
  const long length = FileLength(f);
  if (length >= 0) rewind(f);
  return FromFileEager(f, length > 0 ? static_cast<size_t>(length) : 0);
}

CORD CORD_from_file_lazy(FILE* f) {
  const long length = FileLength(f);
  if (length < 0) Misuse("CORD_from_file_lazy: the file cannot seek");
  if (length > 0) return FromFileLazy(f, static_cast<size_t>(length));
  fclose(f);
  return CORD_EMPTY;
}

CORD CORD_from_file(FILE* f) {
  return FileLength(f) > kEagerLength ? CORD_from_file_lazy(f) : CORD_from_file_eager(f);
}
