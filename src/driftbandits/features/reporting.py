"""What an agent has made of its columns: levels, what shares coordinates, what is missing."""

from __future__ import annotations

from dataclasses import dataclass

from driftbandits.features.encoding import Encoding


@dataclass(frozen=True)
class ColumnReport:
    """One column, or a cross of two."""

    name: str
    kind: str
    coordinates: int  # of its own, those that levels share included
    missing: float  # share of the values
    clipped: float
    shared: float
    sharing: int  # how many different levels share coordinates, as far as they were told apart


@dataclass(frozen=True)
class Report:
    """All columns, the dimension and what a decision costs."""

    columns: tuple[ColumnReport, ...]
    dim: int
    room: int  # the dimension of the model, which grows in steps
    limit: int
    contexts: int
    arms: int

    @property
    def multiplications(self) -> int:
        """What a reward costs, in the order of magnitude: it grows with the square of the room."""
        return self.room**2

    @property
    def is_shared(self) -> bool:
        """Whether any two levels share a coordinate (words of a text always may)."""
        return any(column.sharing for column in self.columns)

    def __str__(self) -> str:
        size = max(len(column.name) for column in self.columns)
        lines = [
            f"{self.dim} coordinates of at most {self.limit}, in a model of {self.room}: a reward "
            f"costs about {self.multiplications:,} multiplications for each memory",
            f"{self.contexts} contexts and {self.arms} arms read",
            f"{'':<{size}}  kind        coordinates  missing  clipped   shared  levels that share",
        ]
        for c in self.columns:
            lines.append(
                f"{c.name:<{size}}  {c.kind:<12}{c.coordinates:>11}{c.missing:>9.1%}"
                f"{c.clipped:>9.1%}{c.shared:>9.1%}{c.sharing:>19}"
            )
        return "\n".join(lines)


def report_on(encoding: Encoding, *, room: int) -> Report:
    """The report of an encoding in a model of `room` coefficients."""
    features, book = encoding.features, encoding.book
    kinds = {**features.context, **features.arm}
    columns = []
    for owner, places in book.places.items():
        if owner == "":
            continue
        times = encoding.contexts if owner in features.context else encoding.arms

        def share(what: str, owner: str = owner, times: int = times) -> float:
            return book.counts.get((what, owner), 0) / max(times, 1)

        columns.append(
            ColumnReport(
                name=owner,
                kind=kinds.get(owner, "cross" if " x " in owner else "category"),
                coordinates=len(places),
                missing=share("missing"),
                clipped=share("clipped"),
                shared=share("shared"),
                sharing=book.sharers_of(owner),
            )
        )
    return Report(
        columns=tuple(columns),
        dim=len(book),
        room=room,
        limit=features.limit,
        contexts=encoding.contexts,
        arms=encoding.arms,
    )
