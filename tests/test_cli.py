"""The commands: what they print, how they fail, and that they leave with a code scripts can use."""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from driftbandits import experiments
from driftbandits.cli.commands import BAD_USAGE, DONE, FAILED, INTERRUPTED, run
from driftbandits.experiments import REPRODUCED, load, run_experiment
from driftbandits.jit import cache
from experiment_checks import (
    LONG,
    PATIENCE,
    assert_same_results,
    complaints,
    driftbandits,
    finished_blocks,
    small,
    start,
    toml,
    wait_until,
)

COMMANDS = ("reproduce", "run", "report", "policies", "tune", "simulate", "evaluate", "log")
LONG_COMMANDS = (*COMMANDS, "log import", "log export", "serve", "keys create", "bench")


def said(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    captured = capsys.readouterr()
    return captured.out.splitlines(), complaints(captured.err)


def test_help_says_what_every_option_is_and_shows_an_example(capsys):
    for command in LONG_COMMANDS:
        assert run([*command.split(), "--help"]) == DONE
        out, err = said(capsys)
        assert not err
        assert any(line.strip().startswith(f"driftbandits {command}") for line in out), command
        flags = [" ".join(out[i : i + 2]) for i, line in enumerate(out) if line[:4] == "  --"]
        for option in flags:
            assert re.search(r" {2,}[A-Z]", option[2:]), f"{command}: {option}"


@pytest.mark.parametrize(
    ("group", "commands"), [([], COMMANDS), (["log"], ("import", "export")), (["keys"], ("list",))]
)
def test_without_a_command_there_is_help(group, commands, capsys):
    assert run(group) == DONE
    text = "\n".join(said(capsys)[0])
    assert all(command in text for command in commands)


def test_help_does_not_wait_for_what_it_does_not_need():
    program = (
        "import sys\n"
        "from driftbandits.cli.commands import run\n"
        f"assert not any(run([*command.split(), '--help']) for command in {LONG_COMMANDS})\n"
        "heavy = {'numba', 'numpy', 'polars', 'matplotlib', 'distributed', 'apsw'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    out, err = start("-c", program).communicate()
    assert (out.splitlines()[-1], err) == ("[]", "")


def test_the_package_can_be_run_as_a_module():
    from driftbandits import __version__

    program = start("-m", "driftbandits", "--version")
    out, err = program.communicate()
    assert (program.returncode, err) == (DONE, "")
    assert out.strip().endswith(__version__)


def test_without_click_one_line_names_the_extra(tmp_path):
    # A package that fails like one that is not there: the real one is in the way.
    program = "import sys\nsys.modules['click'] = None\nfrom driftbandits.cli import main\nmain()"
    done = start("-c", program)
    _, err = done.communicate()
    assert done.returncode == FAILED
    assert err == "Error: the commands need click: pip install 'driftbandits[all]'\n"


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        ("polars", ["run", "{file}", "--out", "{out}"], "Results need polars"),
        (
            "distributed",
            ["run", "{file}", "--out", "{out}", "--cluster", "tcp://127.0.0.1:1"],
            "A cluster needs distributed",
        ),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(package, arguments, message, tmp_path):
    file = toml(tmp_path, runs=1)
    filled = [text.format(file=file, out=tmp_path) for text in arguments]
    program = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from driftbandits.cli.commands import run\n"
        f"sys.exit(run({filled!r}))"
    )
    done = start("-c", program)
    _, err = done.communicate()
    assert done.returncode == FAILED
    assert complaints(err) == [f"Error: {message}: pip install 'driftbandits[all]'"]


def test_a_bad_spec_is_one_line_and_code_2(capsys, tmp_path):
    file = toml(tmp_path)
    file.write_text(file.read_text(encoding="utf-8").replace("every", "evry"), encoding="utf-8")
    assert run(["run", str(file), "--out", str(tmp_path)]) == BAD_USAGE
    (line,) = said(capsys)[1]
    assert line.startswith(f"Error: {file}: experiment.evry: unknown key, perhaps every; allowed:")


def test_a_spec_that_no_policy_can_play_is_one_line_and_code_2(capsys, tmp_path):
    file = toml(tmp_path)
    text = file.read_text(encoding="utf-8").replace('"intercept" = true', '"L" = 0.1')
    file.write_text(text, encoding="utf-8")
    arguments = ["run", str(file), "--out", str(tmp_path), "--workers", "1"]
    assert run(arguments) == BAD_USAGE
    (line,) = said(capsys)[1]
    assert line.startswith("Error: actions of round 1 are longer than L = 0.1")
    with pytest.raises(ValueError, match="are longer than L"):
        run(["--traceback", *arguments])


def test_run_plays_a_file_and_prints_where_the_results_are(capsys, tmp_path):
    file = toml(tmp_path)
    arguments = ["run", str(file), "--out", str(tmp_path / "out"), "--workers", "1"]
    assert run([*arguments, "--runs", "2"]) == DONE
    folder = tmp_path / "out" / "small"
    assert said(capsys) == ([str(folder)], [])
    assert load(folder).runs["replicate"].n_unique() == 2
    assert run(arguments) == DONE
    assert_same_results(folder, run_experiment(small(), out=tmp_path / "whole"))


@pytest.mark.compiled
def test_run_knows_the_published_experiments_by_name(capsys, tmp_path):
    arguments = ["run", "abrupt2d-restart", "--runs", "1", "--out", str(tmp_path)]
    assert run([*arguments, "--workers", "1"]) == DONE
    assert said(capsys) == ([str(tmp_path / "abrupt2d-restart")], [])


@pytest.mark.compiled
@pytest.mark.parametrize(
    "wanted", [("abrupt2d",), pytest.param(REPRODUCED, marks=pytest.mark.slow)]
)
def test_reproduce_runs_the_experiments_and_writes_the_report(
    wanted,
    capsys,
    monkeypatch,
    tmp_path,
):
    monkeypatch.setattr(experiments, "REPRODUCED", wanted)
    out = tmp_path / "results"
    arguments = ["reproduce", "--runs", "1", "--out", str(out), "--workers", "1"]
    assert run(arguments) == DONE
    lines, err = said(capsys)
    assert (Path(lines[-1]).parent, err) == (out, [])
    assert Path(lines[-1]).is_file()
    run_now = {path.parent.name for path in out.glob("*/spec.json")}
    files = {name for name in wanted if not name.startswith("paired-pima")}
    sweeps = {name for name in files if name.startswith("growth")}
    assert files - sweeps <= run_now
    assert all(any(name.startswith(f"{sweep}-") for name in run_now) for sweep in sweeps)
    assert all(load(out / name).missing == 0 for name in run_now)


def test_report_is_written_from_results(capsys, tmp_path):
    run_experiment(small(runs=3), out=tmp_path)
    assert run(["report", str(tmp_path), "--title", "Mine"]) == DONE
    (line,), _ = said(capsys)
    assert "Mine" in Path(line).read_text(encoding="utf-8")


def test_policies_are_listed_with_their_citations(capsys):
    import driftbandits as db

    assert run(["policies"]) == DONE
    out, _ = said(capsys)
    text = "\n".join(out)
    for name in db.policy_names():
        assert name in text
    place = next(i for i, line in enumerate(out) if line.startswith("D-GLUCB"))
    assert out[place].split()[1:] == ["discount", "any", "link"]
    assert "ignores window" in out[place + 1]
    assert "Algorithm 2" in " ".join(out[place + 2 : place + 4])
    assert max(map(len, out)) <= 80


def test_without_a_terminal_an_experiment_ends_with_a_line(tmp_path):
    for new in (2, 0):
        file = toml(tmp_path, runs=2)
        process = start("-m", "driftbandits", "run", str(file), "--out", str(tmp_path / "out"))
        err = process.communicate()[1]
        assert process.returncode == DONE
        *_, last = [line for line in err.splitlines() if line.startswith("small: ")]
        assert last.startswith(f"small: 2 of 2 runs, {new} new, ")


@pytest.mark.parametrize(
    ("package", "statement", "extra"),
    [
        ("msgspec", "import driftbandits.client", "client"),
        ("uvicorn", "import driftbandits.service.server", "service"),
    ],
)
def test_an_import_that_misses_an_extra_names_it(package, statement, extra):
    done = start("-c", f"import sys\nsys.modules[{package!r}] = None\n{statement}")
    _, err = done.communicate()
    assert done.returncode == 1
    assert err.rstrip().endswith(f"need {package}: pip install 'driftbandits[{extra}]'")


def test_tune_prints_the_paper_s_numbers(capsys):
    assert run(["tune", "--dim", "2", "--horizon", "6000", "--changes", "3"]) == DONE
    rows = dict(line.strip().split("  ", 1) for line in said(capsys)[0] if "  " in line)
    rows = {name: value.strip() for name, value in rows.items()}
    assert rows["window tau"] == "252"
    assert rows["discount gamma"] == "0.996031"
    assert rows["D(gamma), rounds to forget"] == "1393.3"
    assert rows["regret bound, Theorem 1"] == "23860, more than the 6000 that can be lost"
    assert rows["regret bound, Theorem 2"] == "14683, more than the 6000 that can be lost"
    assert run(["tune", "--dim", "2", "--horizon", "6000"]) == DONE
    assert "bound" not in "\n".join(said(capsys)[0])


def test_simulate_prints_a_table_of_regret(capsys):
    import driftbandits as db

    chosen = ["--policy", "D-GLUCB", "--policy", "random"]
    assert run(["simulate", *chosen, "--runs", "2", "--horizon", "30", "--seed", "4"]) == DONE
    rows = {line.split()[0]: line.split() for line in said(capsys)[0] if line.strip()}
    players = {"D-GLUCB": db.policy("D-GLUCB", dim=2, horizon=30, changes=3)}
    world = db.environment("abrupt2d", horizon=30)
    regret = db.simulate(players, world, runs=2, seed=4).regret["D-GLUCB"][:, -1]
    assert rows["D-GLUCB"][1] == f"{regret.mean():.1f}"
    assert rows.keys() >= {"policy", "D-GLUCB", "random"}
    assert run(["simulate", *chosen, "--runs", "1", "--horizon", "30"]) == DONE


def test_a_terminal_gets_a_line_that_says_how_far_it_is(tmp_path):
    ours, theirs = os.openpty()
    arguments = ("run", toml(tmp_path, runs=5), "--out", tmp_path, "--workers", 1)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    program = start("-m", "driftbandits", *arguments, env=environment, terminal=theirs)
    os.close(theirs)
    shown = read_terminal(ours)
    program.communicate()
    assert program.returncode == DONE
    assert "\rsmall: 5 of 5 runs, 5 new, " in shown


def test_a_pipe_and_a_terminal_are_told_that_kernels_are_compiled(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cache, "cache_directory", lambda: tmp_path)
    cache.say_that_it_compiles("plain.decide")
    assert "compiling its kernels" in capsys.readouterr().err
    cache.say_that_it_compiles("plain.decide")
    assert capsys.readouterr().err == "", "who has just been told is not told again"
    os.utime(tmp_path / "announced", (0, 0))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    cache.say_that_it_compiles("plain.decide")
    first, second = capsys.readouterr().err.splitlines()
    assert ("compiling its kernels" in first, second) == (
        True,
        "driftbandits: compiling plain.decide",
    )


def read_terminal(descriptor: int) -> str:
    shown = b""
    try:
        while part := os.read(descriptor, 4096):
            shown += part
    except OSError:  # how a terminal says that nobody is at its other end
        pass
    os.close(descriptor)
    return shown.decode()


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    file = toml(tmp_path, runs=64, horizon=LONG)
    folder = tmp_path / "out" / "small"
    arguments: tuple[Any, ...] = ("run", file, "--out", folder.parent, "--workers", 2)
    program = driftbandits(*arguments)
    wait_until(lambda: finished_blocks(folder) or program.poll() is not None)
    os.killpg(program.pid, signal.SIGINT)  # what a terminal does
    _, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == INTERRUPTED
    assert complaints(err) == [
        "Error: interrupted; finished runs are kept, and the same command goes on from there"
    ]
    assert 0 < load(folder).missing < 64
    again = driftbandits(*arguments)
    again.communicate(timeout=PATIENCE)
    assert again.returncode == DONE
    assert load(folder).missing == 0
