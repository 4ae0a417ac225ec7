"""Who is logged in, who may log in, what programs may do, and who did what."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.http.auth.access import Role, Scope
from kue.http.auth.account_records import name_of
from kue.http.auth.login import AccountGuard, LocalAccountGuard
from kue.http.auth.open_mode import LocalhostGuard
from kue.http.auth.passwords import MAX_LENGTH, MIN_LENGTH
from kue.http.auth.tokens import ApiTokens
from kue.http.auth.users import UserAccounts
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import Refused, given
from kue.http.options import EnvironmentBadge
from kue.http.v1.job_json import MAX_PAGE, Span
from kue.model.duration import milliseconds

if TYPE_CHECKING:
    from kue.http.auth.access import User
    from kue.http.auth.tokens import ApiToken
    from kue.http.auth.users import UserAccount
    from kue.http.security.redaction import Redaction
    from kue.store.values import AuditEntry

session = Section("session", "Who is logged in.")
users = Section("users", "People who may log in.", prefix="/users")
tokens = Section(
    "tokens", "What programs show, and what they may do.", prefix="/tokens"
)
audit = Section("audit", "Who changed what, and when.")

SECTIONS = (session, users, tokens, audit)

UserName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
TokenId: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{12}$")]
Password: TypeAlias = Annotated[str, Meta(min_length=MIN_LENGTH, max_length=MAX_LENGTH)]
RoleName: TypeAlias = Literal["viewer", "operator", "admin"]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what they may do here."""

    name: str
    #: None for programs, which have scopes of their own.
    role: RoleName | None
    scopes: list[Scope]
    #: Whether nothing can be changed here, whatever the scopes.
    read_only: bool
    badge: EnvironmentBadge | None
    #: Whether there is a session to end.
    can_log_out: bool
    #: Whether nobody logs in here: users and tokens are made on the command line.
    open_mode: bool


class LoginForm(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in here."""

    #: A name and a password; the token that the server printed when it started; or the
    #: login of the application that this one is part of.
    kind: Literal["password", "token", "elsewhere"]


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who someone says they are."""

    name: Annotated[str, Meta(max_length=200)]
    password: Annotated[str, Meta(max_length=MAX_LENGTH)]


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new password for the user who is logged in."""

    current: Annotated[str, Meta(max_length=MAX_LENGTH)]
    password: Password


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """Someone who may log in."""

    name: str
    role: RoleName
    created_at: int


class UserList(msgspec.Struct, frozen=True):
    """All users, by name."""

    users: list[UserView]


class NewUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Someone who is to be able to log in."""

    name: UserName
    password: Password
    role: RoleName = "viewer"


class UserEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a user; another password ends all sessions."""

    role: RoleName | None = None
    password: Password | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    #: Who made it.
    by: str
    created_at: int
    #: Past this it is worth nothing; null when it lasts.
    until: int | None
    #: Within a minute; null when it never was.
    used_at: int | None


class TokenMade(TokenView, frozen=True, kw_only=True):
    """A new token, with the secret that is told this once."""

    secret: str


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, the oldest first."""

    tokens: list[TokenView]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token that is to be."""

    name: UserName
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(Scope))]
    #: After how long it is worth nothing: seconds, or text such as "90d".
    expires: Span | None = None


class ActView(msgspec.Struct, frozen=True, kw_only=True):
    """Something someone did, or was not let do."""

    id: int
    at: int
    who: str
    what: str
    target: str
    status: int
    address: str
    detail: str


class ActPage(msgspec.Struct, frozen=True):
    """Some acts, the newest first, and where the rest begins."""

    acts: list[ActView]
    cursor: str | None


class ActsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which acts to show."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    #: That of the page before.
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,15}$")] | None = None


# -- sessions ------------------------------------------------------------------


@session.get("/me", scope=None)
async def me(call: RequestContext) -> Me:
    """Who asks, and what they may do here; 401 when nobody is logged in."""
    guard = call.guard
    can_log_out = isinstance(guard, AccountGuard) and guard.is_session(call.request)
    return _me(call, call.user, can_log_out=can_log_out)


@session.get("/login", is_open=True, scope=None)
async def login_form(call: RequestContext) -> LoginForm:
    """How to log in here: by password, by the start-up token, or elsewhere."""
    match call.guard:
        case LocalAccountGuard():
            return LoginForm(
                kind="password" if await call.guard.has_users() else "token"
            )
        case AccountGuard():
            return LoginForm(kind="password")
        case LocalhostGuard():
            return LoginForm(kind="token")
    return LoginForm(kind="elsewhere")


@session.post("/login", is_open=True, scope=None)
async def login(call: RequestContext, body: Credentials) -> Me:
    """
    Begin a session, which lives in a cookie.

    It is over after 12 hours without use, after 7 days, by logging out and by another
    password.  Too many failures are 429, and take longer each time.
    """
    accounts = _accounts(call)
    try:
        user, cookie = await accounts.log_in(call.request, body.name, body.password)
    except Refused as exc:
        if exc.status is HTTPStatus.UNAUTHORIZED:
            await call.audit.note(call.request, _said(body.name), "login", exc.status)
        raise
    call.headers["Set-Cookie"] = cookie
    await call.audit.note(call.request, user.name, "login", HTTPStatus.OK)
    return _me(call, user, can_log_out=True)


@session.post("/logout", scope=None, status=HTTPStatus.NO_CONTENT)
async def logout(call: RequestContext) -> None:
    """End the session."""
    accounts = _accounts(call)
    call.headers["Set-Cookie"] = await accounts.log_out(call.request)
    await call.audit.note(call.request, call.user.name, "logout", HTTPStatus.NO_CONTENT)


@session.put("/me/password", scope=None, status=HTTPStatus.NO_CONTENT)
async def change_password(call: RequestContext, body: NewPassword) -> None:
    """
    Change the password of the user who is logged in; their other sessions end.

    A wrong current password is 403; too many are 429, as for logins.
    """
    accounts = _accounts(call)
    if call.user.role is None or not accounts.is_session(call.request):
        raise Refused(HTTPStatus.FORBIDDEN, "only people who logged in have a password")
    call.rules.check_change()
    note = partial(call.audit.note, call.request, call.user.name, "password")
    try:
        with given("body.password"):
            call.headers["Set-Cookie"] = await accounts.change_password(
                call.request, call.user.name, body.current, body.password
            )
    except Refused as exc:
        if exc.status is HTTPStatus.FORBIDDEN:
            await note(exc.status)
        raise
    await note(HTTPStatus.NO_CONTENT)


def _me(call: RequestContext, user: User, *, can_log_out: bool) -> Me:
    return Me(
        name=user.name,
        role=None if user.role is None else _role(user.role),
        scopes=[scope for scope in Scope if user.may(scope)],
        read_only=call.rules.read_only,
        badge=call.rules.badge,
        can_log_out=can_log_out,
        open_mode=user.is_open,
    )


def _accounts(call: RequestContext) -> AccountGuard:
    if not isinstance(call.guard, AccountGuard):
        raise Refused(
            HTTPStatus.NOT_FOUND, "nobody logs in here: the server has no accounts"
        )
    return call.guard


def _check_login(call: RequestContext) -> None:
    """
    Let those decide who may come in that did log in themselves.

    Raises:
        Refused: Nobody logs in here, so nobody is to make a way in that lasts.
    """
    if call.user.is_open:
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "users and tokens are managed on the command line while nobody has to log "
            "in: kue user add NAME --role admin, kue token add NAME --scope read",
        )


def _said(name: str) -> str:
    """Return a name that was given, if it can be one: people mix up fields."""
    try:
        return name_of(name)
    except ValueError:
        return ""


def _role(role: Role) -> RoleName:
    match role:
        case Role.VIEWER:
            return "viewer"
        case Role.OPERATOR:
            return "operator"
        case Role.ADMIN:
            return "admin"


# -- users ---------------------------------------------------------------------


@users.get("", scope=Scope.ADMIN)
async def list_users(call: RequestContext) -> UserList:
    """All users."""
    return UserList([_user(account) for account in await _users(call).all()])


@users.post("", scope=Scope.ADMIN, status=HTTPStatus.CREATED)
async def add_user(call: RequestContext, body: NewUser) -> UserView:
    """Add a user; a name that is taken is 409."""
    _check_login(call)
    with given("body.name"):
        account = await _users(call).add(body.name, body.password, Role.of(body.role))
    return _user(account)


@users.put("/{name}", scope=Scope.ADMIN)
async def edit_user(call: RequestContext, name: UserName, body: UserEdit) -> UserView:
    """Give a user another role or password; a password ends all sessions."""
    _check_login(call)
    known = _users(call)
    account = await known.get(name)
    if body.role is not None and body.role != account.role.label:
        await _check_last(known, account)
        account = await known.set_role(name, Role.of(body.role))
    if body.password is not None:
        with given("body.password"):
            account = await known.set_password(name, body.password)
    return _user(account)


@users.delete("/{name}", scope=Scope.ADMIN, status=HTTPStatus.NO_CONTENT)
async def remove_user(call: RequestContext, name: UserName) -> None:
    """Remove a user and end all sessions; the last admin stays (409)."""
    _check_login(call)
    known = _users(call)
    await _check_last(known, await known.get(name))
    await known.remove(name)


def _users(call: RequestContext) -> UserAccounts:
    guard = call.guard
    return (
        guard.users if isinstance(guard, AccountGuard) else UserAccounts(call.q.store)
    )


async def _check_last(known: UserAccounts, account: UserAccount) -> None:
    """Raise `Refused` when nobody could say who may do what without *account*."""
    admins = [one.name for one in await known.all() if one.role is Role.ADMIN]
    if admins == [account.name]:
        raise Refused(
            HTTPStatus.CONFLICT,
            f"{account.name!r} is the last admin; make someone else one first",
        )


def _user(account: UserAccount) -> UserView:
    return UserView(
        name=account.name, role=_role(account.role), created_at=account.created_at
    )


# -- tokens --------------------------------------------------------------------


@tokens.get("", scope=Scope.ADMIN)
async def list_tokens(call: RequestContext) -> TokenList:
    """All tokens; their secrets are not known."""
    known = await ApiTokens(call.q.store).all()
    return TokenList([TokenView(**_token(token)) for token in known])


@tokens.post("", scope=Scope.ADMIN, status=HTTPStatus.CREATED)
async def add_token(call: RequestContext, body: NewToken) -> TokenMade:
    """Make a token; its secret is told now and never again."""
    _check_login(call)
    until = None
    if body.expires is not None:
        with given("body.expires"):
            until = await call.q.now() + milliseconds(body.expires)
    with given("body.name"):
        token, secret = await ApiTokens(call.q.store).add(
            body.name, body.scopes, by=call.user.name, until=until
        )
    return TokenMade(**_token(token), secret=secret)


@tokens.delete("/{token_id}", scope=Scope.ADMIN, status=HTTPStatus.NO_CONTENT)
async def revoke_token(call: RequestContext, token_id: TokenId) -> None:
    """Revoke a token, at once."""
    _check_login(call)
    await ApiTokens(call.q.store).remove(token_id)


def _token(token: ApiToken) -> dict[str, Any]:
    shown = msgspec.structs.asdict(token)
    del shown["secret"]
    return {**shown, "scopes": list(token.scopes)}


# -- the audit log -------------------------------------------------------------


@audit.get("/audit", scope=Scope.ADMIN)
async def list_acts(call: RequestContext, query: ActsQuery) -> ActPage:
    """
    Who changed what, the newest first; the last 10,000 are kept.

    Every change that was made or not allowed, logins, failed ones too, and logouts.
    """
    page = await call.q.store.acts(query.limit, query.cursor)
    shown = [_shown_act(act, call.redaction) for act in page.acts]
    return ActPage(shown, page.cursor)


def _shown_act(act: AuditEntry, redaction: Redaction) -> ActView:
    shown = msgspec.structs.asdict(act)
    # Commands know nothing of what is hidden here; requests are noted without it.
    if act.who.startswith("cli:"):
        shown |= {name: redaction.text(shown[name]) for name in ("target", "detail")}
    return ActView(**shown)
