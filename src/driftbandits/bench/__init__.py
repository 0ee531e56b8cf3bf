"""A benchmark of real decisions that drift: everybody plays the same rows in the same order.

    driftbandits bench --quick
    driftbandits bench --entries mine.py --task phishing

A task is a TOML file over a table that an installed package carries or that the user has. An entry
is a function `make(facts, seed)` whose object has `decide(context, arms)`, which returns an index
into the ids of the arms on offer, and `update(index, reward)`.
"""

from driftbandits.bench.entries import OURS, NotPlayed, entries_of
from driftbandits.bench.running import Result, load, run_bench, save
from driftbandits.bench.scores import overall_table, score_rows, task_table
from driftbandits.bench.tasks import Facts, Task, TaskFile, read_task, task_files

__all__ = [
    "OURS",
    "Facts",
    "NotPlayed",
    "Result",
    "Task",
    "TaskFile",
    "entries_of",
    "load",
    "overall_table",
    "read_task",
    "run_bench",
    "save",
    "score_rows",
    "task_files",
    "task_table",
]
