/* HOMFLY polynomials of closed braids: libhomfly initialises the collector at each call and
   allocates its polynomials in it. */
#include <homfly.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_CROSSINGS 64
#define MAX_STRANDS 8

/* The closure of the braid word: letter i crosses the strands i and i + 1 (negative: the other
   way). Printed in the library's notation: components, then for each its passages (crossing, over 1
   or under -1), then each crossing with its hand. */
static void closed_braid(const int *word, int letters, int strands, char *text, size_t room) {
  int visited[MAX_STRANDS] = {0};
  int components = 0, at = 0, start, i;
  char body[4096];
  body[0] = 0;
  for (start = 0; start < strands; start++) {
    char passages[2048];
    int used = 0, count = 0, strand = start;
    if (visited[start]) continue;
    components++;
    do {
      visited[strand] = 1;
      for (i = 0; i < letters; i++) {
        int low = abs(word[i]) - 1;
        if (strand != low && strand != low + 1) continue;
        /* The strand that comes from the left goes over in a positive crossing. */
        used += snprintf(passages + used, sizeof passages - (size_t)used, " %d %d", i,
                         (strand == low) == (word[i] > 0) ? 1 : -1);
        count++;
        strand = strand == low ? low + 1 : low;
      }
    } while (strand != start);
    at += snprintf(body + at, sizeof body - (size_t)at, " %d%s", count, passages);
  }
  for (i = 0; i < letters; i++)
    at += snprintf(body + at, sizeof body - (size_t)at, " %d %d", i, word[i] > 0 ? 1 : -1);
  snprintf(text, room, "%d%s", components, body);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  int word[MAX_CROSSINGS];
  char text[4200];
  int round, letters, strands, i;
  for (strands = 2; strands <= 5; strands++)
    for (letters = strands; letters <= 20; letters += strands - 1) {
      unsigned long checksum = 0;
      for (i = 0; i < letters; i++) {
        int letter = 1 + i % (strands - 1);
        word[i] = strands > 2 && letter % 2 == 0 ? -letter : letter;
      }
      closed_braid(word, letters, strands, text, sizeof text);
      for (round = 0; round < rounds; round++) {
        char *copy = NULL, *result;
        if (asprintf(&copy, "%s", text) < 0) return 1;
        result = homfly_str(copy);
        for (i = 0; result[i]; i++) checksum = checksum * 31 + (unsigned char)result[i];
        if (round == 0) printf("%d strands, %d crossings:%s\n", strands, letters, result);
        free(copy);
      }
      printf("%lx\n", checksum);
    }
  return 0;
}
