"""Many short lives of a server: each is a fork of one process that has imported everything.

What a life reads, writes and says is that of `driftbandits serve`; only the seconds that an
interpreter takes to start are spared, a thousand times. Run as a program this is the process that
is forked: once for every store that it is told.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from servers import wait_until, wait_until_ready


class Lives:
    """The process of which every server is a fork."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def begin(self, store: str) -> Life:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(store, file=self._process.stdin, flush=True)
        told = [self._process.stdout.readline() for _ in range(3)]
        return Life(int(told[0]), re.search(r"http://\S+", told[1])[0])  # type: ignore[index]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Life:
    """A server, until it is killed."""

    def __init__(self, pid: int, address: str) -> None:
        self._pid = pid
        self.address = address
        wait_until_ready(address)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{self._pid}").exists())


def fork_for_every_store() -> None:

    import driftbandits as db
    from driftbandits.cli import main

    # So that every life finds its kernels in memory.
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2))
    agent.update(agent.decide([[0.6, 0.1], [0.2, 0.5]]), 1.0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need no one to wait for them
    for store in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            print(os.getpid(), flush=True)
            sys.argv = [
                "driftbandits",
                "serve",
                "--store",
                store.strip(),
                "--port",
                "0",
                "--no-auth",
            ]
            main()


if __name__ == "__main__":
    fork_for_every_store()
