/* Cords: every operation against the same operation on plain arrays of characters, in random
   sequences; trees that grow to one side; files; formatted output; positions. Compiles against
   libgc's headers too. */
#include <fcntl.h>
#include <gc/cord.h>
#include <gc/ec.h>
#include <sys/wait.h>

#include "../api/check.h"

static unsigned long random_state = 12345;
static size_t random_below(size_t n) {
  random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
  return (random_state >> 33) % n;
}

/* ---- Small cases ---- */

static void basics(void) {
  CORD x = CORD_cat("hello, ", "world");
  CORD y = CORD_cat(CORD_EMPTY, x);
  CHECK_EQ(CORD_len(CORD_EMPTY), 0);
  CHECK_EQ(CORD_len("abc"), 3);
  CHECK_EQ(CORD_len(x), 12);
  CHECK_PTR(CORD_cat(x, CORD_EMPTY), x);
  CHECK_PTR(y, x);
  CHECK(CORD_cat(CORD_EMPTY, CORD_EMPTY) == CORD_EMPTY);
  CHECK_EQ(strcmp(CORD_to_char_star(x), "hello, world"), 0);
  CHECK_EQ(strcmp(CORD_to_const_char_star(CORD_EMPTY), ""), 0);
  CHECK_EQ(strcmp(CORD_to_char_star(CORD_EMPTY), ""), 0);
  CHECK_EQ(strcmp(CORD_to_const_char_star("abc"), "abc"), 0);
  CHECK(CORD_IS_STRING("abc"));
  CHECK_EQ(CORD_fetch(x, 7), 'w');
  CHECK_EQ(CORD_cmp(CORD_substr(x, 7, 100), "world"), 0);
  CHECK_EQ(CORD_cmp(CORD_substr(x, 0, 5), "hello"), 0);
  CHECK(CORD_substr(x, 12, 1) == CORD_EMPTY);
  CHECK(CORD_substr(x, 500, 1) == CORD_EMPTY);
  CHECK(CORD_substr(x, 3, 0) == CORD_EMPTY);
  CHECK(CORD_substr(CORD_EMPTY, 0, 1) == CORD_EMPTY);
  CHECK(CORD_from_char_star("") == CORD_EMPTY);
  CHECK_EQ(CORD_cmp(CORD_from_char_star("abc"), "abc"), 0);
  CHECK_EQ(CORD_cmp(CORD_catn(4, "ab", (CORD)CORD_EMPTY, "cd", "e"), "abcde"), 0);
  CHECK(CORD_catn(0) == CORD_EMPTY);
  CHECK_EQ(CORD_cmp(CORD_cat_char(CORD_cat_char(CORD_EMPTY, 'a'), 'b'), "ab"), 0);
  CHECK_EQ(CORD_cmp(CORD_cat_char_star("ab", "cd", 2), "abcd"), 0);

  CHECK_LE(CORD_cmp("abc", "abd"), -1);
  CHECK_GE(CORD_cmp("abcd", "abc"), 1);
  CHECK_LE(CORD_cmp(CORD_EMPTY, "a"), -1);
  CHECK_GE(CORD_cmp("\377", "a"), 1);
  CHECK_GE(CORD_cmp(CORD_chars('\377', 100), CORD_chars('a', 200)), 1);
  CHECK_EQ(CORD_cmp(CORD_EMPTY, CORD_EMPTY), 0);
  CHECK_EQ(CORD_ncmp("xxabc", 2, "abd", 0, 2), 0);
  CHECK_LE(CORD_ncmp("xxabc", 2, "abd", 0, 3), -1);
  CHECK_EQ(CORD_ncmp("abc", 0, "xyz", 0, 0), 0);

  CHECK_EQ(CORD_chr(x, 0, 'o'), 4);
  CHECK_EQ(CORD_chr(x, 5, 'o'), 8);
  CHECK_EQ(CORD_chr(x, 9, 'o'), CORD_NOT_FOUND);
  CHECK_EQ(CORD_rchr(x, 11, 'o'), 8);
  CHECK_EQ(CORD_rchr(x, 7, 'o'), 4);
  CHECK_EQ(CORD_rchr(x, 3, 'o'), CORD_NOT_FOUND);
  CHECK_EQ(CORD_str(x, 0, "o, w"), 4);
  CHECK_EQ(CORD_str(x, 0, "aabaa"), CORD_NOT_FOUND);
  CHECK_EQ(CORD_str("aabaabaaab", 0, "aabaaa"), 3);
  CHECK_EQ(CORD_str(x, 3, CORD_EMPTY), 3);
  CHECK_EQ(CORD_str(x, 5, "hello"), CORD_NOT_FOUND);
}

/* ---- Against a model ---- */

struct model {
  CORD cord;
  char *text; /* from malloc */
  size_t length;
};

static void model_set(struct model *m, CORD cord, char *text, size_t length) {
  free(m->text);
  m->cord = cord;
  m->text = text;
  m->length = length;
}

static char pattern(size_t i, void *data) { return (char)((i * 7 + (size_t)data) % 251); }

struct cursor {
  const struct model *model;
  size_t next;
  long wrong;
  size_t stop;
};

static int expect_char(char c, void *data) {
  struct cursor *cursor = (struct cursor *)data;
  cursor->wrong += c != cursor->model->text[cursor->next];
  cursor->next++;
  return cursor->next == cursor->stop;
}

static int expect_text(const char *text, void *data) {
  struct cursor *cursor = (struct cursor *)data;
  for (; *text; text++) {
    if (expect_char(*text, data)) return 1;
  }
  (void)cursor;
  return 0;
}

static int expect_backwards(char c, void *data) {
  struct cursor *cursor = (struct cursor *)data;
  cursor->next--;
  cursor->wrong += c != cursor->model->text[cursor->next];
  return cursor->next == cursor->stop;
}

static size_t model_find(const struct model *m, size_t from, const char *text, size_t length) {
  const char *found = (const char *)memmem(m->text + from, m->length - from, text, length);
  return found ? (size_t)(found - m->text) : CORD_NOT_FOUND;
}

static void check_against_model(const struct model *m) {
  struct cursor cursor;
  CORD_pos pos;
  long wrong = 0;
  CHECK_EQ(CORD_len(m->cord), m->length);
  if (m->length == 0) {
    CHECK(m->cord == CORD_EMPTY);
    return;
  }
  CHECK_EQ(memcmp(CORD_to_char_star(m->cord), m->text, m->length + 1), 0);

  size_t i = 0;
  CORD_FOR(pos, m->cord) {
    wrong += CORD_pos_fetch(pos) != m->text[i] || CORD_pos_to_index(pos) != i;
    i++;
  }
  CHECK_EQ(i, m->length);
  CHECK_PTR(CORD_pos_to_cord(pos), m->cord);

  size_t start = random_below(m->length);
  i = start;
  for (CORD_set_pos(pos, m->cord, start); CORD_pos_valid(pos); CORD_prev(pos)) {
    wrong += CORD_pos_fetch(pos) != m->text[i];
    i--;
  }
  CHECK_EQ(i, (size_t)-1);

  /* Back and forth, by macros and by functions, and in runs. */
  CORD_set_pos(pos, m->cord, start);
  for (i = 0; i < 200 && CORD_pos_valid(pos); i++) {
    wrong += (CORD_pos_fetch)(pos) != m->text[(CORD_pos_to_index)(pos)];
    if (random_below(2)) {
      (CORD_next)(pos);
    } else {
      CORD_prev(pos);
    }
  }
  i = start;
  CORD_set_pos(pos, m->cord, start);
  while (CORD_pos_valid(pos)) {
    long left = CORD_pos_chars_left(pos);
    if (left > 0) {
      left = 1 + (long)random_below((size_t)left);
      wrong += memcmp(CORD_pos_cur_char_addr(pos), m->text + i, (size_t)left) != 0;
      i += (size_t)left;
      CORD_pos_advance(pos, (size_t)left);
    } else {
      wrong += CORD_pos_fetch(pos) != m->text[i++];
      CORD_next(pos);
    }
  }
  CHECK_EQ(i, m->length);

  for (i = 0; i < 20; i++) {
    start = random_below(m->length);
    wrong += CORD_fetch(m->cord, start) != m->text[start];
  }
  CHECK_EQ(wrong, 0);

  cursor.model = m;
  cursor.wrong = 0;
  cursor.next = start;
  cursor.stop = m->length + 1;
  CHECK_EQ(CORD_iter5(m->cord, start, expect_char, CORD_NO_FN, &cursor), 0);
  CHECK_EQ(cursor.next, m->length);
  cursor.next = start;
  CHECK_EQ(CORD_iter5(m->cord, start, expect_char, expect_text, &cursor), 0);
  CHECK_EQ(cursor.next, m->length);
  cursor.next = 0;
  cursor.stop = start + 1;
  CHECK_EQ(CORD_iter(m->cord, expect_char, &cursor), 1);
  CHECK_EQ(cursor.next, start + 1);
  cursor.stop = 0;
  CHECK_EQ(CORD_riter4(m->cord, start, expect_backwards, &cursor), 1);
  CHECK_EQ(cursor.next, 0);
  cursor.next = m->length;
  cursor.stop = start;
  CHECK_EQ(CORD_riter(m->cord, expect_backwards, &cursor), 1);
  CHECK_EQ(cursor.wrong, 0);

  {
    size_t length = 1 + random_below(m->length - start < 50 ? m->length - start : 50);
    size_t from = random_below(m->length);
    char c = m->text[random_below(m->length)];
    CORD part = CORD_substr(m->cord, start, length);
    const char *last = (const char *)memrchr(m->text, c, from + 1);
    CHECK_EQ(CORD_str(m->cord, from, part), model_find(m, from, m->text + start, length));
    CHECK_EQ(CORD_chr(m->cord, from, c), model_find(m, from, &c, 1));
    CHECK_EQ(CORD_rchr(m->cord, from, c), last ? (size_t)(last - m->text) : CORD_NOT_FOUND);
  }
}

static void against_model(void) {
  enum { kModels = 40, kSteps = 6000 };
  static struct model models[kModels];
  for (int step = 0; step < kSteps; step++) {
    struct model *a = &models[random_below(kModels)];
    const struct model *b = &models[random_below(kModels)];
    struct model *to = &models[random_below(kModels)];
    const size_t operation = random_below(12);
    if (operation < 6 && a->length + b->length < 20000) {
      char *text = (char *)malloc(a->length + b->length + 1);
      if (a->length) memcpy(text, a->text, a->length);
      if (b->length) memcpy(text + a->length, b->text, b->length);
      text[a->length + b->length] = '\0';
      model_set(to, CORD_cat(a->cord, b->cord), text, a->length + b->length);
    } else if (operation == 6 && a->length > 0) {
      const size_t start = random_below(a->length);
      const size_t wanted = 1 + random_below(a->length);
      const size_t length = wanted < a->length - start ? wanted : a->length - start;
      char *text = (char *)malloc(length + 1);
      memcpy(text, a->text + start, length);
      text[length] = '\0';
      model_set(to, CORD_substr(a->cord, start, wanted), text, length);
    } else if (operation == 7) {
      const char c = (char)random_below(4);
      char *text = (char *)malloc(a->length + 2);
      if (a->length) memcpy(text, a->text, a->length);
      text[a->length] = c;
      text[a->length + 1] = '\0';
      model_set(a, CORD_cat_char(a->cord, c), text, a->length + 1);
    } else if (operation == 8) {
      model_set(a, CORD_balance(a->cord),
                a->length ? (char *)memcpy(malloc(a->length + 1), a->text, a->length + 1) : NULL,
                a->length);
    } else if (operation == 9) {
      const size_t length = random_below(100);
      char *text = (char *)malloc(length + 1);
      memset(text, 'q', length);
      text[length] = '\0';
      model_set(to, CORD_chars('q', length), text, length);
    } else if (operation == 10) {
      const size_t length = random_below(200);
      const size_t data = random_below(251);
      char *text = (char *)malloc(length + 1);
      for (size_t n = 0; n < length; n++) text[n] = pattern(n, (void *)data);
      text[length] = '\0';
      model_set(to, CORD_from_fn(pattern, (void *)data, length), text, length);
    } else {
      char *text = strdup("some text of medium length, which is shared");
      model_set(to, CORD_from_char_star(text), text, strlen(text));
    }
    check_against_model(&models[random_below(kModels)]);
    if (a->length && b->length) {
      const size_t common = a->length < b->length ? a->length : b->length;
      const int expected = memcmp(a->text, b->text, common);
      const int actual = CORD_cmp(a->cord, b->cord);
      const int lengths = (a->length > b->length) - (a->length < b->length);
      const int wanted = expected ? expected : lengths;
      CHECK_EQ((actual > 0) - (actual < 0), (wanted > 0) - (wanted < 0));
    }
    if (step % 500 == 0) collect();
  }
  for (int i = 0; i < kModels; i++) {
    check_against_model(&models[i]);
    model_set(&models[i], CORD_EMPTY, NULL, 0);
  }
}

/* ---- Deep trees ---- */

static CORD big;

static void one_sided(void) {
  enum { kCount = 300000 };
  CORD_pos pos;
  size_t i;
  long wrong = 0;
  big = CORD_EMPTY;
  for (i = 0; i < kCount; i++) big = CORD_cat_char(big, (char)('a' + i % 26));
  CHECK_EQ(CORD_len(big), kCount);
  i = 0;
  CORD_FOR(pos, big) wrong += CORD_pos_fetch(pos) != (char)('a' + i++ % 26);
  CHECK_EQ(i, kCount);

  big = CORD_EMPTY;
  for (i = 0; i < kCount / 10; i++) {
    char piece[40];
    sprintf(piece, "%036d", (int)i);
    big = CORD_cat(CORD_from_char_star(piece), big);
  }
  CHECK_EQ(CORD_len(big), 36ul * kCount / 10);
  for (i = 0; i < kCount / 10; i += 97) {
    char piece[40];
    sprintf(piece, "%036d", (int)(kCount / 10 - 1 - i));
    wrong += CORD_cmp(CORD_substr(big, 36 * i, 36), piece) != 0;
  }
  CHECK_EQ(wrong, 0);
  big = CORD_EMPTY;
}

/* Leaves as long as Fibonacci's numbers: balanced by length, such trees would be too deep. */
static void growing_leaves(void) {
  enum { kLeaves = 80 };
  size_t starts[kLeaves + 1];
  size_t length = 1, before = 1, total = 0;
  CORD x = CORD_EMPTY, y = CORD_EMPTY;
  for (int i = 0; i < kLeaves; i++) {
    const size_t sum = length + before;
    const char c = (char)('0' + i);
    starts[i] = total;
    x = CORD_cat(x, CORD_chars(c, length));
    y = CORD_cat(CORD_chars(c, length), y);
    total += length;
    before = length;
    length = sum;
  }
  starts[kLeaves] = total;
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(CORD_len(x), total);
    CHECK_EQ(CORD_len(y), total);
    for (int leaf = 0; leaf < kLeaves; leaf++) {
      CORD_pos pos;
      CHECK_EQ(CORD_fetch(x, starts[leaf]), '0' + leaf);
      CHECK_EQ(CORD_fetch(x, starts[leaf + 1] - 1), '0' + leaf);
      CHECK_EQ(CORD_fetch(y, total - 1 - starts[leaf]), '0' + leaf);
      CORD_set_pos(pos, x, starts[leaf]);
      if (leaf > 0) {
        CORD_prev(pos);
        CHECK_EQ(CORD_pos_fetch(pos), '0' + leaf - 1);
      }
    }
    x = CORD_balance(x);
    y = CORD_balance(y);
  }
}

/* ---- Files ---- */

static char file_name[] = "/tmp/gleaner-cord-XXXXXX";

static FILE *file_with(const char *text, size_t length) {
  FILE *f = fopen(file_name, "w+");
  CHECK(f != NULL);
  CHECK_EQ(fwrite(text, 1, length, f), length);
  return f;
}

static int same_as(CORD x, const char *text, size_t length) {
  return CORD_len(x) == length && (length == 0 || memcmp(CORD_to_char_star(x), text, length) == 0);
}

enum { kFileLength = 500000 };
static char file_text[kFileLength];

static void *walk(void *argument) {
  CORD x = (CORD)argument;
  CORD_pos pos;
  size_t i = 0;
  size_t wrong = 0;
  CORD_FOR(pos, x) wrong += CORD_pos_fetch(pos) != file_text[i++];
  for (i = 0; i < 5000; i++) {
    const size_t at = i * 7919 % kFileLength;
    wrong += CORD_fetch(x, at) != file_text[at];
  }
  return (void *)wrong;
}

static int descriptors[50];

static void *open_lazily(void *unused) {
  (void)unused;
  for (int i = 0; i < 50; i++) {
    FILE *f = fopen(file_name, "r");
    CORD x = CORD_from_file_lazy(f);
    descriptors[i] = fileno(f);
    CHECK_EQ(CORD_fetch(x, kFileLength - 1), file_text[kFileLength - 1]);
  }
  return NULL;
}

static void files(void) {
  int pipe_ends[2];
  pthread_t threads[3];
  int closed = 0;
  close(mkstemp(file_name));
  for (size_t i = 0; i < kFileLength; i++) file_text[i] = (char)(i * i % 127 + i / 4096);

  for (size_t i = 0; i < 3; i++) {
    CORD (*const from[])(FILE *) = {CORD_from_file, CORD_from_file_eager, CORD_from_file_lazy};
    CHECK(from[i](file_with("", 0)) == CORD_EMPTY);
    CHECK(same_as(from[i](file_with("short", 5)), "short", 5));
    CHECK(same_as(from[i](file_with("with\0zeros\0", 11)), "with\0zeros\0", 11));
    CHECK(same_as(from[i](file_with(file_text, kFileLength)), file_text, kFileLength));
  }
  CHECK_EQ(pipe(pipe_ends), 0);
  CHECK_EQ(write(pipe_ends[1], file_text, 10000), 10000);
  close(pipe_ends[1]);
  CHECK(same_as(CORD_from_file(fdopen(pipe_ends[0], "r")), file_text, 10000));

  big = CORD_from_file_lazy(fopen(file_name, "r"));
  for (size_t i = 0; i < 3; i++) CHECK_EQ(pthread_create(&threads[i], NULL, walk, (void *)big), 0);
  for (size_t i = 0; i < 3; i++) {
    void *wrong;
    CHECK_EQ(pthread_join(threads[i], &wrong), 0);
    CHECK_NULL(wrong);
  }
  FILE *f = tmpfile();
  CHECK_EQ(CORD_put(big, f), 1);
  CHECK(same_as(CORD_from_file_eager(f), file_text, kFileLength));
  big = CORD_EMPTY;
  f = fopen(file_name, "r");
  CHECK_EQ(CORD_put("abc", f), EOF);
  fclose(f);

  run_in_thread(open_lazily, NULL);
  collect();
  for (size_t i = 0; i < 50; i++) closed += fcntl(descriptors[i], F_GETFD) < 0;
  CHECK_MOSTLY(closed, 50);
  remove(file_name);
}

/* ---- Formatted output ---- */

#define CHECK_FORMAT(...)                                             \
  do {                                                                \
    char expected[1000];                                              \
    CORD actual = CORD_EMPTY;                                         \
    const int length = sprintf(expected, __VA_ARGS__);                \
    CHECK_EQ(CORD_sprintf(&actual, __VA_ARGS__), length);             \
    CHECK_EQ(memcmp(CORD_to_char_star(actual), expected, length), 0); \
  } while (0)

static int vformat(CORD *out, CORD format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int result = CORD_vsprintf(out, format, arguments);
  va_end(arguments);
  return result;
}

static void formatted(void) {
  const CORD format = CORD_cat(CORD_chars('-', 100), "%d|%r");
  CORD x = CORD_EMPTY;
  char text[200];
  int count = 0;
  short short_count = 0;
  long long_count = 0;
  signed char char_count = 0;
  CHECK_FORMAT("plain");
  CHECK_FORMAT("%d %i %5d|%-5d|%05d|%+d|% d", 1, -2, 3, 4, 5, 6, 7);
  CHECK_FORMAT("%u %x %X %o %#x %#o", 1u, 0xabcu, 0xABCu, 8u, 255u, 8u);
  CHECK_FORMAT("%hhd %hd %ld %lld %zu %jd %td", (signed char)1, (short)2, 3l, 4ll, (size_t)5,
               (intmax_t)6, (ptrdiff_t)7);
  CHECK_FORMAT("%hhu %lu %llx %zx", (unsigned char)255, ~0ul, ~0ull, ~(size_t)0);
  CHECK_FORMAT("%f %e %g %a %8.3f %-10.2e|%Lf %LG", 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5L, 8.5L);
  CHECK_FORMAT("%s|%10s|%-10s|%.2s|%*s|%-*s|%.*s", "a", "b", "c", "def", 5, "g", 6, "h", 2, "ijk");
  CHECK_FORMAT("%*d %*d %.*d", 6, 1, -6, 2, -1, 3);
  CHECK_FORMAT("%p %c%c %%", (void *)&x, 'a', 'b');
  CHECK_FORMAT("%500d %.300f", 1, 1.0 / 3);
  CHECK_FORMAT("%c after", 0);

  CHECK_EQ(CORD_sprintf(&x, format, 42, CORD_cat("left ", "right")), 113);
  CHECK_EQ(CORD_str(x, 0, "-42|left right"), 99);
  CHECK_EQ(CORD_sprintf(&x, "%5r|%-5r|%.2r|%*r|%r", "ab", "cd", "efg", 4, "h", (CORD)CORD_EMPTY),
           20);
  CHECK_EQ(CORD_cmp(x, "   ab|cd   |ef|   h|"), 0);
  CHECK_EQ(CORD_sprintf(&x, "%r%r", CORD_chars('x', 1000000), CORD_nul(5)), 1000005);
  CHECK_EQ(CORD_fetch(x, 999999), 'x');
  CHECK_EQ(CORD_fetch(x, 1000000), 0);
  CHECK_EQ(CORD_sprintf(&x, "abc%nde%hnf%lng%hhn", &count, &short_count, &long_count, &char_count),
           7);
  CHECK_EQ(count, 3);
  CHECK_EQ(short_count, 5);
  CHECK_EQ(long_count, 6);
  CHECK_EQ(char_count, 7);
  CHECK_EQ(vformat(&x, "%s-%r", "one", "two"), 7);
  CHECK_EQ(CORD_cmp(x, "one-two"), 0);

  x = "unchanged";
  CHECK_EQ(vformat(&x, "%"), -1);
  CHECK_EQ(vformat(&x, "%5"), -1);
  CHECK_EQ(vformat(&x, "%y", 1), -1);
  CHECK_EQ(CORD_cmp(x, "unchanged"), 0);

  FILE *f = tmpfile();
  CHECK_EQ(CORD_fprintf(f, "%r %d\n", "number", 7), 9);
  rewind(f);
  CHECK(fgets(text, sizeof text, f) != NULL);
  CHECK_EQ(strcmp(text, "number 7\n"), 0);
  fclose(f);
  CHECK_EQ(CORD_printf("%r\n", "printed"), 8);
}

/* ---- Extensible cords ---- */

static void extensible(void) {
  CORD_ec x;
  CORD_ec_init(x);
  CHECK(CORD_ec_to_cord(x) == CORD_EMPTY);
  for (int i = 0; i < 10000; i++) CORD_ec_append(x, (char)('a' + i % 3));
  CORD_ec_append_cord(x, CORD_chars('z', 50));
  CORD_ec_append(x, '\0');
  CORD_ec_append(x, 'e');
  CORD result = CORD_balance(CORD_ec_to_cord(x));
  CHECK_EQ(CORD_len(result), 10052);
  for (int i = 0; i < 10000; i++) CHECK_EQ(CORD_fetch(result, (size_t)i), 'a' + i % 3);
  CHECK_EQ(CORD_fetch(result, 10049), 'z');
  CHECK_EQ(CORD_fetch(result, 10050), 0);
  CHECK_EQ(CORD_fetch(result, 10051), 'e');
}

/* ---- Failures ---- */

static void no_memory(void) { _exit(7); }

static void ask_too_much(void) {
  CORD_oom_fn = no_memory;
  CORD_to_char_star(CORD_chars('x', (size_t)1 << 60));
}
static void ask_too_much_by_default(void) { CORD_to_char_star(CORD_chars('x', (size_t)1 << 60)); }
static void fetch_outside(void) { CORD_fetch("abc", 3); }
static void overflow(void) { CORD_cat(CORD_chars('x', ~(size_t)0), CORD_chars('y', 100)); }

/* Runs fn in a child and returns how that ended; its messages go to *message. */
static int status_of(void (*fn)(void), char message[500]) {
  int ends[2], status = -1;
  CHECK_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    fn();
    _exit(0);
  }
  close(ends[1]);
  ssize_t length = read(ends[0], message, 499);
  message[length > 0 ? length : 0] = '\0';
  CHECK_EQ(waitpid(child, &status, 0), child);
  while (read(ends[0], message + 499, 1) > 0) {
  }
  close(ends[0]);
  return status;
}

static void failures(void) {
  char message[501];
  int status = status_of(ask_too_much, message);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  status = status_of(ask_too_much_by_default, message);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  status = status_of(fetch_outside, message);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(strstr(message, "CORD_fetch") != NULL);
  status = status_of(overflow, message);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(strstr(message, "CORD_cat") != NULL);
}

int main(void) {
  GC_set_handle_fork(1);
  GC_INIT();
  basics();
  against_model();
  one_sided();
  growing_leaves();
  files();
  formatted();
  extensible();
  failures();
  CORD_dump(CORD_cat(CORD_chars('x', 100), "tail"));
  return check_result();
}
