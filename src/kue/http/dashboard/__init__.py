"""
Dashboard: one page of HTML, one script and one style sheet.

Nothing here depends on jobs.  Everything shown is read from the API, with the scopes of
the user, so these files are public.

A page is a module in ``static/pages``, and a line in ``static/pages/index.js``; the
server reads its path from the module.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import blake2b
from html import escape
from http import HTTPStatus
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from kue import __version__
from kue.http.auth.startup_token import PARAMETER, REFUSED
from kue.http.dashboard.bundler import bundle_modules, bundle_styles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from kue.http.auth.startup_token import StartupToken

ASSETS = "/assets"
INDEX = "index.html"
#: Made of all modules, and of all sheets.
SCRIPT, STYLES = "app.js", "style.css"
#: The theme is set before anything is painted, and so before the rest is there.
AS_THEY_ARE = ("favicon.svg", "theme.js")
LOGIN = "/login"
_PRELOAD = '<link rel="preload" href="{}/api/v1/me" as="fetch" crossorigin>'
CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: First parts of paths for programs, which get a 404 as JSON.
DATA = frozenset({"api", "assets", "kue", "vertx-kue"})
#: Prefix of the version in an asset's path.
MARK = "@"
YEAR_SECONDS = 31_536_000
#: All methods, so that an unknown path is a 404 for each of them.
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
#: The path of a page, in its module.
_PATH = re.compile(r'^\s*path: "(/[^"]*)"', re.MULTILINE)
_PARAMETER = re.compile(r":\w+")


class Asset(NamedTuple):
    """A static file."""

    content: bytes
    #: The same, compressed once.
    compressed: bytes
    content_type: str
    tag: str


class Dashboard(NamedTuple):
    """All files, read once."""

    html: Template
    #: By path below the folder.
    assets: dict[str, Asset]
    #: The hash of all assets.
    version: str
    #: Matches the paths of all pages.
    pages: re.Pattern[str]


def routes(startup: StartupToken | None = None) -> list[BaseRoute]:
    """
    Return the routes of files and pages, to follow all other routes.

    Pages of a server in open mode take the start-up token in exchange for a cookie.
    """
    dashboard = _dashboard()

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        version = ""
        if name.startswith(MARK):
            version, _, name = name.removeprefix(MARK).partition("/")
        found = dashboard.assets.get(name)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return _answer(request, found, is_fixed=version == dashboard.version)

    async def page(request: Request) -> Response:
        path = "/" + request.path_params["path"]
        is_page = dashboard.pages.fullmatch(path) is not None
        is_read = request.method in {"GET", "HEAD"}
        if is_page and not is_read:
            refusal = HTTPStatus.METHOD_NOT_ALLOWED
            raise HTTPException(refusal, headers={"Allow": "GET, HEAD"})
        if not is_page and (not is_read or path.split("/")[1] in DATA):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        token = request.query_params.get(PARAMETER)
        # With this value the login page shows that a token was refused.
        has_token = token is not None and (path, token) != (LOGIN, REFUSED)
        if startup is not None and has_token:
            return startup.exchange(request)
        status = HTTPStatus.OK if is_page else HTTPStatus.NOT_FOUND
        return _answer(request, _index(dashboard, request), status)

    return [
        Route(f"{ASSETS}/{{name:path}}", asset, name="dashboard_asset"),
        Route("/{path:path}", page, methods=METHODS, name="dashboard_page"),
    ]


@cache
def _dashboard() -> Dashboard:
    """Read all files once: requests select from these, and never read a path."""
    contents = dict(_walk(files(__name__) / "static"))
    served = {
        **{name: contents[name] for name in AS_THEY_ARE},
        SCRIPT: bundle_modules(contents, SCRIPT),
        STYLES: bundle_styles(
            {name: text for name, text in contents.items() if name.endswith(".css")}
        ),
    }
    assets = {name: _asset(name, text.encode()) for name, text in served.items()}
    paths = [
        path
        for name, text in contents.items()
        if re.fullmatch(r"pages/\w+\.js", name)
        for path in _PATH.findall(text)
    ]
    # Names may contain slashes, however a proxy passes them on.
    pages = "|".join(_PARAMETER.sub(".+", path) for path in paths)
    version = blake2b(
        "".join(sorted(f"{name} {one.tag}" for name, one in assets.items())).encode(),
        digest_size=6,
    ).hexdigest()
    return Dashboard(
        Template(contents[INDEX]), assets, version, re.compile(f"(?:{pages})/?")
    )


def _walk(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif name.rpartition(".")[2] in CONTENT_TYPES:
            yield name, entry.read_text()


def _asset(name: str, content: bytes) -> Asset:
    tag = f'W/"{blake2b(content, digest_size=12).hexdigest()}"'
    compressed = gzip.compress(content, mtime=0)
    return Asset(content, compressed, CONTENT_TYPES[name.rpartition(".")[2]], tag)


def _index(dashboard: Dashboard, request: Request) -> Asset:
    """Return the HTML page, with its prefix and the files it will load."""
    prefix = "/" + request.scope.get("root_path", "").strip("/")
    prefix = escape(prefix.rstrip("/"))
    # Browsers cache files with a version in their path, and do not ask again.
    assets = f"{prefix}{ASSETS}/{MARK}{dashboard.version}"
    # Every page but the login page begins with it: this saves a round trip.
    is_login = request.path_params["path"] == LOGIN.strip("/")
    text = dashboard.html.substitute(
        prefix=prefix,
        assets=assets,
        version=__version__,
        preload="" if is_login else _PRELOAD.format(prefix),
    )
    return _asset(INDEX, text.encode())


def _answer(
    request: Request,
    asset: Asset,
    status: HTTPStatus = HTTPStatus.OK,
    *,
    is_fixed: bool = False,
) -> Response:
    # Otherwise revalidated each time: a new version shows at once.
    policy = f"public, max-age={YEAR_SECONDS}, immutable" if is_fixed else "no-cache"
    headers = {"Cache-Control": policy, "ETag": asset.tag, "Vary": "Accept-Encoding"}
    has_it = asset.tag in request.headers.get("if-none-match", "")
    if has_it and status is HTTPStatus.OK:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    content = asset.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = asset.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(
        content,
        status_code=status.value,
        headers=headers,
        media_type=asset.content_type,
    )
