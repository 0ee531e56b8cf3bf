"""Callers that repeat themselves, what they were told, and whether the log bears it out."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from driftbandits import store
from driftbandits.service.verifying import verify
from driftbandits.store.records import Decided, Rewarded, unpacked

POLICY = "/v1/policies/news"
CONFIGURATION = {"name": "D-GLUCB", "dim": 2, "discount": 0.95, "epsilon": 0.2, "seed": 3}
CALLERS = 3


def size_of_test(name: str, *, short: int) -> int:
    """`make torture` sets these; without it a test takes its short form."""
    return int(os.environ.get(f"TORTURE_{name}", short))


def offered(number: int) -> list[dict[str, Any]]:
    """The arms of an event, by its number."""
    return [
        {"id": "left", "x": [0.6, 0.1 * (number % 7)]},
        {"id": "right", "x": [0.2, 0.5]},
        {"id": "stay", "x": [-0.3, 0.1 * (number % 5)]},
    ]


def asking(event_id: str, number: int) -> dict[str, Any]:
    return {"event_id": event_id, "arms": offered(number)}


def record_kills(record: Callable[[str, object], None], kills: int, ledger: Ledger) -> None:
    """What its checks have shown, for the table of docs/service.md."""
    record("kills", kills)
    record("answers", ledger.answers.total())
    record("lost or doubled", 0)


class Ledger:
    """What was acknowledged, over all lives of a server."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.decisions: dict[str, dict[str, Any]] = {}
        self.rewards: dict[str, float] = {}
        self.learned: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()  # every answer stands for one event in the log

    def decided(self, event_id: str, answer: dict[str, Any]) -> None:
        with self._guard:
            self.answers[event_id] += 1
            assert self.decisions.setdefault(event_id, answer) == answer

    def rewarded(self, event_id: str, value: float, status: str) -> None:
        assert status in ("learned", "duplicate"), status
        with self._guard:
            self.answers[event_id] += 1
            self.learned[event_id] += status == "learned"
            self.rewards[event_id] = value

    def refused(self, event_id: str) -> None:
        with self._guard:
            self.answers[event_id] += 1

    def check(self, url: str) -> str:
        """Nothing acknowledged is lost and nothing is doubled; the digest of a whole replay."""
        with store.open(url) as log:
            with log.read() as session:
                events = list(session.all_events("news"))
            (verdict,) = verify(log)
        assert verdict.faults == []
        logged = Counter(event.event_id for event in events)
        decisions = [event for event in events if event.kind == "decision"]
        outcomes = [event for event in events if event.kind in ("reward", "default")]
        for kind in (decisions, outcomes):
            assert max(Counter(event.event_id for event in kind).values(), default=1) == 1
        assert max(self.learned.values(), default=0) <= 1
        stored = {event.event_id: event for event in decisions}
        for event_id, answer in self.decisions.items():
            record: Decided = unpacked("decision", stored[event_id].body)
            assert answer["index"] == record.index
            assert answer["round"] == record.number
            assert answer["model_seq"] == stored[event_id].seq - 1
        rewarded: dict[str, Rewarded] = {
            event.event_id: unpacked(event.kind, event.body) for event in outcomes
        }
        for event_id, value in self.rewards.items():
            assert rewarded[event_id].value == value
        for event_id, count in self.answers.items():
            assert logged[event_id] >= count
        return verdict.digest


class Caller:
    """Sends what its script says; a request without an answer is sent again."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._steps = self._script(name)
        self._open: tuple[str, str, float] | None = None
        self.done = 0
        self.unavailable = 0

    @staticmethod
    def _script(name: str) -> Iterator[tuple[str, str, float]]:
        """What to do next: always a decision before its reward, a reward before its conflict."""
        script = random.Random(name)
        rewarded: list[tuple[str, int, float]] = []
        number = 0
        while True:
            number += 1
            event_id, value = f"{name}-{number}", float(script.random() < 0.4)
            yield "decide", event_id, number
            if script.random() < 0.2:
                yield "decide", event_id, number
            if script.random() < 0.1:
                yield "decide otherwise", event_id, number
            if script.random() < 0.9:
                yield "reward", event_id, value
                rewarded.append((event_id, number, value))
            if rewarded and script.random() < 0.4:
                event_id, number_then, value = script.choice(rewarded)
                yield "decide", event_id, number_then
                yield "reward", event_id, value
                yield "reward otherwise", event_id, value

    def run(self, address: str, ended: threading.Event) -> None:
        """Until the server is gone, or `ended` is set."""
        with httpx.Client(base_url=address, timeout=300.0) as client:
            while not ended.is_set():
                step = self._open = self._open or next(self._steps)
                try:
                    done = self._send(client, *step)
                except httpx.TransportError:
                    return
                if done:
                    self._open = None
                    self.done += 1

    def _send(self, client: httpx.Client, what: str, event_id: str, value: float) -> bool:
        otherwise = what.endswith("otherwise")
        if what.startswith("decide"):
            number = int(value) + otherwise
            answer = client.post(f"{POLICY}/decisions", json=asking(event_id, number))
        else:
            told = 1.0 - value if otherwise else value
            answer = client.post(f"{POLICY}/rewards", json={"event_id": event_id, "value": told})
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            self.unavailable += 1
            time.sleep(0.05)
            return False
        assert answer.status_code == (409 if otherwise else 200), answer.text
        if otherwise:
            self._ledger.refused(event_id)
        elif what == "decide":
            self._ledger.decided(event_id, answer.json())
        else:
            self._ledger.rewarded(event_id, value, answer.json()["status"])
        return True


class Load:
    """Pairs of callers with one script each: everything is sent by two at about the same time."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._callers = [Caller(f"c{i // 2}", self.ledger) for i in range(2 * CALLERS)]
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        self._failures: list[BaseException] = []

    @property
    def unavailable(self) -> int:
        return sum(caller.unavailable for caller in self._callers)

    def start(self, *addresses: str) -> None:
        self._ended.clear()
        self._threads = [
            threading.Thread(target=self._run, args=(caller, addresses[i % len(addresses)]))
            for i, caller in enumerate(self._callers)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, caller: Caller, address: str) -> None:
        try:
            caller.run(address, self._ended)
        except BaseException as error:
            self._failures.append(error)

    def wait_for(self, answers: int) -> None:
        """Until so many more answers have come."""
        wanted = self.ledger.answers.total() + answers
        self._wait_until(lambda: self.ledger.answers.total() >= wanted)

    def wait_for_every_caller(self) -> None:
        """Until what each of them asks now has been done, and what it asks next."""
        wanted = [caller.done + 2 for caller in self._callers]
        self._wait_until(
            lambda: all(caller.done >= n for caller, n in zip(self._callers, wanted, strict=True))
        )

    def wait_for_unavailable(self, refusals: int) -> None:
        """Until so many requests, from the beginning, have been answered by 503."""
        self._wait_until(lambda: self.unavailable >= refusals)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600.0
        while not condition() and not self._failures:
            assert time.monotonic() < deadline, "no answers come"
            time.sleep(0.002)

    def stop(self) -> None:
        """Let the callers end, whether the server lives or not."""
        self._ended.set()
        for thread in self._threads:
            thread.join(300.0)
            assert not thread.is_alive(), "a caller hangs"
        if self._failures:
            raise self._failures[0]


def configure(address: str, **settings: Any) -> None:
    answer = httpx.put(address + POLICY, json={**CONFIGURATION, **settings}, timeout=300.0)
    assert answer.status_code in (200, 201), answer.text


def digest(address: str) -> str:
    answer = httpx.get(f"{address}{POLICY}/digest", timeout=300.0)
    assert answer.status_code == 200, answer.text
    return answer.json()["digest"]
