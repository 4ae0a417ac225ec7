"""The programs under examples/ do what they say, with and without Redis."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.servers import RedisServer

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What a runtime says of threads, with their stacks; on a busy machine it is right.
BLOCKED = re.compile(r"Thread \S+ has been blocked for [^\n]*\n(?:  [^\n]*\n)*")


@pytest.fixture(params=["no server", "redis"])
def url(request: pytest.FixtureRequest) -> list[str]:
    """What is written after the name of the program."""
    if request.param == "no server":
        return []
    server: RedisServer = request.getfixturevalue("redis_server")
    return [server.url]


async def run(name: str, url: list[str], folder: Path) -> list[str]:
    """Run a program that must not complain; return what it says."""
    known = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("KUE_", "REDIS_"))
    }
    # A busy machine would be told of as a handler that holds the loop.
    known["KUE_BLOCKED"] = "0s"
    if url:
        known["KUE_PREFIX"] = f"example-{uuid.uuid4().hex[:8]}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(EXAMPLES / name),
        *url,
        cwd=folder,
        env=known,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await process.communicate()
    complaint = BLOCKED.sub("", complaints.decode())
    assert (process.returncode, complaint) == (0, "")
    return said.decode().splitlines()


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in source


async def test_learning_prints_what_the_tutorial_says(
    url: list[str], tmp_path: Path
) -> None:
    assert await run("learning.py", url, tmp_path) == [
        "Kue Verticle is running...",
        "I love this! My progress => 10",
        "Feeling: amazing and wonderful!",
    ]


async def test_delayed_emails_are_sent_when_it_is_their_time(
    url: list[str], tmp_path: Path
) -> None:
    first, *sent = await run("delayed_email.py", url, tmp_path)

    assert first == "2 emails are delayed"
    # A busy machine may come to both of them at once.
    assert sorted(sent) == [
        "sent 'Welcome' to ann@example.com",
        "sent 'Your trial ends' to ann@example.com",
    ]


async def test_videos_say_how_far_they_are(url: list[str], tmp_path: Path) -> None:
    said = await run("video.py", url, tmp_path)

    for title in ("Alps", "Birds", "Cities", "Dunes"):
        percent = [line for line in said if line.startswith(title)]
        assert percent == [f"{title}: {n} %" for n in (25, 50, 75, 100)]


async def test_many_jobs_are_processed_while_they_are_made(
    url: list[str], tmp_path: Path
) -> None:
    assert await run("many_jobs.py", url, tmp_path) == [
        f"processed {n} frames" for n in (10, 20, 30, 40, 50)
    ]
