"""The model of durable steps: what one job did, waits for and was sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from kue.model.names import unquote
from kue.model.payload import JSON
from kue.model.steps import JobSteps, Signal, Step
from kue.store.values import Result


@dataclass
class StepBook:
    """The steps of a job by field, in the order in which they came, and its signals."""

    steps: dict[str, Step] = field(default_factory=dict)
    last: str = ""
    signals: list[Signal] = field(default_factory=list)
    received: Counter[str] = field(default_factory=Counter)
    #: Signals that a wait is open for.
    awaited: set[str] = field(default_factory=set)

    def record(self, name: str, result: JSON, duration: int, now: int) -> Result:
        if f"step:{name}" in self.steps:
            return Result.ALREADY
        step = Step(kind="step", name=name, at=now, duration=duration, result=result)
        self._add(f"step:{name}", step)
        return Result.DONE

    def _add(self, key: str, step: Step) -> None:
        self.steps[key] = step
        self.last = key

    def suspend(self, key: str, delay: int, now: int) -> int:
        """Begin a sleep or a wait; return when the job is due."""
        if key not in self.steps:
            kind, *number, name = key.split(":")
            step = Step(
                kind="wait" if kind == "wait" else "sleep",
                name=unquote(name),
                number=int(*number) if number else 0,
                at=now,
                until=now + delay,
            )
            self._add(key, step)
        step = self.steps[key]
        if step.kind == "wait":
            if self._unread(step.name):
                return now
            self.awaited.add(step.name)
        return max(now, step.until or now)

    def _unread(self, name: str) -> list[Signal]:
        sent = [signal for signal in self.signals if signal.name == name]
        return sent[self.received[name] :]

    def send(self, name: str, data: JSON, now: int) -> bool:
        """Keep a signal; return whether a wait was open for it."""
        is_first = not self._unread(name)
        self.signals.append(Signal(name=name, data=data, id="", at=now))
        return is_first and name in self.awaited

    def receive(self, name: str, number: int, now: int) -> Step | None:
        key = f"wait:{number}:{name}"
        wait, unread = self.steps.get(key), self._unread(name)
        if wait is not None and wait.ended_at is not None:
            return wait
        if not unread and (wait is None or (wait.until or 0) > now):
            return wait
        if wait is None:
            wait = Step(kind="wait", name=name, number=number, at=now, until=now)
            self._add(key, wait)
        data = unread[0].data if unread else None
        self.received[name] += bool(unread)
        self.awaited.discard(name)
        self.steps[key] = msgspec.structs.replace(
            wait, ended_at=now, timed_out=not unread, result=data
        )
        return self.steps[key]

    def restart(self) -> None:
        """Forget a wait that did not get its signal."""
        last = self.steps.get(self.last)
        if last and last.kind == "wait" and (last.ended_at is None or last.timed_out):
            del self.steps[self.last]
            self.last = ""

    def view(self) -> JobSteps:
        seen: Counter[str] = Counter()
        signals = []
        for signal in self.signals:
            seen[signal.name] += 1
            is_read = seen[signal.name] <= self.received[signal.name]
            signals.append(msgspec.structs.replace(signal, received=is_read))
        return JobSteps(tuple(self.steps.values()), tuple(signals))
