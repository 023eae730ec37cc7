// A program whose data take most of a limit on address space that the caller has set: what is left
// at its first allocation may be too little for a heap, or for the tables of one.
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {
char g_data[16 << 20];
}

int main() {
  g_data[0] = 1;
  std::vector<std::string> words;
  for (int i = 0; i < 5000; ++i)
    words.push_back("a word that is not short, number " + std::to_string(i));
  for (int i = 0; i < 5000; ++i) CHECK(words[i].ends_with(std::to_string(i)));
  auto* block = static_cast<char*>(malloc(100));
  fill(block, 100, 1);
  block = static_cast<char*>(realloc(block, 100'000));
  CHECK(block != nullptr && holds(block, 100, 1));
  free(block);
  printf("fine\n");
  return g_data[1];
}
