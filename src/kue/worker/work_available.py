"""What a loop knows of the store: is there work, may there be, is there none?"""

from __future__ import annotations

from enum import Enum, auto


class WorkHint(Enum):
    """The last that was heard."""

    #: The last claim got all it asked for.
    PLENTY = auto()
    #: Nobody asked since the store said that there may be work.
    UNSURE = auto()
    #: The last claim got less than it asked for.
    EMPTY = auto()


class WorkAvailability:
    """
    Decides when asking for jobs is worth a call.

    An answer that was on its way while the store woke us says nothing about the job we
    were woken for: it must not send us back to sleep, or that job waits for the next
    wake-up.  So each question remembers how often we had been woken.
    """

    def __init__(self) -> None:
        self.stock = WorkHint.UNSURE
        self._is_asking = False
        self._wakes = 0

    @property
    def is_worth_asking(self) -> bool:
        """While we are unsure one question is enough; the answer decides on more."""
        return self.stock is WorkHint.PLENTY or (
            self.stock is WorkHint.UNSURE and not self._is_asking
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do but to wait for the store."""
        return self.stock is WorkHint.EMPTY

    def ask(self) -> int:
        """Take note of a question and return what `answer` needs to know of it."""
        self._is_asking = True
        return self._wakes

    def answer(self, question: int, *, was_full: bool) -> None:
        """Learn from the answer to *question*: did it give all that was asked for?"""
        self._is_asking = False
        if was_full:
            self.stock = WorkHint.PLENTY
        elif question == self._wakes:
            self.stock = WorkHint.EMPTY

    def wake(self) -> None:
        """Learn that there may be work."""
        self._wakes += 1
        self._is_asking = False
        self.stock = WorkHint.UNSURE
