"""A file is there whole or not at all."""

import subprocess
import sys

import pytest

from driftbandits.checks import PART, whole_file, write_whole


def test_nothing_appears_before_all_of_it_is_written(tmp_path):
    path = tmp_path / "file"
    with whole_file(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"
    write_whole(path, b"new and longer")
    assert path.read_bytes() == b"new and longer"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def break_off() -> None:
        with whole_file(path) as file:
            file.write(b"ne")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        break_off()
    with pytest.raises(FileNotFoundError, match=r"no such folder: '.*nowhere'$"):
        write_whole(tmp_path / "nowhere" / "file", b"")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


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
    (part,) = (path for path in tmp_path.iterdir() if path.name.endswith(PART))
    assert part.read_bytes() == b"ne"
