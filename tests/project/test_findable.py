"""A newcomer finds the answer in two steps: grep for a word, open the file."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import kue

SOURCE = Path(kue.__file__).parent
#: What is asked, the obvious word, and the file that answers.
QUESTIONS = [
    ("how long is the delay before the next attempt", "backoff", "model/backoff.py"),
    ("is a failed run retried", "retry", "model/retry_policy.py"),
    ("where is the heartbeat sent", "heartbeat", "worker/heartbeat.py"),
    (
        "where are jobs of dead workers requeued",
        "dead worker",
        "store/redis/verbs/maintenance.py",
    ),
    ("the same in SQLite", "dead worker", "store/sqlite/verbs/maintenance.py"),
    ("how does a worker shut down", "graceful shutdown", "worker/worker.py"),
    ("what happens in an outage of the store", "outage", "aio/retry.py"),
    ("where are rate limits", "rate limit", "store/redis/verbs/limits.py"),
    ("where are unique keys", "unique key", "store/sqlite/unique_keys.py"),
    ("where is a duplicate refused", "duplicate", "store/sqlite/unique_keys.py"),
    ("what happens on SIGTERM", "sigterm", "supervisor/supervisor.py"),
    ("the same without a supervisor", "sigterm", "client/worker_runner.py"),
    ("how does the doctor repair Redis", "repair", "store/redis/doctor/repairs.py"),
    ("where are dependencies resolved", "dependencies", "store/sqlite/dependencies.py"),
    ("when is a recurring job due", "schedule", "model/schedule.py"),
    ("how are cron expressions read", "cron", "model/cron.py"),
    ("how large may a payload be", "payload", "model/payload.py"),
    ("what ends a run that takes too long", "timeout", "worker/active_run.py"),
    ("where is progress written", "progress", "worker/progress_sender.py"),
    ("where is middleware called", "middleware", "client/hooks.py"),
    ("when does a circuit breaker open", "circuit breaker", "model/circuit.py"),
    ("which queues does a worker serve", "queues", "model/queue_patterns.py"),
    ("how does an add fail over", "fail-over", "client/failover_connection.py"),
    ("which environment variables are read", "environment", "model/settings.py"),
    ("where is a request authenticated", "authentication", "http/auth/access.py"),
    ("what is in the audit log", "audit log", "http/security/audit_log.py"),
    ("where are the metrics for Prometheus", "prometheus", "http/v1/metrics.py"),
    ("how is an old SQLite file upgraded", "migration", "store/sqlite/schema.py"),
    ("how is a Sentinel's master found", "sentinel", "store/redis/wire/connecting.py"),
]


@pytest.mark.parametrize(
    ("word", "name"), [row[1:] for row in QUESTIONS], ids=[row[0] for row in QUESTIONS]
)
def test_the_first_line_of_the_answer_has_the_obvious_word(
    word: str, name: str
) -> None:
    text = ast.get_docstring(ast.parse((SOURCE / name).read_text())) or ""

    assert word in text.splitlines()[0].lower()


def test_no_two_classes_have_the_same_name() -> None:
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )

    assert [name for name, times in names.items() if times > 1] == []
