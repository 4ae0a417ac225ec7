"""Accounts: login sessions, users, API tokens and the audit log."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.client.new_job import Span
from kue.http.auth.account_guard import AccountGuard, LocalAccountGuard
from kue.http.auth.account_records import valid_name
from kue.http.auth.passwords import MAX_LENGTH, MIN_LENGTH
from kue.http.auth.roles import Role, RoleName, Scope
from kue.http.auth.startup_token import LocalhostGuard
from kue.http.auth.tokens import ApiTokens
from kue.http.auth.users import UserAccounts
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import Refused, forbidden, input_errors, not_found
from kue.http.options import EnvironmentBadge
from kue.http.v1.job_json import MAX_PAGE
from kue.model.duration import milliseconds
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.http.auth.access import User
    from kue.http.auth.users import UserAccount

session = Section("session", "Login, logout and the current user.")
users = Section("users", "Users who can log in.", prefix="/users")
tokens = Section(
    "tokens", "API tokens of programs, and their scopes.", prefix="/tokens"
)
audit = Section("audit", "The audit log: who changed what, and when.")

SECTIONS = (session, users, tokens, audit)

UserName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
TokenId: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{12}$")]
Password: TypeAlias = Annotated[str, Meta(min_length=MIN_LENGTH, max_length=MAX_LENGTH)]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The current user, and what they may do here."""

    name: str
    #: None for programs, which have their own scopes.
    role: RoleName | None
    scopes: list[Scope]
    #: Whether nothing can be changed here, whatever the scopes.
    read_only: bool
    badge: EnvironmentBadge | None
    #: Whether there is a session to end.
    can_log_out: bool
    #: Whether no login is needed: users and tokens are managed on the command line.
    open_mode: bool


class LoginForm(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in."""

    #: A name and a password; the token that the server printed when it started; or the
    #: login of the application that this one is part of.
    kind: Literal["password", "token", "elsewhere"]


class Credentials(Input, frozen=True):
    """The name and password of a user."""

    name: Annotated[str, Meta(max_length=200)]
    password: Annotated[str, Meta(max_length=MAX_LENGTH)]


class NewPassword(Input, frozen=True):
    """A new password for the user who is logged in."""

    current: Annotated[str, Meta(max_length=MAX_LENGTH)]
    password: Password


class UserView(View, frozen=True, kw_only=True):
    """A user who can log in."""

    name: str
    role: RoleName
    created_at: int


class UserList(msgspec.Struct, frozen=True):
    """All users, by name."""

    users: list[UserView]


class NewUser(Input, frozen=True, kw_only=True):
    """A user to add."""

    name: UserName
    password: Password
    role: RoleName = "viewer"


class UserEdit(Input, frozen=True, kw_only=True):
    """Changes to a user; a new password ends all sessions."""

    role: RoleName | None = None
    password: Password | None = None


class TokenView(View, frozen=True, kw_only=True):
    """A token, without its secret."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    #: The user who created it.
    by: str
    created_at: int
    #: When it expires; null if never.
    until: int | None
    #: When it was last used, within a minute; null if never.
    used_at: int | None


class TokenMade(TokenView, frozen=True, kw_only=True):
    """A new token, with the secret that is returned only once."""

    secret: str


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, the oldest first."""

    tokens: list[TokenView]


class NewToken(Input, frozen=True, kw_only=True):
    """A token to create."""

    name: UserName
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(Scope))]
    #: After how long it expires: seconds, or text such as "90d".
    expires: Span | None = None


class ActView(View, frozen=True, kw_only=True):
    """An entry of the audit log: what a user did, or was not allowed to do."""

    id: int
    at: int
    who: str
    what: str
    target: str
    status: int
    address: str
    detail: str


class ActPage(msgspec.Struct, frozen=True):
    """Entries of the audit log, newest first, and the cursor of the next page."""

    acts: list[ActView]
    cursor: str | None


class ActsQuery(Input, frozen=True, kw_only=True):
    """Which entries of the audit log to show."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    #: The one of the previous page.
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,15}$")] | None = None


# -- sessions ------------------------------------------------------------------


@session.get("/me", scope=None)
async def me(context: RequestContext) -> Me:
    """The current user, and what they may do here; 401 if nobody is logged in."""
    guard = context.guard
    can_log_out = isinstance(guard, AccountGuard) and guard.is_session(context.request)
    return _me(context, context.user, can_log_out=can_log_out)


@session.get("/login", is_open=True, scope=None)
async def login_form(context: RequestContext) -> LoginForm:
    """How to log in: by password, by the start-up token, or elsewhere."""
    match context.guard:
        case LocalAccountGuard():
            has_users = await context.guard.has_users()
            return LoginForm(kind="password" if has_users else "token")
        case AccountGuard():
            return LoginForm(kind="password")
        case LocalhostGuard():
            return LoginForm(kind="token")
    return LoginForm(kind="elsewhere")


@session.post("/login", is_open=True, scope=None)
async def login(context: RequestContext, body: Credentials) -> Me:
    """
    Begin a session, which is kept in a cookie.

    It ends after 12 hours without use, after 7 days, on logout and when the password
    changes.  Too many failures are a 429, with a longer wait each time.
    """
    accounts = _accounts(context)
    try:
        user, cookie = await accounts.log_in(context.request, body.name, body.password)
    except Refused as exc:
        if exc.status is HTTPStatus.UNAUTHORIZED:
            # An invalid name may be a password: people mix up fields.
            await context.audit.note(
                context.request, valid_name(body.name), "login", exc.status
            )
        raise
    context.headers["Set-Cookie"] = cookie
    await context.audit.note(context.request, user.name, "login", HTTPStatus.OK)
    return _me(context, user, can_log_out=True)


@session.post("/logout", scope=None, status=HTTPStatus.NO_CONTENT)
async def logout(context: RequestContext) -> None:
    """End the session."""
    accounts = _accounts(context)
    context.headers["Set-Cookie"] = await accounts.log_out(context.request)
    await context.audit.note(
        context.request, context.user.name, "logout", HTTPStatus.NO_CONTENT
    )


@session.put("/me/password", scope=None, status=HTTPStatus.NO_CONTENT)
async def change_password(context: RequestContext, body: NewPassword) -> None:
    """
    Change the password of the user who is logged in; their other sessions end.

    A wrong current password is a 403; too many are a 429, as for logins.
    """
    accounts = _accounts(context)
    if context.user.role is None or not accounts.is_session(context.request):
        raise forbidden("only users who logged in have a password")
    context.options.check_change()
    note = partial(context.audit.note, context.request, context.user.name, "password")
    try:
        with input_errors("body.password"):
            context.headers["Set-Cookie"] = await accounts.change_password(
                context.request, context.user.name, body.current, body.password
            )
    except Refused as exc:
        if exc.status is HTTPStatus.FORBIDDEN:
            await note(exc.status)
        raise
    await note(HTTPStatus.NO_CONTENT)


def _me(context: RequestContext, user: User, *, can_log_out: bool) -> Me:
    return Me(
        name=user.name,
        role=None if user.role is None else user.role.label,
        scopes=[scope for scope in Scope if user.may(scope)],
        read_only=context.options.read_only,
        badge=context.options.badge,
        can_log_out=can_log_out,
        open_mode=user.is_open,
    )


def _accounts(context: RequestContext) -> AccountGuard:
    if not isinstance(context.guard, AccountGuard):
        raise not_found("there is no login here: the server has no accounts")
    return context.guard


def _check_login(context: RequestContext) -> None:
    """Raise `Refused` in open mode, in which nobody may create lasting access."""
    if context.user.is_open:
        raise forbidden(
            "users and tokens are managed on the command line while no login is "
            "needed: kue user add NAME --role admin, kue token add NAME --scope read"
        )


# -- users ---------------------------------------------------------------------


@users.get("", scope=Scope.ADMIN)
async def list_users(context: RequestContext) -> UserList:
    """All users."""
    return UserList([_user(account) for account in await _users(context).all()])


@users.post("", scope=Scope.ADMIN, status=HTTPStatus.CREATED)
async def add_user(context: RequestContext, body: NewUser) -> UserView:
    """Add a user; 409 if the name is taken."""
    _check_login(context)
    with input_errors("body.name"):
        account = await _users(context).add(
            body.name, body.password, Role.of(body.role)
        )
    return _user(account)


@users.put("/{name}", scope=Scope.ADMIN)
async def edit_user(
    context: RequestContext, name: UserName, body: UserEdit
) -> UserView:
    """Change the role or password of a user; a new password ends all sessions."""
    _check_login(context)
    accounts = _users(context)
    account = await accounts.get(name)
    if body.role is not None and body.role != account.role.label:
        await _check_last(accounts, account)
        account = await accounts.set_role(name, Role.of(body.role))
    if body.password is not None:
        with input_errors("body.password"):
            account = await accounts.set_password(name, body.password)
    return _user(account)


@users.delete("/{name}", scope=Scope.ADMIN, status=HTTPStatus.NO_CONTENT)
async def remove_user(context: RequestContext, name: UserName) -> None:
    """Remove a user and end all sessions; 409 for the last admin."""
    _check_login(context)
    accounts = _users(context)
    await _check_last(accounts, await accounts.get(name))
    await accounts.remove(name)


def _users(context: RequestContext) -> UserAccounts:
    if isinstance(context.guard, AccountGuard):
        return context.guard.users
    return UserAccounts(context.q.store)


async def _check_last(accounts: UserAccounts, account: UserAccount) -> None:
    """Raise `Refused` if *account* is the only admin."""
    admins = [one.name for one in await accounts.all() if one.role is Role.ADMIN]
    if admins == [account.name]:
        raise Refused(
            HTTPStatus.CONFLICT,
            f"{account.name!r} is the last admin; make another user an admin first",
        )


def _user(account: UserAccount) -> UserView:
    return UserView.of(account, role=account.role.label)


# -- tokens --------------------------------------------------------------------


@tokens.get("", scope=Scope.ADMIN)
async def list_tokens(context: RequestContext) -> TokenList:
    """All tokens, without their secrets."""
    found = await ApiTokens(context.q.store).all()
    return TokenList([TokenView.of(token) for token in found])


@tokens.post("", scope=Scope.ADMIN, status=HTTPStatus.CREATED)
async def add_token(context: RequestContext, body: NewToken) -> TokenMade:
    """Create a token; its secret is returned now and never again."""
    _check_login(context)
    until = None
    if body.expires is not None:
        with input_errors("body.expires"):
            until = await context.q.now() + milliseconds(body.expires)
    with input_errors("body.name"):
        token, secret = await ApiTokens(context.q.store).add(
            body.name, body.scopes, by=context.user.name, until=until
        )
    return TokenMade.of(token, secret=secret)


@tokens.delete("/{token_id}", scope=Scope.ADMIN, status=HTTPStatus.NO_CONTENT)
async def revoke_token(context: RequestContext, token_id: TokenId) -> None:
    """Revoke a token immediately."""
    _check_login(context)
    await ApiTokens(context.q.store).remove(token_id)


# -- the audit log -------------------------------------------------------------


@audit.get("/audit", scope=Scope.ADMIN)
async def list_acts(context: RequestContext, query: ActsQuery) -> ActPage:
    """
    The audit log: who changed what, newest first.

    It has every change that was made or not allowed, logins, failed logins and logouts.
    The last 10,000 entries are kept.
    """
    page = await context.q.store.acts(query.limit, query.cursor)
    shown = []
    for act in page.acts:
        # Unlike requests, commands do not redact their entries.
        hide = context.redaction.text if act.who.startswith("cli:") else str
        shown.append(ActView.of(act, target=hide(act.target), detail=hide(act.detail)))
    return ActPage(shown, page.cursor)
