// Where memory is mapped, and reading what may vanish, without a descriptor.
#include "platform/loader/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <vector>

#include "platform/os/memory.h"
#include "platform/os/readable.h"
#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::platform {
namespace {

// Pages of memory, each as a letter says: 'r' readable, '-' mapped and not readable, ' ' not
// mapped.
class Pages {
 public:
  explicit Pages(const char* pages) : count_(strlen(pages)) {
    base_ = AddressOf(
        mmap(nullptr, count_ * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < count_; ++i) {
      void* page = PointerAt<void>(at(i));
      memset(page, static_cast<int>(i), page_);
      if (pages[i] == '-') {
        EXPECT_EQ(mprotect(page, page_, PROT_NONE), 0);
      } else if (pages[i] == ' ') {
        EXPECT_EQ(munmap(page, page_), 0);
      }
    }
  }
  ~Pages() { munmap(PointerAt<void>(base_), count_ * page_); }
  Addr at(size_t page, size_t offset = 0) const { return base_ + page * page_ + offset; }

 private:
  const size_t page_ = OsPageBytes();
  const size_t count_;
  Addr base_;
};

TEST(MappingsTest, LowestMappedIsWhereTheLastHoleEnds) {
  const Pages pages(" r r-r");
  EXPECT_EQ(LowestMapped({pages.at(0), pages.at(6)}), pages.at(3));
  EXPECT_EQ(LowestMapped({pages.at(0, 8), pages.at(5, 16)}), pages.at(3));
  EXPECT_EQ(LowestMapped({pages.at(4, 8), pages.at(5, 16)}), pages.at(4, 8));
  EXPECT_EQ(LowestMapped({pages.at(0), pages.at(3)}), pages.at(3));
  EXPECT_EQ(LowestMapped({pages.at(0), pages.at(2)}), pages.at(1));
}

TEST(MappingsTest, LowestMappedInMuchMemory) {
  constexpr size_t kPages = 3000;
  for (const size_t hole : {0, 1, 255, 256, 257, 2047, 2048, 2999}) {
    std::string text(kPages, 'r');
    text[hole] = ' ';
    const Pages pages(text.c_str());
    EXPECT_EQ(LowestMapped({pages.at(0), pages.at(kPages)}), pages.at(hole + 1));
  }
}

void ExpectCopies() {
  const Pages pages("rr-r r");
  const size_t page = OsPageBytes();
  std::vector<Addr> words(6 * page / kWordBytes);
  EXPECT_EQ(EndOfReadable(pages.at(0, 8), pages.at(6)), pages.at(2));
  EXPECT_EQ(EndOfReadable(pages.at(0, 8), pages.at(1, 8)), pages.at(1, 8));
  EXPECT_EQ(EndOfReadable(pages.at(2), pages.at(6)), pages.at(2));
  EXPECT_EQ(EndOfReadable(pages.at(3, 8), pages.at(6)), pages.at(4));
  EXPECT_EQ(BeginOfReadable(pages.at(3, 8)), pages.at(3));
  EXPECT_EQ(BeginOfReadable(pages.at(5, 8)), pages.at(5));
  // Bytes that are no words, across the end of a page.
  uint16_t bytes[4] = {};
  EXPECT_EQ(CopyIfMapped(bytes, pages.at(1) - 3, 6), 6u);
  EXPECT_EQ(bytes[2], 0x0101u);
  EXPECT_EQ(bytes[3], 0u);
  EXPECT_EQ(CopyIfMapped(bytes, pages.at(2) - 3, 6), 3u);
  EXPECT_EQ(CopyIfMapped(words.data(), pages.at(0, 16), 6 * page - 16), 2 * page - 16);
  EXPECT_EQ(words[page / kWordBytes - 2], 0x0101010101010101u);
  EXPECT_EQ(CopyIfMapped(words.data(), pages.at(1), page), page);
  EXPECT_EQ(words[0], 0x0101010101010101u);
  EXPECT_EQ(CopyIfMapped(words.data(), pages.at(2), page), 0u);
  EXPECT_EQ(CopyIfMapped(words.data(), pages.at(4), page), 0u);
}

TEST(MappingsTest, CopiesEndWhereMemoryCannotBeRead) { ExpectCopies(); }

TEST(MappingsTest, CopiesWithoutTheSystemsService) {
  for (const int error : {EPERM, ENOSYS, ENOMEM}) {
    for (const bool file : {true, false}) {
      EXPECT_CHILD_OK([error, file] {
        testing::Refuse(SYS_process_vm_readv, 0, 1, error);
        if (!file) testing::Refuse(SYS_openat, 0, 0, EMFILE);
        ExpectCopies();
      });
    }
  }
}

CHILD_TEST(MappingsTest, LowestMappedWithoutTheSystemsAnswer) {
  testing::Refuse(SYS_mincore, 0, 0, EAGAIN);
  const Pages pages(" r rrr");
  EXPECT_EQ(LowestMapped({pages.at(0), pages.at(6)}), pages.at(3));
}

}  // namespace
}  // namespace gleaner::platform
