"""
People and programs that may look after a queue: users, their sessions, API tokens.

They are kept in the queue's own store.  Nothing here knows of HTTP.
"""

from kue.accounts.passwords import Hasher
from kue.accounts.records import AccountError, NameTaken, NoSuchAccount
from kue.accounts.roles import Role, Scope
from kue.accounts.sessions import Session, Sessions
from kue.accounts.tokens import Token, Tokens
from kue.accounts.users import Account, Users

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
