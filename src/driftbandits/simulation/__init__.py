"""Whole runs of policies in a world: who plays, what is kept of a run, and `simulate`."""

from driftbandits.simulation.informed import Informed, informed_kinds
from driftbandits.simulation.players import Player, Restarted, draw_trace, play, player_seed
from driftbandits.simulation.result import Result, simulate
from driftbandits.simulation.run import Run

__all__ = [
    "Informed",
    "Player",
    "Restarted",
    "Result",
    "Run",
    "draw_trace",
    "informed_kinds",
    "play",
    "player_seed",
    "simulate",
]
