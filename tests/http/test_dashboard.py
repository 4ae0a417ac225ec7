"""The dashboard's files: which there are, where, and with what headers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.dashboard import CONTENT_TYPES
from kue.http.security.headers import HEADERS
from tests.http.conftest import serving

STATIC = Path(str(files("kue.http.dashboard") / "static"))
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]
PAGES = ["/", "/queues", "/queues/email", "/jobs", "/jobs/7", "/errors", "/workers"]
PAGES += ["/schedules", "/schedules/nightly", "/limits", "/limits/stripe"]
PAGES += ["/metrics", "/audit", "/settings", "/api", "/login"]
#: What would run text as code, or make elements of it.
BANNED = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc"
    r"|createContextualFragment|eval|new Function|setHTMLUnsafe|javascript:)"
)


@asynccontextmanager
async def browsing(app: ASGIApp, path: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client whose paths are those below *path*."""
    async with (
        serving(app) as address,
        httpx.AsyncClient(
            base_url=f"{address}{path}", headers={"Accept": "text/html"}
        ) as client,
    ):
        yield client


@pytest.fixture
async def web(q: Kue) -> AsyncIterator[httpx.AsyncClient]:
    async with browsing(create_app(q, guard=Anyone())) as client:
        yield client


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One engine is enough: nothing of it is asked for."""
    return f"sqlite:///{tmp_path}/kue.db"


def name_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


# -- pages ---------------------------------------------------------------------


async def test_every_page_is_the_same_html(web: httpx.AsyncClient) -> None:
    for path in PAGES:
        answer = await web.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert 'data-prefix=""' in answer.text
        assert re.search(r'src="/assets/@[0-9a-f]+/app\.js"', answer.text)


async def test_a_page_for_a_name_with_slashes_is_there(web: httpx.AsyncClient) -> None:
    for path in ("/queues/a/b", "/queues/a%2Fb", "/queues/%3Cscript%3E"):
        answer = await web.get(path)
        assert answer.status_code == 200, path


async def test_an_unknown_page_is_told_as_a_page_with_404(
    web: httpx.AsyncClient,
) -> None:
    for path in ("/nothing", "/jobs/7/nothing/../../../x", "/queue"):
        answer = await web.get(path)
        assert answer.status_code == 404, path
        assert "app.js" in answer.text


async def test_programs_are_told_in_json_that_nothing_is_there(
    web: httpx.AsyncClient,
) -> None:
    paths = ["/api/v2", "/api/v1/nothing", "/kue/nothing", "/vertx-kue/nothing"]
    for path in [*paths, "/assets/nothing.js", "/assets/"]:
        answer = await web.get(path)
        assert answer.status_code == 404, path
        assert "json" in answer.headers["content-type"], path


async def test_a_page_is_only_to_be_got(web: httpx.AsyncClient) -> None:
    for path in ("/", "/jobs", "/api"):
        answer = await web.post(path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"


async def test_what_is_not_there_is_not_there_for_any_method(
    web: httpx.AsyncClient,
) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/nothing", "/api/v2", "/api/v1/nothing"):
            answer = await web.request(method, path)
            assert answer.status_code == 404, (method, path)
            assert "json" in answer.headers["content-type"]


async def test_a_page_has_a_head(web: httpx.AsyncClient) -> None:
    answer = await web.head("/jobs")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_the_api_comes_first(web: httpx.AsyncClient) -> None:
    assert (await web.get("/api/v1/health")).headers["content-type"] == (
        "application/json"
    )


# -- files ---------------------------------------------------------------------


async def test_what_the_page_names_is_served_with_its_type(
    web: httpx.AsyncClient,
) -> None:
    html = (await web.get("/")).text
    names = set(re.findall(r'"[^"]*/assets/@\w+/([^"]+)"', html))

    assert names == {"app.js", "favicon.svg", "style.css", "theme.js"}
    for name in names:
        answer = await web.get(f"/assets/{name}")
        assert answer.status_code == 200, name
        suffix = name.rpartition(".")[2]
        assert answer.headers["content-type"] == CONTENT_TYPES[suffix]


async def test_a_file_that_the_browser_has_is_not_sent_again(
    web: httpx.AsyncClient,
) -> None:
    for path in ("/assets/app.js", "/", "/jobs"):
        first = await web.get(path)
        tag = first.headers["etag"]
        again = await web.get(path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        other = await web.get(path, headers={"If-None-Match": '"other"'})
        assert other.status_code == 200


async def test_files_are_packed(web: httpx.AsyncClient) -> None:
    answer = await web.get("/assets/style.css", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"


async def test_everything_has_the_headers_that_keep_strangers_out(
    web: httpx.AsyncClient,
) -> None:
    for path in ("/", "/nothing", "/assets/app.js", "/assets/nothing"):
        answer = await web.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (path, name)


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../__init__.py",
        "/assets/..%2f__init__.py",
        "/assets/%2e%2e/__init__.py",
        "/assets/lib/../../__init__.py",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/app.js%00",
        "/assets/..\\__init__.py",
        "/assets/index.html",
        "/assets/lib",
        "/assets/lib/",
    ],
)
async def test_no_path_leads_out_of_the_table(
    web: httpx.AsyncClient, path: str
) -> None:
    request = web.build_request("GET", "/")
    # As it is: the client would tidy it up.
    request.url = request.url.copy_with(raw_path=path.encode())
    answer = await web.send(request)
    assert answer.status_code == 404
    assert b"import" not in answer.content


async def test_every_module_and_sheet_is_in_the_script_or_the_sheet(
    web: httpx.AsyncClient,
) -> None:
    script = (await web.get("/assets/app.js")).text
    sheet = (await web.get("/assets/style.css")).text
    for path in FILES:
        if path.suffix == ".js" and path.name != "theme.js":
            assert f"\n// {name_of(path)}\n" in script
        elif path.suffix == ".css":
            assert path.read_text() in sheet


async def test_what_has_the_version_in_its_name_is_kept_for_good(
    web: httpx.AsyncClient,
) -> None:
    html = (await web.get("/")).text
    [script] = re.findall(r'type="module" src="([^"]+)"', html)
    old = re.sub("@[0-9a-f]+", "@0123456789ab", script)

    now, before, plain = [
        await web.get(path) for path in (script, old, "/assets/app.js")
    ]

    assert "immutable" in now.headers["cache-control"]
    assert before.headers["cache-control"] == "no-cache"
    assert plain.headers["cache-control"] == "no-cache"
    assert now.content == before.content == plain.content


async def test_files_are_packed_for_those_who_can_unpack_them(
    web: httpx.AsyncClient,
) -> None:
    packed = await web.get("/assets/app.js", headers={"Accept-Encoding": "gzip"})
    plain = await web.get("/assets/app.js", headers={"Accept-Encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])


# -- mounted -------------------------------------------------------------------


async def test_it_works_under_any_prefix(q: Kue) -> None:
    for prefix in ("/kue-admin", "/deep/er"):
        app = Starlette(routes=[Mount(prefix, create_app(q, guard=Anyone()))])
        async with browsing(app, prefix) as web:
            html = (await web.get("/jobs")).text
            assert f'data-prefix="{prefix}"' in html
            [script] = re.findall(r'type="module" src="([^"]+)"', html)
            assert script.startswith(f"{prefix}/assets/@")
            below = script.removeprefix(prefix)
            assert (await web.get(below)).status_code == 200
            assert (await web.get("/api/v1/health")).status_code == 200
            assert (await web.get("/api/v3")).status_code == 404


@pytest.mark.parametrize("root_path", ['/"><script>', "//evil.example", "/a b&c"])
async def test_a_strange_prefix_stays_text_and_stays_here(
    q: Kue, root_path: str
) -> None:
    app = create_app(q, guard=Anyone())

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": root_path}, receive, send)

    async with browsing(mounted) as web:
        html = (await web.get("/")).text
    assert "<script>" not in html
    assert '"//' not in html


# -- what the files say --------------------------------------------------------


def test_the_page_has_nothing_inline() -> None:
    html = (STATIC / "index.html").read_text()
    assert not re.findall(r"<style|style=|\son\w+=", html)
    assert not re.findall(r"<script(?![^>]*src=)", html)


def test_no_module_runs_text_or_makes_elements_of_it() -> None:
    for path in MODULES:
        assert not BANNED.findall(path.read_text()), path


def test_every_import_leads_to_a_file() -> None:
    for path in MODULES:
        for target in re.findall(r'from "([^"]+)"', path.read_text()):
            assert target.startswith("."), (path, target)
            assert (path.parent / target).resolve() in FILES, (path, target)


def test_nothing_comes_from_elsewhere() -> None:
    for path in FILES:
        text = path.read_text().replace("http://www.w3.org/", "")
        found = re.findall(r"https?://[\w.]+\.\w+", text)
        assert all(one.endswith("example.com") for one in found), (path, found)


def test_every_page_is_in_the_list() -> None:
    listed = (STATIC / "pages" / "index.js").read_text()
    for path in (STATIC / "pages").glob("*.js"):
        assert path.name == "index.js" or f'"./{path.name}"' in listed, path
