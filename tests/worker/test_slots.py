"""Who gets the next free slot."""

from __future__ import annotations

import pytest

from kue.worker.slots import SlotBudget, SlotClaimant


def take_all(budget: SlotBudget, claimants: list[SlotClaimant]) -> list[int]:
    """Let everyone take in turn, one at a time, until nobody can; return who holds."""
    while sum(budget.take(claimant, 1) for claimant in claimants):
        pass
    return [claimant.held for claimant in claimants]


def test_without_a_common_limit_each_type_has_its_own_slots() -> None:
    claimants = [SlotClaimant(3), SlotClaimant(5)]
    budget = SlotBudget(claimants)

    assert not budget.is_tight
    assert take_all(budget, claimants) == [3, 5]


def test_a_limit_that_is_enough_for_all_is_no_limit() -> None:
    assert not SlotBudget([SlotClaimant(3), SlotClaimant(5)], total=8).is_tight


def test_types_that_want_more_than_there_is_get_equal_shares() -> None:
    claimants = [SlotClaimant(10), SlotClaimant(10)]

    assert take_all(SlotBudget(claimants, total=10), claimants) == [5, 5]


def test_the_first_to_ask_does_not_get_everything() -> None:
    first, second = SlotClaimant(10), SlotClaimant(10)
    budget = SlotBudget([first, second], total=10)

    assert budget.take(first, 10) == 5
    assert budget.take(second, 10) == 5


def test_shares_go_by_weight() -> None:
    claimants = [SlotClaimant(12, weight=3), SlotClaimant(12, weight=1)]

    assert take_all(SlotBudget(claimants, total=12), claimants) == [9, 3]


def test_what_a_type_does_not_want_is_for_the_others() -> None:
    first, second = SlotClaimant(10), SlotClaimant(10)
    budget = SlotBudget([first, second], total=10)
    second.may_have_work = False

    assert budget.take(first, 10) == 10


def test_what_a_type_cannot_use_is_for_the_others() -> None:
    claimants = [SlotClaimant(10), SlotClaimant(1)]

    assert take_all(SlotBudget(claimants, total=10), claimants) == [9, 1]


def test_a_type_that_grows_hungry_gets_the_slots_that_free() -> None:
    first, second = SlotClaimant(10), SlotClaimant(10)
    budget = SlotBudget([first, second], total=10)
    second.may_have_work = False
    budget.take(first, 10)
    second.may_have_work = True

    first.held -= 1

    assert budget.take(first, 1) == 0
    assert budget.take(second, 1) == 1


def test_the_lightest_of_many_types_is_not_starved() -> None:
    claimants = [
        SlotClaimant(4, weight=100),
        SlotClaimant(4, weight=100),
        SlotClaimant(4),
    ]

    assert take_all(SlotBudget(claimants, total=4), claimants)[2] >= 1


def test_in_strict_order_later_types_get_what_is_left() -> None:
    first, second = SlotClaimant(10), SlotClaimant(10)
    budget = SlotBudget([first, second], total=10, strict=True)

    assert budget.take(second, 10) == 0
    assert budget.take(first, 10) == 10

    first.held = 7
    first.may_have_work = False
    assert budget.take(second, 10) == 3


@pytest.mark.parametrize("total", [None, 3])
def test_no_more_runs_begin_than_there_may_be(total: int | None) -> None:
    first, second = SlotClaimant(10), SlotClaimant(10)
    budget = SlotBudget([first, second], total=total, runs=4)

    taken = budget.take(first, 2) + budget.take(second, 2)
    first.held = second.held = 0
    taken += budget.take(first, 10)

    assert taken == 4
    assert budget.take(second, 10) == 0


def test_a_claim_that_got_less_gives_back_what_it_did_not_use() -> None:
    only = SlotClaimant(10)
    budget = SlotBudget([only], runs=10)

    budget.take(only, 10)
    budget.give_back(only, 7)

    assert only.held == 3
    assert budget.take(only, 10) == 7
