"""Where the part of `live` that one shard writes ends, and how that tells a `live` that was made anew.

The rules of this file
----------------------
* Within one topic offsets only rise; in a topic made anew they begin at 0. Nobody but the shard writes to its partition
  of `live`. So the first record of ours that another `live` takes gets an offset that the former has passed, and it is
  known before the transaction ends, without a question. Differences alone are never seen in it.
* Records that go out in one transaction stand one behind the other, so the offset of the last one tells that of the
  first: one answer is asked for, not one per record.
* Before that record there may be the marker of one transaction: the last one, made known to `live` when there was
  another already. A first release has more than one record, k of them at least, so the former had passed that too.
  (Where whole QI groups are published, or cells, a first release may have one record: then it is not seen here, and the
  topics' ids tell, at the next question.)
* Where the former held nothing, nothing is missed in the new one.
* The end is read before a take-over asks for the topics' ids: a `live` made anew before that question has another id,
  one that is made anew later has another end.
* Not seen: a `live` made anew after its records were taken (its id tells, at the next question), and one into which
  somebody else has written as much as the former held (likewise).
"""

from __future__ import annotations


class LiveEnd:
    """The offset behind all records that a shard's part of `live` is known to hold.

    >>> end = LiveEnd(7)
    >>> end.took(8), end.offset, end.fell
    (None, 9, False)
    >>> end.took(0), end.took(1), end.fell
    (None, None, True)
    >>> end = LiveEnd(7)
    >>> end.took(9, count=3), end.fell  # 7, 8, 9
    (None, False)
    >>> end.took(12, count=4), end.fell
    (None, True)
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.fell = False
        """Whether a record was taken at an offset that had been passed: `live` is another topic."""

    def took(self, offset: int, count: int = 1) -> None:
        """Takes note of the offset of the last of `count` records; one below 0 where Kafka has not told it."""
        self.fell = self.fell or offset - (count - 1) < self.offset
        self.offset = offset + 1
