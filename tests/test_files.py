"""A file is there whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from driftbandits.checks import PART, whole_file, write_whole


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(PART)]


def test_a_file_is_replaced_by_the_whole_new_one(tmp_path):
    path = tmp_path / "file"
    for content in (b"old", b"new and longer"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_appears_before_all_of_it_is_written(tmp_path):
    path = tmp_path / "file"
    with whole_file(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def break_off() -> None:
        with whole_file(path) as file:
            file.write(b"ne")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        break_off()
    assert path.read_bytes() == b"old"
    assert parts(tmp_path) == []


def test_a_program_that_dies_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    program = (
        "import os, sys\n"
        "from driftbandits.checks import whole_file\n"
        "with whole_file(sys.argv[1]) as file:\n"
        "    file.write(b'ne')\n"
        "    file.flush()\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    assert path.read_bytes() == b"old"
    assert [part.read_bytes() for part in parts(tmp_path)] == [b"ne"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "file", b"")
