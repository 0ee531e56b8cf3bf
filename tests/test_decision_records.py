"""docs/decisions: few, short, and each states its decision in the title."""

from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parents[1].glob("docs/decisions/*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_record_is_half_a_page_and_begins_with_its_decision(path):
    text = path.read_text()
    assert text.startswith("# ")
    assert len(text.split()) < 500


def test_the_records_can_be_read_in_an_hour():
    assert 0 < len(FILES) <= 20
    assert len({path.name[:2] for path in FILES}) == len(FILES)
