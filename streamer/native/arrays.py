"""Arrays and memory in C: items, slices, copies, and what is allocated.

An array is a struct of its first item, lengths and strides in items. np.empty and its like take memory from the thread's
*arena*, a stack of chunks. A function that returns no array gives back what it took when it returns; what an entry
returns is copied by its caller, who then releases the arena. If memory runs out, or an index is outside under CHECKED,
the entry ends at once (longjmp) with a status that becomes an exception of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.native.inference import Array, Type

RUNTIME = r"""
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define EXPORTED __attribute__((visibility("default")))
#define RARELY(x) __builtin_expect(!!(x), 0)
#define CHOICE(S, T) \
static inline T max_##S(T a, T b) { return b > a ? b : a; } \
static inline T min_##S(T a, T b) { return b < a ? b : a; }
CHOICE(i, int64_t) CHOICE(u, uint64_t) CHOICE(d, double)
static inline int64_t abs_i(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
static inline double abs_d(double a) { return fabs(a); }
static inline int64_t div_i(int64_t a, int64_t b) {
  if (RARELY((uint64_t)b + 1 < 2)) return b ? (int64_t)(0 - (uint64_t)a) : 0;
  int64_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline int64_t mod_i(int64_t a, int64_t b) {
  if (RARELY((uint64_t)b + 1 < 2)) return 0;
  int64_t r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0);
}
static inline uint64_t div_u(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t mod_u(uint64_t a, uint64_t b) { return b ? a % b : 0; }

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
EXPORTED int64_t PREFIX(line)(void) { return failed_line; }
EXPORTED void PREFIX(release)(void) { release((Mark){0, 0}); }
EXPORTED int64_t PREFIX(owns)(const char *p) {
  for (Chunk *one = arena; one; one = one->before)
    if (p >= one->data && p <= one->data + one->room) return 1;
  return 0;
}
static inline int64_t at_(int64_t i, int64_t n, int64_t line) {
  if (i < 0) i += n;
#ifdef CHECKED
  if (i < 0 || i >= n) fail(OUTSIDE, line);
#endif
  return i;
}
#define AT(i, n) at_(i, n, __LINE__)
static inline int64_t cut(int64_t at, int64_t n) { if (at < 0) at += n; return at < 0 ? 0 : at > n ? n : at; }
"""

Names = Callable[[Type], str]
Temps = Callable[[], str]


def place(base: str, of: Array, indexes: Sequence[str]) -> str:
    """Item `indexes` of an array, or the first one of what these leave, as something to be assigned."""
    last = of.n_dims - 1
    terms = [one if i == last and of.in_line else f"{one} * {base}.s[{i}]" for i, one in enumerate(indexes)]
    return f"{base}.p[{' + '.join(terms)}]"


def item(c: Names, base: str, of: Array, indexes: Sequence[str]) -> str:
    """Item `indexes`, or the array that they leave."""
    at, code, k = place(base, of, indexes), of.element.code, len(indexes)
    if k == of.n_dims:
        return f"(&{at})" if not code else at if code in ("i8", "u8", "f8") else f"(int64_t){at}"
    rest = [", ".join(f"{base}.{what}[{i}]" for i in range(k, of.n_dims)) for what in "ns"]
    return f"({c(Array(of.element, of.n_dims - k, of.in_line))}){{&{at}, {{{rest[0]}}}, {{{rest[1]}}}}}"


def sliced(
    c: Names, base: str, of: Array, cuts: Sequence[str | tuple[str, str, bool]], temp: Temps
) -> str:
    """A part of an array; each of `cuts` is an index, or begin, end and whether it is turned around."""
    first, terms, lengths, strides = "", ["0"], [], []
    for i in range(of.n_dims):
        stride, length = f"{base}.s[{i}]", f"{base}.n[{i}]"
        one = cuts[i] if i < len(cuts) else ("0", length, False)
        if isinstance(one, str):
            terms.append(f"{one} * {stride}")
            continue
        begin, end, turned = one
        if turned:
            terms.append(f"({length} - 1) * {stride}")
            lengths.append(length)
            strides.append(f"-{stride}")
            continue
        if begin != "0" or end != length:
            name = temp()
            first += f"int64_t {name} = cut({begin}, {length}), {name}e = cut({end}, {length}); "
            terms.append(f"{name} * {stride}")
            length = f"({name}e > {name} ? {name}e - {name} : 0)"
        lengths.append(length)
        strides.append(stride)
    kind = c(Array(of.element, len(lengths), False))
    made = f"({kind}){{{base}.p + {' + '.join(terms)}, {{{', '.join(lengths)}}}, {{{', '.join(strides)}}}}}"
    return f"({{ {first}{made}; }})" if first else made


def filled(c: Names, into: str, of: Type, value: str, value_of: Type, temp: Temps) -> str:
    """`into[...] = value`: an array of one dimension is filled with a number, or with another array's items."""
    assert isinstance(of, Array)
    a, i = temp(), temp()
    if of.n_dims != 1:
        raise ValueError
    head = f"{c(of)} {a} = {into}; "
    if not isinstance(value_of, Array):
        number = f"{value} != 0" if of.element.code == "b1" else value
        return f"{head}for (int64_t {i} = 0; {i} < {a}.n[0]; {i}++) {a}.p[{i}{_step(a, of)}] = {number};"
    step = f"{a}.p[{i}{_step(a, of)}] = {value}.p[{i}{_step(value, value_of)}];"
    same = f"if (RARELY({a}.n[0] != {value}.n[0])) fail(SHAPES, __LINE__); "
    back = f"if ((char *){a}.p > (char *){value}.p) for (int64_t {i} = {a}.n[0] - 1; {i} >= 0; {i}--) {step} "
    return f"{head}{same}{back}else for (int64_t {i} = 0; {i} < {a}.n[0]; {i}++) {step}"


def _step(name: str, of: Array) -> str:
    return "" if of.in_line else f" * {name}.s[0]"


def _new(c: Names, of: Array, name: str, n: str) -> str:
    size = of.element.size
    return f"{c(of)} {name} = {{taken({n}, {size}), {{{n}}}, {{1}}}};"


def gathered(c: Names, base: str, of: Array, by: str, by_of: Type, temp: Temps) -> str:
    """The items of an array at the indexes in another."""
    assert isinstance(by_of, Array)
    made, x, a, i = temp(), temp(), temp(), temp()
    at = f"AT({x}.p[{i}{_step(x, by_of)}], {a}.n[0])"
    copy = f"{made}.p[{i}] = {a}.p[{at}{_step(a, of)}];"
    return (
        f"({{ {c(of)} {a} = {base}; {c(by_of)} {x} = {by}; {_new(c, Array(of.element, 1, True), made, f'{x}.n[0]')}"
        f" for (int64_t {i} = 0; {i} < {x}.n[0]; {i}++) {copy} {made}; }})"
    )


def copied(c: Names, base: str, of: Type, temp: Temps) -> str:
    """A copy of an array of one dimension."""
    assert isinstance(of, Array)
    made, a, i = temp(), temp(), temp()
    copy = f"for (int64_t {i} = 0; {i} < {a}.n[0]; {i}++) {made}.p[{i}] = {a}.p[{i}{_step(a, of)}];"
    return f"({{ {c(of)} {a} = {base}; {_new(c, Array(of.element, 1, True), made, f'{a}.n[0]')} {copy} {made}; }})"


def listed(c: Names, of: Array, items: Sequence[str], temp: Temps) -> str:
    """np.array((items))."""
    made = temp()
    stores = " ".join(f"{made}.p[{i}] = {one};" for i, one in enumerate(items))
    return f"({{ {_new(c, of, made, str(len(items)))} {stores} {made}; }})"


def allocated(c: Names, of: Array, sizes: Sequence[str], value: str, counts: bool, temp: Temps) -> str:
    """np.empty, zeros, ones, full (value: what it is filled with) or arange (counts)."""
    made, i, names = temp(), temp(), [temp() for _ in sizes]
    first = " ".join(f"int64_t {name} = {size};" for name, size in zip(names, sizes, strict=True))
    negative = " || ".join(f"{name} < 0" for name in names)
    total = f"{made}n"
    strides = ", ".join(" * ".join(names[k + 1 :]) or "1" for k in range(len(names)))
    size = of.element.size
    product = f"int64_t {total} = 1; " + " ".join(f"if ({negative} || __builtin_mul_overflow({total}, {name}, &{total})) fail(NO_MEMORY, 0);" for name in names)
    fill = f"for (int64_t {i} = 0; {i} < {total}; {i}++) {made}.p[{i}] = {i if counts else value};" if value or counts else ""
    if value == "0":
        fill = f"memset({made}.p, 0, {total} * {size});"
    return (
        f"({{ {first} {product} {c(of)} {made} = {{taken({total}, {size}), {{{', '.join(names)}}}, {{{strides}}}}};"
        f" {fill} {made}; }})"
    )
