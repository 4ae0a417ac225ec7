"""Work availability: whether the store has jobs of a type, may have some, or none."""

from __future__ import annotations

from enum import Enum, auto


class WorkHint(Enum):
    """What is known from the last claim or wake-up."""

    #: The last claim got all it asked for.
    PLENTY = auto()
    #: No claim was made since the store reported that there may be work.
    UNSURE = auto()
    #: The last claim got less than it asked for.
    EMPTY = auto()


class WorkAvailability:
    """
    Decides when a claim is worth a call.

    A reply that was in flight while the store woke us may not include the job we were
    woken for: it must not send us back to sleep, or that job waits for the next
    wake-up.  So each claim remembers how many wake-ups came before it.
    """

    def __init__(self) -> None:
        self.hint = WorkHint.UNSURE
        self._is_asking = False
        self._wakes = 0

    @property
    def is_worth_asking(self) -> bool:
        """While unsure, one claim is enough; its reply decides on more."""
        return self.hint is WorkHint.PLENTY or (
            self.hint is WorkHint.UNSURE and not self._is_asking
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do but to wait for the store."""
        return self.hint is WorkHint.EMPTY

    def ask(self) -> int:
        """Note that a claim is made, and return what `answer` needs to know of it."""
        self._is_asking = True
        return self._wakes

    def answer(self, question: int, *, was_full: bool) -> None:
        """Note the reply to *question*: did it return all that was asked for?"""
        self._is_asking = False
        if was_full:
            self.hint = WorkHint.PLENTY
        elif question == self._wakes:
            self.hint = WorkHint.EMPTY

    def wake(self) -> None:
        """Note that there may be work."""
        self._wakes += 1
        self._is_asking = False
        self.hint = WorkHint.UNSURE
