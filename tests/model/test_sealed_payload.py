"""Envelopes: what they protect, what they are bound to, and what is refused."""

from __future__ import annotations

import base64
import sys
import zlib

import pytest

from kue.model.draft import draft
from kue.model.errors import ConfigError, PayloadRefused
from kue.model.payload import decode
from kue.model.payload_keys import PayloadKey, Protection, new_key
from kue.model.sealed_payload import (
    PREFIX,
    Envelope,
    Place,
    Sealed,
    Sealer,
    binding_to_job,
    binding_to_key,
    binding_to_schedule,
    data_of,
    place_in,
)

ONE, TWO = (PayloadKey.read(new_key(name)) for name in ("one", "two"))
DATA = b'{"to":"ann","n":[1,2,3]}'
PROTECTIONS: list[Protection] = ["sign", "encrypt"]
EMAIL = draft("email", None, tags=["schedule:daily: at 9"], unique="a:b=c")
PLACE = data_of(EMAIL, 17)

protected = pytest.mark.parametrize("protection", PROTECTIONS)


def sealed(sealer: Sealer, place: Place = PLACE, text: bytes = DATA) -> str:
    envelope = decode(sealer.seal(text, "job=17", place))
    assert isinstance(envelope, str)
    return envelope


@protected
def test_a_value_comes_back_as_it_was(protection: Protection) -> None:
    sealer = Sealer((ONE,), protection)

    envelope = sealed(sealer)

    assert envelope.startswith(f"{PREFIX}one:{protection[0]}:job=17:")
    assert sealer.open(envelope, PLACE) == {"to": "ann", "n": [1, 2, 3]}


def test_an_encrypted_value_does_not_show_what_it_is_and_differs_each_time() -> None:
    sealer = Sealer((ONE,), "encrypt")
    one, two = sealed(sealer), sealed(sealer)

    assert one != two
    assert b"ann" not in base64.b64decode(one.rpartition(":")[2])


@protected
def test_any_changed_byte_is_refused(protection: Protection) -> None:
    sealer = Sealer((ONE,), protection)
    head, _, text = sealed(sealer).rpartition(":")
    body = base64.b64decode(text)

    for at in range(len(body)):
        changed = bytearray(body)
        changed[at] ^= 1
        with pytest.raises(PayloadRefused, match=r"key 'one'.* changed since"):
            sealer.open(f"{head}:{base64.b64encode(changed).decode()}", PLACE)


@protected
@pytest.mark.parametrize("length", [0, 11, 24, 31, 40])
def test_a_shortened_value_is_refused(protection: Protection, length: int) -> None:
    sealer = Sealer((ONE,), protection)
    head, _, text = sealed(sealer).rpartition(":")
    short = base64.b64encode(base64.b64decode(text)[:length]).decode()

    with pytest.raises(PayloadRefused, match="changed since"):
        sealer.open(f"{head}:{short}", PLACE)


@protected
def test_the_head_of_an_envelope_is_authenticated(protection: Protection) -> None:
    sealer = Sealer((ONE, TWO), protection, compress_over=10_000)
    envelope = sealed(sealer)
    how = f":{protection[0]}:"
    for old, new in [(":one:", ":two:"), (how, f"{how[:-1]}z:")]:
        with pytest.raises(PayloadRefused, match="changed since"):
            sealer.open(envelope.replace(old, new), PLACE)

    # Not even where the place is that of another job.
    other = envelope.replace("job=17", "job=18")
    with pytest.raises(PayloadRefused, match="changed since"):
        sealer.open(other, data_of(EMAIL, 18))


@protected
def test_a_value_opens_only_in_its_own_place(protection: Protection) -> None:
    sealer = Sealer((ONE,), protection)
    envelope = sealed(sealer)

    with pytest.raises(PayloadRefused, match=r"sealed for another job \(job=17\)"):
        sealer.open(envelope, data_of(EMAIL, 18))
    for place in (data_of(draft("sms"), 17), place_in(17, "result")):
        with pytest.raises(PayloadRefused, match="another job, task or field"):
            sealer.open(envelope, place)


def test_an_envelope_may_be_bound_to_a_unique_key_or_a_schedule() -> None:
    sealer = Sealer((ONE,), "sign")
    for binding in (binding_to_key("a:b=c"), binding_to_schedule("daily: at 9")):
        envelope = decode(sealer.seal(DATA, binding, PLACE))
        assert sealer.open(envelope, PLACE) == decode(DATA)
        with pytest.raises(PayloadRefused, match="sealed for another job"):
            sealer.open(envelope, data_of(draft("email", unique="x"), 17))


def test_the_first_key_seals_and_all_of_them_open() -> None:
    old = sealed(Sealer((ONE,), "encrypt"))
    both = Sealer((TWO, ONE), "encrypt")
    new = sealed(both)

    assert both.open(old, PLACE) == both.open(new, PLACE) == decode(DATA)
    assert Envelope.read(new) == ("two", "e", "job=17", new.rpartition(":")[2])
    with pytest.raises(PayloadRefused, match=r"encrypted with key 'one', which this"):
        Sealer((TWO,), "encrypt").open(old, PLACE)


def test_another_key_of_the_same_name_opens_nothing() -> None:
    other = PayloadKey("one", TWO.secret)
    for protection in PROTECTIONS:
        envelope = sealed(Sealer((ONE,), protection))
        with pytest.raises(PayloadRefused, match="not with the key of that name"):
            Sealer((other,), protection).open(envelope, PLACE)


@pytest.mark.parametrize("protection", ["", *PROTECTIONS])
def test_long_values_are_compressed_and_short_ones_are_not(
    protection: Protection,
) -> None:
    sealer = Sealer((ONE,), protection, compress_over=100)
    text = b'"' + b"a" * 5000 + b'"'
    long, short = sealed(sealer, text=text), sealed(sealer)

    assert len(long) < 300
    assert ":" + {"": "n", "sign": "s", "encrypt": "e"}[protection] + "z:" in long
    assert "z:" not in short
    assert sealer.open(long, PLACE) == "a" * 5000
    assert sealer.open(short, PLACE) == decode(DATA)


def test_what_cannot_be_made_shorter_is_not_compressed() -> None:
    sealer = Sealer((), compress_over=4)

    assert ":n:" in sealed(sealer, text=b'"abcdefghij"')


def test_a_bomb_is_refused_without_being_unpacked() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * 20_000_000)).decode()
    place = PLACE._replace(limit=256 * 1024)

    with pytest.raises(
        PayloadRefused, match=r"more than 262,144 bytes; raise max_data"
    ):
        Sealer((), compress_over=1).open(f"{PREFIX}:nz:job=17:{bomb}", place)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (zlib.compress(DATA)[:-4], "ends too early"),
        (b"x" + zlib.compress(DATA), "cannot be decompressed"),
        (zlib.compress(b"{"), "not JSON"),
        (zlib.compress(b"[" * 100_000), "not JSON"),
    ],
)
def test_damage_of_a_compressed_value_is_refused(body: bytes, problem: str) -> None:
    envelope = f"{PREFIX}:nz:job=17:{base64.b64encode(body).decode()}"

    with pytest.raises(PayloadRefused, match=problem):
        Sealer((), compress_over=1).open(envelope, PLACE)


def test_a_protecting_queue_refuses_what_is_only_compressed() -> None:
    envelope = sealed(Sealer((), compress_over=1))

    with pytest.raises(PayloadRefused, match="neither signed nor encrypted"):
        Sealer((ONE,), "sign").open(envelope, PLACE)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 17, "", "kue", {"a": 1}, ["kue-sealed:1:"]),
        *(
            "kue-sealed:1:",
            "kue-sealed:1:one:e:job=17:",
            "kue-sealed:2:one:s:job=1:AA==",
        ),
        *("kue-sealed:1:one:s:job=17:é", "kue-sealed:1:one:s:job=17:AA==\n"),
        *("kue-sealed:1:one:s:job=17:A", "kue-sealed:1:one:s:job=17:AA"),
    ],
)
def test_whatever_is_not_an_envelope_is_refused_and_never_raises_anything_else(
    value: object,
) -> None:
    with pytest.raises(PayloadRefused):
        Sealer((ONE,), "sign").open(value, PLACE)


def test_what_stands_for_a_sealed_value_says_why() -> None:
    envelope = sealed(Sealer((ONE,), "encrypt"))

    found = Sealer().tried(envelope, PLACE)

    assert isinstance(found, Sealed)
    assert found == {
        "sealed": "encrypted with key 'one', which this queue does not have; add that "
        "key to payload_keys ($KUE_PAYLOAD_KEYS)"
    }
    assert found.envelope == envelope


def test_a_value_of_a_protected_job_is_protected_by_a_queue_that_only_reads() -> None:
    reader = Sealer((ONE,))

    envelope = decode(reader.seal(DATA, binding_to_job(17), PLACE, "encrypt"))

    assert Envelope.read(envelope).shown == "encrypted with key 'one'"  # type: ignore[union-attr]
    with pytest.raises(PayloadRefused, match="this queue has no key"):
        Sealer((), compress_over=1).seal(DATA, "job=17", PLACE, "sign")


def test_a_key_is_never_shown() -> None:
    text = new_key("k")
    key = PayloadKey.read(text)

    assert repr(key) == str(key) == "<PayloadKey k>"
    secret = text.partition(":")[2]
    for wrong in (
        secret,
        f"{secret}:k",
        f"k k:{secret}",
        f"k:{secret[4:]}",
        f"k:{secret}é",
    ):
        with pytest.raises(ValueError, match="kue key new prints one") as caught:
            PayloadKey.read(wrong)
        assert secret[4:] not in str(caught.value)


def test_the_name_of_a_key_is_checked() -> None:
    with pytest.raises(ValueError, match="up to 40 letters"):
        new_key("not one")


def test_protection_needs_a_key_and_keys_need_different_names() -> None:
    with pytest.raises(ConfigError, match="'sign' without a key; set payload_keys"):
        Sealer((), "sign")
    with pytest.raises(ConfigError, match="two keys with the same name"):
        Sealer((ONE, ONE), "sign")


def test_encryption_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None
    )

    with pytest.raises(ConfigError, match=r"pip install 'kue\[encryption\]'"):
        Sealer((ONE,), "encrypt")


def test_a_reader_without_the_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envelope = sealed(Sealer((ONE,), "encrypt"))
    monkeypatch.setitem(
        sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None
    )
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)

    with pytest.raises(PayloadRefused, match=r"key 'one', but .*kue\[encryption\]"):
        Sealer((ONE,)).open(envelope, PLACE)
