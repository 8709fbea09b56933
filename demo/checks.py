"""The lines of the summary: each promise, and what was observed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    promise: str
    seen: str
    held: bool


@dataclass(frozen=True)
class Settings:
    """How much work the acts do."""

    seconds: float
    threads: int
    accounts: int
    #: The longest time, in seconds, that a child process works before it is killed.
    kill_within: float
    seed: int

    #: The initial balance of every account.
    opening_balance: int = 1_000

    @property
    def money(self) -> int:
        """The sum of all accounts, at every instant."""
        return self.accounts * self.opening_balance
