"""Arrays in C: items, slices, fills, and arrays that a function makes.

An array is a struct {p, n, s}: its first item, lengths, and strides in items. What np.empty and its like make lies in
the thread's *arena*, a stack of chunks (`runtime.h`). A function that returns no array gives back what it took when it
returns. What an entry returns is copied by its caller, who then empties the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.native.inference import Array

Names = Callable[[Array], str]
Temps = Callable[[], str]
Cut = str | tuple[str, str] | None
"""What is done along an axis: an index, the ends of a slice, or it is turned around."""


def place(base: str, of: Array, indexes: Sequence[str]) -> str:
    """Item `indexes` of an array, or the first one of what these leave, as something to be assigned."""
    last = of.n_dims - 1
    terms = [one if i == last and of.in_line else f"{one} * {base}.s[{i}]" for i, one in enumerate(indexes)]
    return f"{base}.p[{' + '.join(terms)}]"


def item(c: Names, base: str, of: Array, indexes: Sequence[str]) -> str:
    """Item `indexes`, or the array that they leave."""
    at, code, k = place(base, of, indexes), of.element.code, len(indexes)
    if k == of.n_dims:
        return f"(&{at})" if not code else widened(at, code)
    lengths, strides = (", ".join(f"{base}.{what}[{i}]" for i in range(k, of.n_dims)) for what in "ns")
    return f"({c(of._replace(n_dims=of.n_dims - k))}){{&{at}, {{{lengths}}}, {{{strides}}}}}"


def widened(text: str, code: str) -> str:
    """A number of an array or a record as it is loaded."""
    return text if code in ("i8", "u8", "f8") else f"(int64_t){text}"


def sliced(c: Names, base: str, of: Array, cuts: Sequence[Cut], temp: Temps) -> str:
    """A part of an array."""
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
    kind = c(of._replace(n_dims=len(lengths)))
    made = f"({kind}){{{' + '.join(terms)}, {{{', '.join(lengths)}}}, {{{', '.join(strides)}}}}}"
    return f"({{ {first}{made}; }})" if first else made


def _at(name: str, of: Array, i: str) -> str:
    return f"{name}.p[{i}]" if of.in_line else f"{name}.p[{i} * {name}.s[0]]"


def filled(c: Names, into: str, of: Array, value: str, value_of: Array | None, temp: Temps) -> str:
    """`into[...] = value`: an array of one dimension is filled with a number, or with the items of another one."""
    a, i = temp(), temp()
    loop = f"for (int64_t {i} = 0; {i} < {a}.n[0]; {i}++)"
    if value_of is None:
        return f"{{ {c(of)} {a} = {into}; {loop} {_at(a, of, i)} = {value}; }}"
    step = f"{_at(a, of, i)} = {_at(value, value_of, i)};"
    back = f"if ((char *){a}.p > (char *){value}.p) for (int64_t {i} = {a}.n[0] - 1; {i} >= 0; {i}--) {step}"
    same = f"if (RARELY({a}.n[0] != {value}.n[0])) fail(SHAPES, __LINE__);"
    if of.in_line and value_of.in_line:
        return f"{{ {c(of)} {a} = {into}; {same} {back} else {loop} {step} }}"
    # with other strides they may share items in any order: what is copied first is right
    b = temp()
    through = f"{c(value_of)} {b} = {copied(c, value, value_of, temp)}; {loop} {_at(a, of, i)} = {b}.p[{i}];"
    apart = f"if ({a}.s[0] != {value}.s[0]) {{ Mark m_ = mark(); {through} release(m_); }}"
    return f"{{ {c(of)} {a} = {into}; {same} {apart} else {back} else {loop} {step} }}"


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


def copied(c: Names, base: str, of: Array, temp: Temps, by: tuple[str, Array] | None = None) -> str:
    """A copy of an array of one dimension; by: of the items at these indexes."""
    a, x = temp(), temp()
    new, n = Array(of.element, 1, True), f"{a}.n[0]"
    first = f"{c(of)} {a} = {base};"
    if by is None:
        return f"({{ {first} {made(c, new, [n], temp, lambda i: _at(a, of, i))}; }})"
    text, by_of = by
    items = made(c, new, [f"{x}.n[0]"], temp, lambda i: _at(a, of, f"AT({_at(x, by_of, i)}, {n})"))
    return f"({{ {first} {c(by_of)} {x} = {text}; {items}; }})"
