"""Wrong inputs of the commands: one line that names what is wrong, and exit code 2."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from driftbandits import store
from driftbandits.cli.commands import BAD_USAGE, DONE, run
from driftbandits.evaluate import read_log, write_log

HEAD = "age,shown,p,clicked"
ROWS = [f"{20 + i},{'tea' if i % 2 else 'mate'},0.5,{i % 3 // 2}" for i in range(60)]
TABLE = "\n".join([HEAD, *ROWS]) + "\n"
COLUMNS = ["--context", "age", "--arm", "shown", "--reward", "clicked"]
NAMED = [*COLUMNS, "--propensity", "p"]
INTO = ["--store", "sqlite:///s.db", "--policy", "random"]


def cell(column: str, value: str) -> str:
    """The table with another value in its third row."""
    cells = ROWS[2].split(",")
    cells[HEAD.split(",").index(column)] = value
    return "\n".join([HEAD, *ROWS[:2], ",".join(cells), *ROWS[3:]])


FILES: dict[str, str | bytes] = {
    "good.csv": TABLE,
    "empty.csv": "",
    "header.csv": HEAD,
    "latin.csv": TABLE.replace("tea", "thé").encode("latin-1"),
    "text.csv.gz": TABLE,
    "cut.csv.gz": gzip.compress(TABLE.encode())[:120],
    "twice.csv": "\n".join(f"{row},{row}" for row in TABLE.split()),
    "ragged.csv": f"{TABLE}23,tea,0.5,1,7,8",
    "zero.csv": cell("p", "0"),
    "above.csv": cell("p", "1.5"),
    "gap.csv": cell("p", ""),
    "often.csv": cell("p", "often"),
    "infinite.csv": cell("clicked", "1e400"),
    "long.csv": cell("shown", "x" * 2000),
    "digits.csv": cell("age", "9" * 40),
    "silent.csv": "\n".join([HEAD, *(row[:-1] for row in ROWS)]),
    "no.parquet": "nope",
    "no.json": "{",
    "kind.json": '{"context": {"age": "nummer"}}',
    "bytes.json": b"\xff\xfe",
    "table.xlsx": "",
    "no.toml": "[experiment",
    "no.db": "no database at all",
}
EVALUATE = ["evaluate", "good.csv", *NAMED, "--policy", "random"]
IMPORT = ["log", "import", "good.csv", *NAMED, *INTO]
TUNE = ["tune", "--dim", "2", "--horizon", "10"]

CASES: list[tuple[list[str], str]] = [
    (["fly"], "No such command 'fly'."),
    (["polices"], "Did you mean 'policies'?"),
    (["policies", "d-glubc"], "perhaps D-GLUCB"),
    (["policies", "D-GLUCB", "x"], "it must be one of SW-GLUCB"),
    # evaluate: the file
    (["evaluate"], "Missing argument 'LOG'."),
    (["evaluate", "nothing.csv"], "there is no file 'nothing.csv'"),
    (["evaluate", "."], "there is no file '.'"),
    *(
        (["evaluate", name, *NAMED], message)
        for name, message in {
            "empty.csv": "'empty.csv' must be a readable table, saved as UTF-8",
            "header.csv": "header.csv must have at least one row; got none",
            "latin.csv": "'latin.csv' must be a readable table, saved as UTF-8",
            "text.csv.gz": "'text.csv.gz' must be a readable table, .*Not a gzipped file",
            "cut.csv.gz": "'cut.csv.gz' must be a readable table",
            "twice.csv": "arm: twice.csv must have one column 'shown'; it has more",
            "ragged.csv": "'ragged.csv' must be .* with a value for each column in every row",
            "digits.csv": "'digits.csv' must be a readable table, .*at column 'age'",
            "zero.csv": "propensity must be above 0 and at most 1; row 3 has 0. Give",
            "above.csv": "propensity must be above 0 and at most 1; row 3 has 1.5",
            "gap.csv": "propensity: column 'p' .* must have a value in every row; row 3 has none",
            "often.csv": "propensity: column 'p' .* must hold finite numbers .*; row 3 has 'often'",
            "infinite.csv": "reward: column 'clicked' .* must hold finite .*; row 3 has inf",
            "silent.csv": "log must have at least one known reward; got none in 60 rounds",
            "long.csv": "arms must have ids of at most 1024 characters; got 2000",
            "table.xlsx": "path must end in .parquet, .csv, .* or .jsonl; got 'table.xlsx'",
            "no.json": "context, arm, reward, propensity must not be given: 'no.json' is no table",
        }.items()
    ),
    (["evaluate", "no.json"], "line 1 of 'no.json'"),
    (["evaluate", "no.parquet"], "path must be a Parquet file; 'no.parquet' is not"),
    # evaluate: the columns and options
    (["evaluate", "good.csv"], "context, arm and reward must name columns of the table 'good.csv'"),
    ([*EVALUATE, "--context", "agee"], "context must name a column .*'agee', perhaps age"),
    ([*EVALUATE, "--context", "clicked"], "context must be what was known before the decision"),
    ([*EVALUATE, "--arm", ""], "arm must name a column of good.csv; got ''"),
    ([*EVALUATE, "--propensity", "nan"], "propensity must be a finite number; got nan"),
    ([*EVALUATE, "--time", "shown"], "time: column 'shown' must be a time such as .*; got"),
    ([*EVALUATE, "--event-id", "p"], "event_id must differ from row to row; got '0.5' twice"),
    ([*EVALUATE, "--features", "none"], "Invalid value for '--features': File 'none' does not"),
    ([*EVALUATE, "--features", "kind.json"], "--features: kind.json: .*'nummer', perhaps number"),
    ([*EVALUATE, "--features", "bytes.json"], "--features: bytes.json: "),
    (
        [*EVALUATE, "--policy", "Logisticucb"],
        "'--policy': .*, perhaps LogisticUCB",
    ),
    ([*EVALUATE, "--policy", "D-GLUCB"], "D-GLUCB needs discount="),
    ([*EVALUATE, "--discount", "1.5"], "discount must be a finite number .*; got 1.5"),
    ([*EVALUATE, "--reward-kind", "stars"], "--reward-kind: reward must be one of click"),
    ([*EVALUATE, "--level", "95"], "Invalid value for '--level': 95.0 is not in the range"),
    ([*EVALUATE, "--windows", "1e5"], "Invalid value for '--windows'"),
    ([*EVALUATE, "--seed", "9" * 30], "seed must be an integer from 0 to"),
    ([*EVALUATE, "--of", "news"], "--of is for a store; a file has one log"),
    (["evaluate", "sqlite:///none.db", "--of", "x"], "the log: there is no store 'none.db'"),
    (["evaluate", "sqlite:///s.db"], "--of must name the policy whose log to read"),
    (["evaluate", "mysql://x/y", "--of", "x"], "store must be an address like sqlite:///FILE"),
    # log
    (["log", "export", "good.csv", "x.csv", *COLUMNS], "--propensity must be given to keep a log"),
    (["log", "export", "sqlite:///s.db", "x.csv", *COLUMNS, "--policy", "a"], "--context is for"),
    (["log", "export", "sqlite:///s.db", "x.json", "--policy", "b"], "policy must be one of news"),
    (["log", "export", "good.csv", "x.xls", *NAMED], "path must end in .parquet"),
    (["log", "export", "vectors.parquet", "x.csv"], "CSV holds tables, and this log has vectors"),
    ([*IMPORT, "--as", "news"], "--as must be the name of a new policy; 'news' is in the store"),
    ([*IMPORT, "--as", "n m"], "--as must be 1 to 100 characters of A-Z .*; got 'n m'"),
    ([*IMPORT, "--as", "b", "--half-life-s", "nan"], "'--half-life-s': nan is not a finite number"),
    (
        [*IMPORT, "--as", "b", "--policy", "auto", "--window-s", "9"],
        "--window-s has no effect on auto",
    ),
    ([*IMPORT, "--as", "b", "--store", "b.db"], "store must be an address .*; got 'b.db'"),
    ([*IMPORT, "--as", "b", "--event-id", "name"], "event_id must name a column"),
    (["log", "prune", *INTO, "--before-days", "nan"], "'--before-days': nan is not a finite"),
    (["log", "prune", *INTO, "--before-days", "9"], "there is no policy 'random'"),
    # simulate, tune, run and others
    (["simulate", "--environment", "abrubt2d"], "--environment must be one of .*perhaps abrupt2d"),
    (["simulate", "--policy", "foo"], "Invalid value for '--policy'"),
    (["simulate", "--horizon", "3"], "environment.horizon must be an integer of at least 6"),
    (["simulate", "--horizon", "9" * 15, "--policy", "random"], "a number is too large: "),
    (["simulate", "--bonus-scale", "inf"], "'--bonus-scale': inf is not a finite number"),
    (["tune", "--dim", "2"], "Missing option '--horizon'."),
    ([*TUNE, "--changes", "99"], "changes must be less than"),
    ([*TUNE, "--horizon", "9" * 400], "a number is too large: "),
    ([*TUNE, "--link", "probit"], "link must be one of binomial, identity, logistic, poisson"),
    ([*TUNE, "--S", "nan"], "S must be a finite number greater than 0; got nan"),
    (["run"], "Missing argument 'FILE'."),
    (["run", "nothing.toml"], "nothing.toml: No such file or directory"),
    (["run", "no.toml"], "no.toml: not a TOML file"),
    (["run", "abrupt2d", "--runs", "0"], "Invalid value for '--runs'"),
    (["run", "abrupt2d", "--out", "good.csv"], "Invalid value for '--out'"),
    (["run", "abrupt2d", "--workers", "2", "--cluster", "tcp://x:1"], "--workers is for this"),
    (["run", "abrupt2d", "--cluster", "nowhere"], "--cluster must be tcp://HOST:PORT"),
    (["report", "nowhere"], "Invalid value for 'DIRECTORY': Directory 'nowhere' does not"),
    (["bench", "--task", "none.toml"], "none.toml: No such file or directory"),
    (["keys", "revoke", "abc", "--store", "sqlite:///s.db"], "ID must be that of a key in use"),
    (["verify", "--store", "sqlite:///none.db"], "--store: there is no store 'none.db'"),
    (
        ["backup", "--store", "sqlite:///s.db", "--to", "sqlite:///s.db"],
        "a backup goes into",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    columns = {"context": ["age"], "arm": "shown", "reward": "clicked", "propensity": "p"}
    write_log(read_log(folder / "good.csv", **columns), folder / "vectors.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run([*IMPORT, "--as", "news"]) == DONE
    return folder


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=[" ".join(a)[:70] for a, _ in CASES])
def test_a_wrong_input_is_one_line_and_code_2(arguments, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    assert run(arguments) == BAD_USAGE
    out, err = capsys.readouterr()
    *warnings, line = err.splitlines()
    assert not out
    assert all(warning.startswith("Warning: ") for warning in warnings)
    assert line.startswith("Error: ")
    assert re.search(message, line), line
    assert sorted(path.name for path in folder.iterdir()) == before
    with store.open("sqlite:///s.db") as opened, opened.read() as session:
        assert session.policies() == ["news"]
