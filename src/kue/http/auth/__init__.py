"""
People and programs that may look after a queue: users, their sessions, API tokens.

They are kept in the queue's own store.  Nothing here knows of HTTP.
"""

from kue.http.auth.account_records import AccountError, NameTaken, NoSuchAccount
from kue.http.auth.passwords import Hasher
from kue.http.auth.roles import Role, Scope
from kue.http.auth.sessions import Session, Sessions
from kue.http.auth.tokens import Token, Tokens
from kue.http.auth.users import Account, Users

__all__ = [
    "Account",
    "AccountError",
    "Hasher",
    "NameTaken",
    "NoSuchAccount",
    "Role",
    "Scope",
    "Session",
    "Sessions",
    "Token",
    "Tokens",
    "Users",
]
