"""Arrays in C: items, slices, fills, and arrays that a function makes.

An array is a struct {p, n, s}: its first item, lengths, and strides in items. Arrays of np.empty and its like lie in
the thread's *arena*, a stack of chunks (`runtime.h`). A function that returns no array gives back what it took when it
returns. The result of an entry is copied by its caller, who then empties the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.native.types import Array

Names = Callable[[Array], str]
Temps = Callable[[], str]
Cut = str | tuple[str, str] | None
"""The treatment of an axis: an index, the ends of a slice, or None: it is turned around."""


def place(base: str, of: Array, indexes: Sequence[str]) -> str:
    """Item `indexes` of an array, or the first one of what these leave, as something to be assigned."""
    last = of.n_dims - 1
    terms = [one if i == last and of.in_line else f"{one} * {base}.s[{i}]" for i, one in enumerate(indexes)]
    return f"{base}.p[{' + '.join(terms)}]"


def widened(text: str, code: str) -> str:
    """A number of an array or a record as it is loaded."""
    return text if code in ("i8", "u8", "f8") else f"(int64_t){text}"


def sliced(c: Names, base: str, of: Array, cuts: Sequence[Cut], temp: Temps) -> tuple[Array, str]:
    """A part of an array: its type and its C."""
    first, terms, lengths, strides = "", [f"{base}.p"], [], []
    for i in range(of.n_dims):
        cut, stride, length = cuts[i] if i < len(cuts) else ("", ""), f"{base}.s[{i}]", f"{base}.n[{i}]"
        if isinstance(cut, str):
            terms.append(f"{cut} * {stride}")
            continue
        if cut is None:
            terms.append(f"({length} - 1) * {stride}")
            stride = f"-{stride}"
        elif any(cut):
            begin, end = temp(), temp()
            first += f"int64_t {begin} = cut({cut[0] or '0'}, {length}), {end} = cut({cut[1] or length}, {length}); "
            terms.append(f"{begin} * {stride}")
            length = f"({end} > {begin} ? {end} - {begin} : 0)"
        lengths.append(length)
        strides.append(stride)
    is_part = len(cuts) < of.n_dims or isinstance(cuts[-1], tuple)  # of the last axis, in its order
    kind = Array(of.element, len(lengths), of.in_line and is_part)
    indexes = [one for one in cuts if isinstance(one, str)]
    start = f"&{place(base, of, indexes)}" if len(indexes) == len(cuts) else " + ".join(terms)
    made = f"({c(kind)}){{{start}, {{{', '.join(lengths)}}}, {{{', '.join(strides)}}}}}"
    return kind, f"({{ {first}{made}; }})" if first else made


def _at(name: str, of: Array, i: str) -> str:
    return place(name, of._replace(n_dims=1), [i])


def filled(c: Names, into: str, of: Array, value: str, value_of: Array | None, temp: Temps) -> str:
    """`into[...] = value`: an array of one dimension is filled with a number, or with the items of another one."""
    a, i = temp(), temp()
    loop = f"for (int64_t {i} = 0; {i} < {a}.n[0]; {i}++) {_at(a, of, i)} = "
    if value_of is None:
        return f"{{ {c(of)} {a} = {into}; {loop}{value}; }}"
    step = f"{_at(a, of, i)} = {value}.p[{i}];"
    back = f"if ((char *){a}.p > (char *){value}.p) for (int64_t {i} = {a}.n[0] - 1; {i} >= 0; {i}--) {step}"
    same = f"if (RARELY({a}.n[0] != {value}.n[0])) fail(SHAPES, __LINE__);"
    return f"{{ {c(of)} {a} = {into}; {same} {back} else {loop}{value}.p[{i}]; }}"


def made(c: Names, of: Array, sizes: Sequence[str], temp: Temps, item_of: Callable[[str], str] | None = None) -> str:
    """A new array of these lengths; item_of: what is put at each place; None: nothing."""
    name, i, total, lengths = temp(), temp(), temp(), [temp() for _ in sizes]
    first = " ".join(f"int64_t {length} = {size};" for length, size in zip(lengths, sizes, strict=True))
    strides = ", ".join(" * ".join(lengths[k + 1 :]) or "1" for k in range(len(lengths)))
    memory = f"taken({total}, {of.element.size})"
    fill = "" if item_of is None else f"for (int64_t {i} = 0; {i} < {total}; {i}++) {name}.p[{i}] = {item_of(i)};"
    return (
        f"({{ {first} int64_t {total} = product({len(sizes)}, (int64_t[]){{{', '.join(lengths)}}});"
        f" {c(of)} {name} = {{{memory}, {{{', '.join(lengths)}}}, {{{strides}}}}}; {fill} {name}; }})"
    )


def copied(c: Names, base: str, of: Array, temp: Temps, by: tuple[str, Array] | None = None) -> tuple[Array, str]:
    """A copy of an array of one dimension; by: of the items at these indexes."""
    a, x = temp(), temp()
    new, n = Array(of.element, 1, True), f"{a}.n[0]"
    first = f"{c(of)} {a} = {base};"
    if by is None:
        return new, f"({{ {first} {made(c, new, [n], temp, lambda i: _at(a, of, i))}; }})"
    text, by_of = by
    items = made(c, new, [f"{x}.n[0]"], temp, lambda i: _at(a, of, f"AT({_at(x, by_of, i)}, {n})"))
    return new, f"({{ {first} {c(by_of)} {x} = {text}; {items}; }})"
