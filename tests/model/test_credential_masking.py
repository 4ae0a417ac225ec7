"""S-4: lines that Kue logs have no passwords of URLs."""

from __future__ import annotations

import logging
import sys

import pytest

from kue.model.credential_masking import mask_credentials
from kue.supervisor.log_format import JsonFormatter, TextFormatter

URL = "redis://ann:hunter2@db:6379/0"


@pytest.mark.parametrize("kind", [TextFormatter, JsonFormatter])
def test_log_lines_hide_passwords_in_urls(
    kind: type[TextFormatter] | type[JsonFormatter],
) -> None:
    try:
        raise OSError(f"{URL} does not answer")
    except OSError:
        record = logging.LogRecord(
            "app", logging.ERROR, "", 1, "lost %s", (URL,), sys.exc_info()
        )

    line = kind("worker").format(record)

    assert "hunter2" not in line
    assert line.count("redis://ann:***@db:6379/0") == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "redis+sentinel://a,b/svc?sentinel_password=s3cret&db=1",
            "redis+sentinel://a,b/svc?sentinel_password=***&db=1",
        ),
        ("rediss://a?db=1&ssl_password=x", "rediss://a?db=1&ssl_password=***"),
        ("the password=x of nothing", "the password=x of nothing"),
    ],
)
def test_passwords_among_the_parameters_of_urls_are_masked(
    text: str, shown: str
) -> None:
    assert mask_credentials(text) == shown
