"""The guide to the REST API: each request in it is made, one after the other."""

from __future__ import annotations

import ast
import json
import re
import shlex
from types import CoroutineType
from typing import Any, NamedTuple

import httpx
import pytest

from kue import Kue
from kue.http import create_app
from kue.http.auth.startup_token import VARIABLE
from tests.http.conftest import serving
from tests.project.test_docs import DOCS

PAGE = DOCS / "guides" / "rest-api.md"
#: Where the guide has its server.
PLACE = "127.0.0.1:3000"
SECRET = "correct-horse-battery-staple"
#: What makes curl send the token.
ALIAS = f"""$ alias curl='curl --oauth2-bearer "${VARIABLE}"'\n"""
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Curl(NamedTuple):
    """A request on the command line, and what is shown below it."""

    method: str
    url: str
    headers: dict[str, str]
    body: str | None
    shown: str

    @classmethod
    def of(cls, line: str, shown: str) -> Curl:
        words = iter(shlex.split(line)[1:])
        method, url, body = "", "", None
        headers: dict[str, str] = {}
        for word in words:
            match word:
                case "-X":
                    method = next(words)
                case "-H":
                    name, _, value = next(words).partition(": ")
                    headers[name] = value
                case "--json":
                    body = next(words)
                    headers["Content-Type"] = "application/json"
                case "-N":
                    pass
                case _:
                    url = word
        return cls(
            method or ("GET" if body is None else "POST"), url, headers, body, shown
        )


def curls(block: str) -> list[Curl]:
    parts = re.findall(r"^\$ (.+)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    return [Curl.of(line, shown) for line, shown in parts if line.startswith("curl")]


async def check(curl: Curl, client: httpx.AsyncClient) -> None:
    """Make the request; the answer is as shown, but for what differs each time."""
    asking = client.stream(
        curl.method, curl.url, headers=curl.headers, content=curl.body
    )
    async with asking as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert answer.status_code == 200
            return
        content = await answer.aread()
    if not curl.shown:
        assert answer.is_success, content
        return
    told, shown = json.loads(content), json.loads(curl.shown)
    assert told.keys() == shown.keys()
    fixed = (
        shown.keys() - {"detail"} - ({"id"} if curl.url.endswith("/bulk") else set())
    )
    assert {name: told[name] for name in fixed} == {name: shown[name] for name in fixed}


async def run(source: str, scope: dict[str, Any]) -> None:
    code = compile(
        source, PAGE.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    running = eval(code, scope)
    if isinstance(running, CoroutineType):
        await running


async def test_the_requests_of_the_guide_are_answered_as_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    bearer = {"Authorization": f"Bearer {SECRET}"}
    async with Kue("memory://") as q, serving(create_app(q)) as address:
        scope: dict[str, Any] = {"q": q}
        text = PAGE.read_text().replace(PLACE, address.removeprefix("http://"))
        text = text.replace("$TOKEN", SECRET)
        assert ALIAS in text
        blocks = BLOCK.findall(text)
        async with httpx.AsyncClient(verify=False, headers=bearer) as client:
            for language, block in blocks:
                if language == "python":
                    await run(block, scope)
                for curl in curls(block) if language == "console" else ():
                    await check(curl, client)
        await scope["client"].aclose()

    assert scope["answer"].json()["is_new"]
    assert scope["status"]["state"] == "done"
    assert (scope["first"].status_code, scope["again"].status_code) == (200, 304)
    assert len(blocks) > 12
