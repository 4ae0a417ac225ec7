"""The parts of a Redis store's check that touch no Redis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.draft import draft
from kue.model.settings import Settings
from kue.store.codec import body_of
from kue.store.redis.doctor.bitset import Bitset
from kue.store.redis.doctor.check import CheckProgress
from kue.store.redis.doctor.job_facts import (
    Dependency,
    JobHints,
    job_subject,
    parse_dependency,
    parse_facts,
)
from kue.store.redis.doctor.job_record import is_sound, parents_of
from kue.store.redis.doctor.key_parsing import KnownKey, glob, parse_key
from kue.store.redis.doctor.rule import listed
from kue.store.redis.doctor.shard_access import Inspection, Shard
from kue.store.redis.keys import JOB_KEYS, LIVE_CHUNK, SHARD_KEYS, TYPE_KEYS
from kue.store.redis.sharding import Shards

SHARD = Shard(Shards(Settings(url="redis://localhost")), 0, [])
numbers = st.sets(st.integers(0, 3 * LIVE_CHUNK), max_size=50)


def bits_of(values: set[int]) -> Bitset:
    bits = Bitset()
    for value in values:
        assert bits.add(value)
    return bits


# -- bits ----------------------------------------------------------------------


@given(numbers, numbers)
def test_bits_are_a_set_of_numbers(ones: set[int], others: set[int]) -> None:
    bits = bits_of(ones)

    assert list(bits) == sorted(ones)
    assert len(bits) == len(ones)
    assert list(bits.without(bits_of(others))) == sorted(ones - others)
    assert {value for value in ones | others if value in bits} == ones
    assert bits.highest == max(ones, default=0)


def test_a_number_is_new_once() -> None:
    bits = Bitset()

    assert [bits.add(7), bits.add(7)] == [True, False]


def test_a_bitmap_is_taken_over_as_redis_has_it() -> None:
    """Redis counts bits from the left and leaves off what is empty at the end."""
    bits = Bitset()
    bits.load(2, b"\x80\x01")
    bits.load(3, b"")

    assert list(bits) == [2 * LIVE_CHUNK, 2 * LIVE_CHUNK + 15]


def test_an_empty_bitmap_has_no_highest_number() -> None:
    bits = bits_of({3})
    bits.load(1, b"\0\0")

    assert bits.highest == 3


def test_a_bitmap_that_is_too_long_is_cut_off() -> None:
    bits = Bitset()
    bits.load(0, b"\0" * (LIVE_CHUNK // 8) + b"\xff")

    assert list(bits) == []


# -- keys ----------------------------------------------------------------------

KNOWN = [
    *(KnownKey(name, kind, "shard", name) for name, kind in SHARD_KEYS.items()),
    *(
        KnownKey(f"a b:{name}", kind, "type", name, "a b")
        for name, kind in TYPE_KEYS.items()
    ),
    *(
        KnownKey(f"job:12:{name}", kind, "part", name, number=12)
        for name, kind in JOB_KEYS.items()
    ),
    KnownKey("job:12", "string", "record", number=12),
    KnownKey("live:0", "string", "live", number=0),
    KnownKey("stats:30000000", "hash", "stats", number=30_000_000),
    KnownKey("producers:500000", "hash", "producers", number=500_000),
    KnownKey("email:held:a%3Ab", "zset", "held", "a%3Ab", "email"),
    # Types may be called like anything that is not a type.
    KnownKey("job:waiting", "zset", "type", "waiting", "job"),
    KnownKey("live:wake", "zset", "type", "wake", "live"),
    KnownKey("stats:held:7", "zset", "held", "7", "stats"),
    KnownKey("job:held:log", "zset", "held", "log", "job"),
]


@pytest.mark.parametrize("key", KNOWN, ids=lambda key: key.text)
def test_every_key_of_the_table_is_known(key: KnownKey) -> None:
    assert parse_key(key.text) == key


UNKNOWN = """
    : events job: job:x job:01 job:1:x job:1:log:x live:a stats:-1 job:١ email:1
    email: :waiting email:x email:held: email:held:a:b a%zz:waiting a{b}:waiting
"""


@pytest.mark.parametrize("text", ["", *UNKNOWN.split()])
def test_no_other_key_is_known(text: str) -> None:
    assert parse_key(text) is None


def test_only_what_is_kept_for_a_while_may_expire() -> None:
    names = {key.text.partition(":")[0] for key in KNOWN if key.may_expire}

    assert names == {"stats", "producers"}


def test_a_tag_that_looks_like_a_pattern_matches_itself_only() -> None:
    assert glob("{a*b?[c]\\d}") == "{a\\*b\\?\\[c\\]\\\\d}"


# -- what needs no closer look -------------------------------------------------

RECORD = b"-5\t1800000000000\temail\n" + body_of(draft("email", {"i": 1}).spec)
SCORE = float(-5 * 2**41 + 7)
ENDED = RECORD + b'\n{"run":"","at":1800000000001,"outcome":"cancelled","reason":"x"}'


def test_most_jobs_need_no_closer_look() -> None:
    assert is_sound(7, 7, b"email", "waiting", SCORE, RECORD)
    assert is_sound(7, 7, b"email", "delayed", 1.8e12, RECORD)
    assert is_sound(7, 7, b"email", "cancelled", 1.8e12, ENDED)


@pytest.mark.parametrize(
    ("job_type", "place", "score", "record"),
    [
        (b"email", "waiting", SCORE, None),
        (b"email", "waiting", SCORE, b""),
        (b"email", "waiting", SCORE, b"*" + RECORD),
        (b"email", "waiting", SCORE, RECORD[:-1]),
        (b"email", "waiting", SCORE, ENDED[:-1]),
        (b"email", "waiting", SCORE + 1, RECORD),
        (b"email", "delayed", float("inf"), RECORD),
        (b"email", "complete", 0.5, ENDED),
        (b"email", "held", SCORE, RECORD),
        (b"email", "blocked", 7.0, RECORD),
        (b"sms", "waiting", SCORE, RECORD),
    ],
)
def test_anything_else_is_looked_at_closely(
    job_type: bytes, place: str, score: float, record: bytes | None
) -> None:
    assert not is_sound(7, 7, job_type, place, score, record)


def test_a_record_says_what_its_job_waits_for() -> None:
    body = body_of(draft("email", after=[3, 4]).spec)

    assert parents_of(7, b"0\t1\temail\n" + body) == {3, 4}
    assert parents_of(7, b"garbage") == set()
    assert parents_of(7, None) == set()


# -- facts ---------------------------------------------------------------------


def test_facts_are_read_as_they_were_told() -> None:
    flat = [b"record", b"", b"0\t1\temail\n{}", b"in", b"email:waiting", b"7"]
    flat += [b"has", b"email:tries", b"1:0", b"held", b"email:held:g", b"7"]
    flat += [b"unique", b"", b"9:0", b"holder", b"9", b"active", b"holds", b"9", b"1"]
    flat += [b"part", b"log", b"1", b"live", b"", b"1", b"dependency", b"5"]
    flat += [b"awaited known then:complete"]
    flat += [b"dependency", b"nobody", b"awaited :"]

    facts = parse_facts(Inspection(SHARD, ("job", 7), b"digest", flat, 99))

    assert (facts.job_id, facts.inspection.digest, facts.now) == (7, b"digest", 99)
    assert facts.record == b"0\t1\temail\n{}"
    assert facts.found_in == {("email", "waiting"): "7"}
    assert facts.entries == {("email", "tries"): "1:0"}
    assert facts.held == {("email", "g"): "7"}
    assert (facts.holder, facts.holder_standing) == (9, "active")
    assert facts.parts == {"log"}
    assert facts.marks == {"unique": "9:0", "holds": "1", "live": "1"}
    marks = frozenset({"awaited", "then", "known"})
    assert facts.dependencies == [Dependency(5, marks, "complete")]
    assert facts.odd_parents == [b"nobody"]


def test_damage_that_is_no_text_can_still_be_shown() -> None:
    flat = [b"in", b"email:active", b"\xff\xfe"]

    facts = parse_facts(Inspection(SHARD, ("job", 7), b"", flat, 0))

    assert facts.found_in == {("email", "active"): "\\xff\\xfe"}


def test_a_parent_elsewhere_is_not_known_until_it_is_asked() -> None:
    awaited, linking = frozenset({"awaited"}), frozenset({"awaited", "link"})
    assert parse_dependency(5, b"awaited :") == Dependency(5, awaited)
    assert parse_dependency(5, b"awaited link :") == Dependency(5, linking)


def test_a_job_is_asked_about_in_the_same_words_every_time() -> None:
    """Or a repair would compare two different digests."""
    subject = job_subject(7, JobHints({"b", "a"}, {30, 4}))

    assert subject == ("job", 7, 2, "a", "b", 4, 30)


# -- telling -------------------------------------------------------------------


def test_progress_never_goes_back_and_ends_at_the_total() -> None:
    reported: list[tuple[int, int]] = []
    steps = CheckProgress(lambda *step: reported.append(step))

    steps.begin(1000)
    for _ in range(1200):
        steps.advance(1)
    steps.finish()

    assert reported == sorted(reported)
    assert reported[0] == (0, 1000)
    assert reported[-1] == (1000, 1000)
    assert 100 < len(reported) < 500


def test_nobody_need_listen_to_the_progress() -> None:
    steps = CheckProgress(None)
    steps.begin(1)
    steps.advance(1)
    steps.finish()


def test_things_are_listed_as_one_says_them() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"], "and in") == "a, b and in c"
