"""People and programs for tests: accounts with cheap passwords, and their clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette

from kue import Kue
from kue.http import AccountGuard, create_app
from kue.http.auth import PasswordHasher, Role, Scope
from tests.http.conftest import serving
from tests.support.patience import PATIENCE_SECONDS

PASSWORD = "correct horse"
CHEAP = PasswordHasher(n=16, p=1)


class Site:
    """A server with accounts."""

    def __init__(self, address: str, q: Kue, accounts: AccountGuard) -> None:
        self.address = address
        self.q = q
        self.accounts = accounts

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.address}/api/v1",
            timeout=PATIENCE_SECONDS,
            verify=False,
            **options,
        )

    async def add(self, name: str, role: Role = Role.ADMIN) -> None:
        await self.accounts.users.add(name, PASSWORD, role)

    async def login(
        self, client: httpx.AsyncClient, name: str, password: str = PASSWORD
    ) -> httpx.Response:
        return await client.post("/login", json={"name": name, "password": password})

    async def headers(self, who: str) -> dict[str, str]:
        """Return what lets *who* in: nobody, a role or the scope of a token."""
        if who == "nobody":
            return {}
        if who in {role.label for role in Role}:
            name = f"a-{who}"
            if await self.accounts.users.find(name) is None:
                await self.add(name, Role.of(who))
            async with self.client() as client:
                answer = await self.login(client, name)
                cookie = answer.headers["set-cookie"].partition(";")[0]
            return {"Cookie": cookie}
        _, secret = await self.accounts.tokens.add(who, [Scope(who)], by="ann")
        return {"Authorization": f"Bearer {secret}"}


@asynccontextmanager
async def site_of(
    q: Kue, *, accounts: AccountGuard | None = None, **options: Any
) -> AsyncIterator[Site]:
    known = accounts or AccountGuard(q, hasher=CHEAP)
    app = create_app(q, guard=known, **options)
    async with serving(app) as address:
        try:
            yield Site(address, q, known)
        finally:
            await _live(app).close()


def _live(app: Starlette) -> Any:
    return app.state.live
