/* What the C of every function uses: arithmetic as Python's and numpy's, memory, and how an entry ends early. */
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define EXPORTED __attribute__((visibility("default")))
#define RARELY(x) __builtin_expect(!!(x), 0)
#define CHOICE(S, T) \
static inline T max_##S(T a, T b) { return b > a ? b : a; } \
static inline T min_##S(T a, T b) { return b < a ? b : a; }
CHOICE(i8, int64_t) CHOICE(u8, uint64_t) CHOICE(f8, double)
static inline int64_t abs_i8(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
static inline double abs_f8(double a) { return fabs(a); }
static inline int64_t div_i8(int64_t a, int64_t b) {
  if (RARELY((uint64_t)b + 1 < 2)) return b ? (int64_t)(0 - (uint64_t)a) : 0;
  int64_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline int64_t mod_i8(int64_t a, int64_t b) {
  if (RARELY((uint64_t)b + 1 < 2)) return 0;
  int64_t r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0);
}
static inline uint64_t div_u8(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t mod_u8(uint64_t a, uint64_t b) { return b ? a % b : 0; }

enum { FINE, NO_MEMORY, OUTSIDE, SHAPES };
typedef struct Chunk { struct Chunk *before; int64_t room, used, unused; char data[]; } Chunk;
typedef struct { Chunk *chunk; int64_t used; } Mark;
static __thread Chunk *arena;
static __thread jmp_buf *entered;
static __thread int64_t failed_line;
__attribute__((noreturn, cold)) static void fail(int64_t status, int64_t line) {
  failed_line = line;
  longjmp(*entered, (int)status);
}
static inline Mark mark(void) { return (Mark){arena, arena ? arena->used : 0}; }
static void release(Mark m) {
  while (arena != m.chunk) { Chunk *gone = arena; arena = gone->before; free(gone); }
  if (arena) arena->used = m.used;
}
static void *taken(int64_t n, int64_t size) {
  int64_t bytes;
  if (n < 0 || __builtin_mul_overflow(n, size, &bytes) || bytes > INT64_MAX / 4) fail(NO_MEMORY, 0);
  bytes = (bytes + 63) & ~INT64_C(63);
  if (!arena || arena->used + bytes > arena->room) {
    int64_t room = bytes > (1 << 16) ? bytes : (1 << 16);
    Chunk *new = malloc(sizeof(Chunk) + room);
    if (!new) fail(NO_MEMORY, 0);
    new->before = arena; new->room = room; new->used = 0; arena = new;
  }
  void *at = arena->data + arena->used;
  arena->used += bytes;
  return at;
}
static inline int64_t product(int64_t n, const int64_t *sizes) {
  int64_t found = 1;
  for (int64_t i = 0; i < n; i++)
    if (sizes[i] < 0 || __builtin_mul_overflow(found, sizes[i], &found)) fail(NO_MEMORY, 0);
  return found;
}
EXPORTED int64_t PREFIX(line)(void) { return failed_line; }
EXPORTED void PREFIX(release)(void) { release((Mark){0, 0}); }
EXPORTED int64_t PREFIX(owns)(const char *p) {
  for (Chunk *one = arena; one; one = one->before)
    if (p >= one->data && p <= one->data + one->room) return 1;
  return 0;
}
static inline int64_t at_(int64_t i, int64_t n, int64_t line) {
#ifdef CHECKED
  if (i < 0 || i >= n) fail(OUTSIDE, line);
#endif
  return i;
}
#define AT(i, n) at_(i, n, __LINE__)
static inline int64_t cut(int64_t at, int64_t n) { if (at < 0) at += n; return at < 0 ? 0 : at > n ? n : at; }
