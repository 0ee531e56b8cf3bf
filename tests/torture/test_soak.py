"""The hour at half load in small: its program plays, and says what memory did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow  # it plays for as many seconds as it says
def test_a_few_seconds_of_the_hour_at_half_load():
    """Whether memory has grown is not asked of so short a time."""
    soak = [sys.executable, str(Path(__file__).with_name("soak.py"))]
    few = [*soak, "--minutes", "0.15", "--pairs-per-second", "50"]
    played = subprocess.run(few, check=False, capture_output=True, text=True)
    assert played.stdout.count(" MiB\n") >= 8, played.stderr
    told = played.stdout.strip().split("\n")[-2:]
    assert re.fullmatch(r"450 pairs in \d+ s, \d+ a second, p99 [\d.]+ ms", told[0]), played.stderr
    assert re.fullmatch(r"memory: .* MiB in the second quarter, .* MiB in the last", told[1])
