"""What a result says on a prompt and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamer.shown import Grid, Picture, Shape, Shown


class Said(Shown):
    def lines(self) -> Iterator[Shape]:
        yield "a <sentence>"
        yield {"rows": 1234, "QI groups": "none"}
        yield Grid("k", "what", rows=[("3", "a"), ("20",)])
        yield Grid("name", "loss", rows=[("age", "0.5"), ("sex", "0.125")], bare=True)
        yield Picture("Sizes", 'data:image/svg+xml;base64,"')


def test_a_prompt_shows_sentences_facts_and_tables_in_columns() -> None:
    assert repr(Said()).splitlines() == [
        "a <sentence>",
        "     rows  1,234",
        "QI groups  none",
        " k  what",
        " 3  a",
        "20",
        "name   loss",
        "age     0.5",
        "sex   0.125",
    ]


def test_a_notebook_shows_the_same_and_pictures_and_nothing_is_markup() -> None:
    show: Callable[[], str] = getattr(Said(), "_repr_html_")  # noqa: B009
    html = show()
    assert "<p>a &lt;sentence&gt;</p>" in html
    assert "<tr><th>rows</th><td>1,234</td></tr>" in html
    assert html.count("<table>") == 3
    assert 'src="data:image/svg+xml;base64,&quot;"' in html
