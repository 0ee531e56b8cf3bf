"""Failures of experiments, in a room that loads nothing: the commands tell them apart by these."""


class SpecError(ValueError):
    """A spec that cannot be run; the message names the key."""


class RunFailed(RuntimeError):
    """Runs that could not be finished."""
