"""The one error of the mini-cluster: a sentence for the person at the terminal."""


class MiniclusterError(Exception):
    """What was wrong, where, and what to do about it."""
