"""Whole runs of policies in a world: who plays, what is kept of a run, and `simulate`."""

from driftbandits.simulation.players import Player, Restarted, draw_trace, play, player_seed
from driftbandits.simulation.result import Result, simulate
from driftbandits.simulation.run import Run

__all__ = [
    "Player",
    "Restarted",
    "Result",
    "Run",
    "draw_trace",
    "play",
    "player_seed",
    "simulate",
]
