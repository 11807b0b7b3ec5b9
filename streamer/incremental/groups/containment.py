"""Which boxes contain a tuple: one bit per box and bin of an attribute.

Every attribute's cells are coarsened to at most `BINS_MAX` *bins*. A bin has a row of bits, one for each box of the
index by its number there, set where the box reaches into the bin. The boxes that may contain a tuple are those set in
all of the tuple's d rows; where no attribute is coarsened (`exact`) they do contain it, else the caller looks at the
cells.
"""

from __future__ import annotations

import numpy as np

from streamer.table.arrays import Bits, Ints
from streamer.table.space import Space

BINS_MAX = 512
WORD = 64


class BoxBitmap:
    """The boxes of one shard as rows of bits; a question costs d * boxes / 64 word operations."""

    def __init__(self, space: Space) -> None:
        self._cells_per_bin: Ints = -(-space.n_cells // BINS_MAX)
        n_bins = -(-space.n_cells // self._cells_per_bin)
        self.exact = bool((self._cells_per_bin == 1).all())
        self._start: Ints = np.concatenate([[0], np.cumsum(n_bins)[:-1]]).astype(np.int64)
        self._bits = np.zeros((int(n_bins.sum()), 1), dtype=np.uint64)
        self._per_bin: list[int] = self._cells_per_bin.tolist()
        self._row: list[int] = self._start.tolist()

    def grow(self, n_boxes: int) -> None:
        """Makes room for the boxes below n_boxes."""
        words = -(-n_boxes // WORD)
        more = np.zeros((len(self._bits), words - self._bits.shape[1]), dtype=np.uint64)
        self._bits = np.hstack([self._bits, more])

    def mark(self, box: int, j: int, lo: int, hi: int) -> None:
        """The box covers the cells lo..hi of attribute j."""
        column = self._column(box, j, lo, hi)
        np.bitwise_or(column, np.uint64(1 << (box % WORD)), out=column)

    def clear(self, box: int, j: int, lo: int, hi: int) -> None:
        """Undoes `mark`."""
        column = self._column(box, j, lo, hi)
        np.bitwise_and(column, ~np.uint64(1 << (box % WORD)), out=column)

    def _column(self, box: int, j: int, lo: int, hi: int) -> Bits:
        row, per_bin = self._row[j], self._per_bin[j]
        return self._bits[row + lo // per_bin : row + hi // per_bin + 1, box // WORD]

    def candidates(self, cells: Ints) -> Ints:
        """The boxes whose bins contain cells (d,), ascending."""
        rows = self._start + (cells if self.exact else cells // self._cells_per_bin)
        words = np.bitwise_and.reduce(self._bits.take(rows, axis=0), axis=0)
        at: Ints = words.nonzero()[0]
        if not at.size:
            return at
        bit: Ints = np.unpackbits(words[at].view(np.uint8), bitorder="little").nonzero()[0]
        return at[bit // WORD] * WORD + bit % WORD
