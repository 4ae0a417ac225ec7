"""Names, and how they are written in keys."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.names import MAX_BYTES, check_name, check_path_name, quote, unquote

names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")),
    min_size=1,
    max_size=50,
)


@given(names)
def test_any_text_without_control_characters_is_a_name(name: str) -> None:
    assert check_name(name, what="type") == name


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_quoted_is_read_back_as_it_was(name: str) -> None:
    assert unquote(quote(name)) == name


@given(names, names)
def test_two_names_are_never_written_alike(one: str, other: str) -> None:
    assert (quote(one) == quote(other)) == (one == other)


@given(st.text(st.characters(codec="utf-8")))
def test_a_quoted_name_has_nothing_that_structures_a_key_or_a_line(name: str) -> None:
    quoted = quote(name)

    assert not re.search(r'[{}:"\\\x00-\x1f\x7f]', quoted)
    assert json.loads(f'"{quoted}"') == quoted


def test_a_percent_sign_in_a_name_is_no_encoding() -> None:
    assert quote("100%3A") == "100%253A"
    assert unquote("100%253A") == "100%3A"


def test_a_name_may_look_like_a_key_of_ours() -> None:
    assert quote("{kue}:job:1") == "%7Bkue%7D%3Ajob%3A1"


def test_a_name_is_counted_in_bytes() -> None:
    assert check_name("ä" * 100, what="type") == "ä" * 100

    with pytest.raises(ValueError, match=r"type must have 1 to 200 bytes.*has 202"):
        check_name("ä" * 101, what="type")


def test_the_longest_name_is_allowed() -> None:
    assert check_name("x" * MAX_BYTES, what="type")


@pytest.mark.parametrize("name", ["a\nb", "\t", "\x00", "\x7f", "a\u2028b", "\x85"])
def test_control_characters_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"tag .* must not contain control characters"):
        check_name(name, what="tag")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"group must have 1 to 200 bytes"):
        check_name("", what="group")


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is not valid Unicode"):
        check_name("\ud800", what="type")


@pytest.mark.parametrize("name", [None, 7, b"email", ["email"]])
def test_a_name_is_text(name: object) -> None:
    with pytest.raises(TypeError, match=r"type must be text, not"):
        check_name(name, what="type")


@pytest.mark.parametrize("name", [".", ".."])
def test_s_3_what_a_url_takes_for_a_folder_is_not_a_name_in_its_path(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"must not be '.*': in a URL it means a folder"
    ):
        check_path_name(name, what="type")


@pytest.mark.parametrize("name", ["...", ".a", "a..", "/", "../x"])
def test_s_3_other_dots_may_stand_in_the_path_of_a_url(name: str) -> None:
    assert check_path_name(name, what="type") == name
