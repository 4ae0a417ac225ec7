"""Dashboards behind the login of the application around them, as the page shows it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx

from kue import Kue
from tests.http.test_mounting import HOSTS, hosted
from tests.http.test_mounting import client as client
from tests.project.test_docs import DOCS, examples

ME = "/jobs/api/v1/me"
#: Makes the tables of Django's example, and a session for each user; tells their keys.
DJANGO_USERS = """
from guarded_django import engine
from django.contrib.auth.models import User
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.core.management import call_command

call_command("migrate", verbosity=0)
for name, flags in {
    "ann": {"is_staff": True, "is_superuser": True},
    "bob": {"is_staff": True},
    "eve": {},
}.items():
    user = User.objects.create_user(name, password="correct horse", **flags)
    session = engine.SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    print(session.session_key)
"""


async def django_sessions(folder: Path) -> list[str]:
    (folder / "guarded_django.py").write_text(HOSTS["guarded_django.py"])
    (folder / "users.py").write_text(DJANGO_USERS)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "users.py", cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().split()


async def roles(
    client: httpx.AsyncClient, url: str, cookies: list[dict[str, str]]
) -> list[tuple[int, object]]:
    """Return how each who comes with *cookies* is answered, and as what."""
    answers = []
    for cookie in cookies:
        header = "; ".join(f"{name}={value}" for name, value in cookie.items())
        answers.append(await client.get(url, headers={"Cookie": header}))
    return [(answer.status_code, answer.json().get("role")) for answer in answers]


async def test_fastapi_says_who_may_what(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    async with hosted("guarded_fastapi", tmp_path) as host:
        cookies: list[dict[str, str]] = [{}]
        for name in ("ann", "bob", "eve"):
            entered = await client.post(f"{host.url}/enter/{name}")
            cookies.append(dict(entered.cookies))
            client.cookies.clear()

        found = await roles(client, f"{host.url}{ME}", cookies)

    assert found == [(401, None), (200, "admin"), (200, "viewer"), (401, None)]


async def test_django_says_who_may_what(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    keys = await django_sessions(tmp_path)

    async with hosted("guarded_django", tmp_path) as host:
        cookies = [{"sessionid": key} for key in ("nobody", *keys)]
        found = await roles(client, f"{host.url}{ME}", cookies)

    assert found == [(401, None), (200, "admin"), (200, "operator"), (401, None)]


async def test_rules_for_what_is_hidden_are_given_in_three_ways() -> None:
    [source] = [
        example.source
        for example in examples(DOCS / "dashboard.md")
        if "Redaction" in example.source
    ]

    async with Kue("memory://") as q:
        exec(source, {"q": q})

    assert source.count("create_app(q, redact=") == 3
