"""Where on the bus a queue is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.bus.message import MAX_ADDRESS
from kue.model.events import Kind
from kue.vertx import Addresses

AT = Addresses()
ID = "0b5f54ec-6f2c-4d4b-8b9a-d1d1b7a9c1aa"
TYPES = st.text(min_size=1, max_size=50)


def test_addresses_are_those_of_vertx_kue() -> None:
    assert AT.job("complete", ID, "learn vertx") == (
        f"vertx.kue.handler.job.complete.{ID}.learn vertx"
    )
    assert AT.queue("job_complete") == "vertx.kue.handler.workers.job_complete"
    assert AT.queue("error") == "vertx.kue.handler.workers.error"
    assert AT.service == "vertx.kue.service.job.internal"


@given(TYPES, TYPES)
def test_no_type_makes_the_address_of_another(one: str, other: str) -> None:
    """D-16: and none adds a part to an address."""
    address = AT.job("start", ID, one)

    assert (address == AT.job("start", ID, other)) is (one == other)
    assert address.count(".") == AT.job("start", ID, "x").count(".")


def test_no_event_has_a_dot_or_is_called_any() -> None:
    """D-16: so that no event of one job is another's, or stands for all."""
    assert not [kind for kind in Kind if "." in kind or kind == "any"]


def test_the_longest_type_fits_into_an_address() -> None:
    assert len(Addresses("r" * 100).job("failed_attempt", ID, "." * 200)) < MAX_ADDRESS


@pytest.mark.parametrize("root", ["", ".", "a.", "a b", "a..b", "é", "a" * 101])
def test_a_root_is_a_plain_name(root: str) -> None:
    with pytest.raises(ValueError, match="root must be a name such as"):
        Addresses(root)
