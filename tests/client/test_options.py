"""Options of a job, and filters, are the same wherever they are listed."""

from __future__ import annotations

from kue.cli.commands.job.add import add
from kue.client.builder import BaseJobBuilder
from kue.client.new_job import NewJob
from kue.model.draft import OPTIONS
from kue.model.options import FilterOptions
from kue.store.values import Filter

#: A program gives it, a person or a REST client does not.
INTERNAL = {"address_id"}


def test_the_builder_has_a_method_for_every_option() -> None:
    methods = {name for name in vars(BaseJobBuilder) if not name.startswith("_")}

    # These are arguments of unique(), debounce() and after().
    of_unique = {"unique_for", "unique_until", "unique_at_most", "on_conflict"}
    arguments = of_unique | {"debounce_max", "on_parent_failure"}
    others = {"draft", "type", "address_id", "on"}
    assert methods - others == OPTIONS - INTERNAL - arguments


def test_a_rest_body_has_every_option() -> None:
    fields = set(NewJob.__struct_fields__)

    # Only running jobs are parents.
    assert fields - {"type", "data"} == OPTIONS - INTERNAL - {"parent"}


def test_options_of_the_command_line_are_options_of_jobs() -> None:
    given = {param.name for param in add.params}

    assert given - OPTIONS == {
        "type",
        "data",
        "count",
        "stdin",
        "as_json",
        "url_option",
        "connection_option",
    }


def test_a_search_takes_every_field_of_a_filter() -> None:
    # The state is a parameter by itself: it may be Kue's name for one.
    given = {*FilterOptions.__annotations__, "state"}

    assert given == set(Filter.__struct_fields__)
