"""
Authentication and access: users, login sessions, API tokens, roles and scopes.

Accounts are kept in the queue's own store.  What is exported here needs no HTTP.
"""

from kue.http.auth.account_records import AccountError, NameTaken, NoSuchAccount
from kue.http.auth.passwords import PasswordHasher
from kue.http.auth.roles import Role, Scope
from kue.http.auth.sessions import LoginSession, LoginSessions
from kue.http.auth.tokens import ApiToken, ApiTokens
from kue.http.auth.users import UserAccount, UserAccounts

__all__ = [
    "AccountError",
    "ApiToken",
    "ApiTokens",
    "LoginSession",
    "LoginSessions",
    "NameTaken",
    "NoSuchAccount",
    "PasswordHasher",
    "Role",
    "Scope",
    "UserAccount",
    "UserAccounts",
]
