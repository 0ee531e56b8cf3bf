"""docs/decisions: few, short, and each states its decision in the title."""

from pathlib import Path

FILES = sorted(Path(__file__).parents[1].glob("docs/decisions/*"))


def test_records_are_few_short_and_begin_with_their_decision():
    for path in FILES:
        text = path.read_text()
        assert text.startswith("# "), path
        assert len(text.split()) < 500, path
    assert 0 < len(FILES) <= 20
    assert len({path.name[:2] for path in FILES}) == len(FILES)
