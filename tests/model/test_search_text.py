"""What the words of a search mean, and what they are compared with."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.search_text import (
    ESCAPES,
    FOLDED_TO_ASCII,
    MAX_NEEDLES,
    missing,
    needles_of,
    terms_of,
    texts_in,
)

words = st.text(st.sampled_from("aEéßsSkK\u212aﬁi̇İſ \n\t\"'\\/:;.,{}[]12-\u0301漢"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=6,
)


def is_found(query: str, value: Any) -> bool:
    return not missing(terms_of(query), texts_in(value))


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("welcome email", ("welcome", "email")),
        ("  Welcome   EMAIL ", ("welcome", "email")),
        ('"two words" more', ("two words", "more")),
        ('"two \n words', ("two words",)),
        ('say "hi"', ("say", "hi")),
        ('n": 5"', ('n":', '5"')),
        ("a a A", ("a",)),
        (r"C:\temp", (r"c:\temp",)),
        ("Straße", ("strasse",)),
        ("cafe\u0301", ("café",)),
        ('  "" ', ()),
        ("", ()),
    ],
)
def test_a_query_is_words_and_phrases(query: str, terms: tuple[str, ...]) -> None:
    assert terms_of(query) == terms


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("welcome email", {"template": "email", "kind": "welcome"}),
        ("LLO w", "Hello World"),
        ('"hello world"', "Hello\n  World"),
        ('say "hi"', 'They say "hi" twice'),
        (r"C:\new", r"C:\new\folder"),
        ("first second", "first\nsecond"),
        ("a/b", "a/b"),
        ('5" disk', 'a disk of 5"'),
        ("user.id", {"user.id": 1}),
        ("42", {"n": 42}),
        ("-1.5 true null", [-1.5, True, None]),
        ("GRÖSSE", "größe"),
        ("größe", "GRO\u0308SSE"),
        ("kelvin", "\u212aelvin"),
        ("🚀", {"icon": "🚀"}),
        ("", None),
    ],
)
def test_words_are_found_as_people_see_them(query: str, data: Any) -> None:
    assert is_found(query, data)


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("welcome invoice", {"template": "email", "kind": "welcome"}),
        ('"world hello"', "Hello World"),
        ('"ann smith"', ["Ann", "Smith"]),
        ('n":', {"n": "12:30"}),
        ("{", {"n": 1}),
        (r"\n", "first\nsecond"),
        (r"\"", 'say "hi"'),
        ("u00e9", "\x00é"),
        ("cafe", "café"),
        ("cafe", "cafe\u0301"),
    ],
)
def test_json_is_not_found_and_accents_count(query: str, data: Any) -> None:
    assert not is_found(query, data)


@given(text=words)
def test_every_text_finds_itself(text: str) -> None:
    assert is_found(text, {"a": [text]})
    assert is_found(text, {text: 1})


@given(value=values, query=words)
def test_needles_are_in_all_that_matches(value: Any, query: str) -> None:
    """What an engine looks for never leaves out what matches."""
    terms = terms_of(query)
    for stored in (value, query, {query.swapcase(): 1}):
        if missing(terms, texts_in(stored)):
            continue
        raw = msgspec.json.encode(stored).decode()
        # As Lua and SQLite do: without regard to what is not ASCII.
        lower = raw.encode().lower().decode()
        is_uncertain = any(odd in raw for odd in (*FOLDED_TO_ASCII, *ESCAPES))
        assert is_uncertain or all(needle in lower for needle in needles_of(terms))


def test_every_character_that_stands_for_ascii_is_known() -> None:
    """Else an engine would leave out jobs that match."""
    others = (chr(code) for code in range(128, sys.maxunicode + 1))
    folded = {
        other for other in others if any(map(str.isascii, "".join(terms_of(other))))
    }

    assert folded == set(FOLDED_TO_ASCII)


def test_few_needles_are_enough() -> None:
    assert needles_of(terms_of("a bb ccc dddd")) == ("dddd", "ccc", "bb")
    assert needles_of(["漢字"]) == ()
    assert len(needles_of([str(number) for number in range(99)])) == MAX_NEEDLES
