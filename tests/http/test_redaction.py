"""Values that nobody is to see: by themselves, and through every route with jobs."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.framework.problem import Refused
from kue.http.security.redaction import MASK, Redaction
from kue.model.job import Completed, Error, Failed, State
from kue.store.values import AuditEntry, LogLine, Progress, RenewRequest
from tests.http.conftest import Http
from tests.http.test_bulk import ended
from tests.support.jobs import claim_one, end, get_one

CANARY = "hunter2-canary"

SECRET_KEYS = [
    "password",
    "Password",
    "PASSWORD",
    "userPassword",
    "user_password",
    "db-password",
    "password_hash",
    "passwd",
    "passphrase",
    "pass",
    "user_pass",
    "pwd",
    "secret",
    "clientSecret",
    "client_secret",
    "SECRET_KEY",
    "token",
    "accessToken",
    "access_token",
    "refresh-token",
    "X-Auth-Token",
    "authorization",
    "Authorization",
    "proxy-authorization",
    "auth",
    "basicAuth",
    "bearer",
    "jwt",
    "cookie",
    "Set-Cookie",
    "api_key",
    "apikey",
    "apiKey",
    "API-KEY",
    "X-Api-Key",
    "access_key",
    "privateKey",
    "private_key",
    "credentials",
    "session_id",
    "sessionId",
    "credit_card",
    "creditCard",
    "card_number",
    "cardNumber",
    "ccNumber",
    "cvv",
    "CVC",
    "iban",
    "pin",
    "otp",
    "ssn",
    "socialSecurityNumber",
    "ｐａｓｓｗｏｒｄ",
]
OPEN_KEYS = [
    "to",
    "from",
    "name",
    "email",
    "author",
    "authors",
    "authority",
    "shipping",
    "spin",
    "pinned",
    "compass",
    "passenger",
    "passed",
    "bypass",
    "key",
    "keys",
    "keyword",
    "card",
    "cards",
    "discard",
    "number",
    "session",
    "user_id",
    "assignee",
    "description",
    "sidebar",
    "side",
    "opt",
    "sso",
    "cvs",
    "total",
    "id",
    "type",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
@pytest.mark.parametrize("value", [CANARY, 12.5, [CANARY], {"a": CANARY}], ids=str)
def test_what_is_under_a_secret_key_is_hidden(key: str, value: Any) -> None:
    hidden = Redaction().hide({"deep": [{key: value, "to": "ann"}]})

    if isinstance(value, float) and "token" in key.lower():
        # A number of tokens is a count.
        assert hidden == {"deep": [{key: value, "to": "ann"}]} or MASK in str(hidden)
    else:
        assert hidden == {"deep": [{key: MASK, "to": "ann"}]}


@pytest.mark.parametrize("key", OPEN_KEYS)
def test_what_is_under_any_other_key_is_shown(key: str) -> None:
    data = {key: CANARY}

    assert Redaction().hide(data) == data


def test_counts_of_tokens_and_what_is_no_value_are_shown() -> None:
    data = {"max_tokens": 100, "password": None, "has_password": True, "list": ["a"]}

    assert Redaction().hide(data) == data
    assert Redaction().hide({"max_tokens": "abc"}) == {"max_tokens": MASK}
    assert Redaction().hide({"pin": 1234, "password": 1}) == {
        "pin": MASK,
        "password": MASK,
    }


@pytest.mark.parametrize("value", [None, 1, "password", [], {}, ["password", 1]])
def test_what_has_no_keys_stays(value: Any) -> None:
    assert Redaction().hide(value) == value


def test_rules_of_ones_own_add_or_replace() -> None:
    data = {"password": "a", "Customer-No": "b", "ref": "c", "prefer": "d"}

    assert Redaction(["customer_no", "ref"]).hide(data) == {
        "password": MASK,
        "Customer-No": MASK,
        "ref": MASK,
        "prefer": "d",
    }
    assert Redaction(only=["customer no"]).hide(data) == {**data, "Customer-No": MASK}
    assert Redaction(only=[]).hide(data) == data


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"login failed: password={CANARY}", f"login failed: password={MASK}"),
        (f"a=b:token={CANARY}=x c:d", f"a=b:token={MASK} c:d"),
        (f"token: secret={CANARY}", f"token: {MASK}"),
        (f"bad 'api_key': '{CANARY} x', to='ann'", f"bad 'api_key': {MASK}, to='ann'"),
        (f'{{"token": "{CANARY}", "to": 1}}', f'{{"token": {MASK}, "to": 1}}'),
        (f"Authorization: Bearer {CANARY}", f"Authorization: {MASK}"),
        (f"GET /?token={CANARY}&a=b", f"GET /?token={MASK}&a=b"),
        (f"secret : {CANARY}\nnext", f"secret : {MASK}\nnext"),
        ("max_tokens=100 used", "max_tokens=100 used"),
        ("to=ann: author=bob", "to=ann: author=bob"),
        ("the password is wrong", "the password is wrong"),
    ],
)
def test_a_text_is_told_without_what_it_names(text: str, shown: str) -> None:
    assert Redaction().text(text) == shown


@pytest.mark.parametrize(
    "part", ["a", "a=", "token=", "token='", "token=1 ", "'", "a-", " :"]
)
def test_no_text_takes_long(part: str) -> None:
    text = part * (200_000 // len(part))

    assert len(Redaction().text(text)) > 0


def test_hidden_values_that_are_sent_back_stay_what_they_are() -> None:
    kept = {"password": "a", "list": [{"token": "b"}, 1], "to": "ann"}
    redaction = Redaction()
    sent = redaction.hide(kept)
    sent["to"] = "bob"

    assert redaction.restore(sent, kept) == {**kept, "to": "bob"}
    assert redaction.restore({"password": "new"}, kept) == {"password": "new"}
    # Not hidden there, so it is meant.
    assert redaction.restore({"to": MASK}, kept) == {"to": MASK}


@pytest.mark.parametrize(
    "sent",
    [
        {"secret": MASK},
        {"deep": {"password": MASK}},
        {"list": [{"token": MASK}]},
        [{"password": MASK}],
    ],
    ids=str,
)
def test_a_mask_where_nothing_was_hidden_is_refused(sent: Any) -> None:
    kept = {"password": "a", "list": [{"token": "b"}, {"token": "c"}]}

    with pytest.raises(Refused, match="give the value itself"):
        Redaction().restore(sent, kept)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://ann:PW@host/0", "redis://ann:•••@host/0"),
        ("redis://:PW@host", "redis://:•••@host"),
        ("a redis+sentinel://:PW@h1,h2/s b", "a redis+sentinel://:•••@h1,h2/s b"),
        ("postgres://u:p%40PW@h, amqp://v:PW@i", "postgres://u:•••@h, amqp://v:•••@i"),
        ("redis://u:p@PW@host", "redis://u:•••@host"),
        (
            "{'url': 'redis://u:PW@h', 'to': 'a@b'}",
            "{'url': 'redis://u:•••@h', 'to': 'a@b'}",
        ),
        ('{"url":"redis://u:PW@h","to":"a@b"}', '{"url":"redis://u:•••@h","to":"a@b"}'),
        # Not passwords: a user, a port, a path.
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("http://host/?to=a:b@c", "http://host/?to=a:b@c"),
        ("ann@example.com", "ann@example.com"),
    ],
)
def test_s_4_passwords_inside_urls_are_hidden_in_texts(text: str, shown: str) -> None:
    hide = Redaction()

    assert hide.text(text) == shown
    assert hide.hide({"a": [text]}) == {"a": [shown]}
    assert Redaction(only=[]).text(text) == text


def test_s_4_an_edit_may_send_a_hidden_url_back_and_nothing_else() -> None:
    hide, kept = Redaction(), {"url": "redis://u:PW@h", "n": 1}

    assert hide.restore({"url": "redis://u:•••@h", "n": 2}, kept) == {**kept, "n": 2}
    with pytest.raises(Refused, match="give the password again"):
        hide.restore({"url": "redis://u:•••@other"}, kept)
    with pytest.raises(Refused, match="give the password again"):
        hide.restore({"other": "redis://u:•••@h"}, kept)


def test_s_4_a_long_text_without_passwords_is_looked_through_once() -> None:
    text = "://a:" * 20_000 + "@"

    assert len(Redaction().text(text)) >= len(text)


# -- through the routes --------------------------------------------------------

#: S-4: a store's address, as errors name it.
STORE, HIDDEN_STORE = f"redis://:{CANARY}@db:6379/0", f"redis://:{MASK}@db:6379/0"
DATA = {"to": "ann", "password": CANARY, "nested": [{"apiKey": CANARY}, STORE]}
HIDDEN = {"to": "ann", "password": MASK, "nested": [{"apiKey": MASK}, HIDDEN_STORE]}


async def failed_job(q: Kue) -> int:
    """A job with secrets wherever a job has room for them."""
    await q.enqueue("email", DATA, meta={"authorization": CANARY})
    now = await q.now()
    job = await claim_one(q.store, now=now)
    await q.store.progress([Progress(job.id, 5, {"token": CANARY})], now=now)
    await q.store.log(job.id, [LogLine(f"sent password={CANARY} to {STORE}")])
    error = Error(
        "ValueError",
        f"bad token={CANARY} of {STORE}",
        f"line 1\ntoken='{CANARY}'\nOSError: '{STORE}' does not answer\n",
    )
    await end(q.store, job, Failed(error), now=now)
    return job.id


async def complete_job(q: Kue) -> int:
    await q.enqueue("report", DATA)
    now = await q.now()
    job = await claim_one(q.store, "report", now=now)
    await end(q.store, job, Completed({"secret": CANARY}), now=now)
    return job.id


async def test_no_route_that_shows_jobs_shows_a_secret(
    client: httpx.AsyncClient, q: Kue
) -> None:
    failed, complete = await failed_job(q), await complete_job(q)
    running = await q.enqueue("video", DATA)
    job = await claim_one(q.store, "video", now=await q.now())
    await q.store.progress([Progress(job.id, 5, {"token": CANARY})])
    base = str(client.base_url).removesuffix("/api/v1/")
    ids = (failed, complete, running.id)
    paths = [
        "/api/v1/jobs",
        "/api/v1/jobs?text=ann",
        "/api/v1/jobs?state=failed",
        "/api/v1/errors",
        "/api/v1/workers",
        *(f"/api/v1/jobs/{job_id}" for job_id in ids),
        *(f"/api/v1/jobs/{job_id}/attempts" for job_id in ids),
        *(f"/api/v1/jobs/{job_id}/logs" for job_id in ids),
        "/kue/jobs/0..9",
        "/kue/jobs/failed/0..9",
        *(f"/kue/job/{job_id}" for job_id in ids),
        f"/kue/job/{failed}/log",
        "/vertx-kue/jobs/0/to/9",
        *(f"/vertx-kue/job/{job_id}" for job_id in ids),
        f"/vertx-kue/job/{failed}/log",
    ]

    answers = {path: await client.get(base + path) for path in paths}

    assert {answer.status_code for answer in answers.values()} == {200}
    assert [path for path in paths if CANARY in answers[path].text] == []
    for path in (f"/api/v1/jobs/{failed}", f"/kue/job/{failed}"):
        assert answers[path].json()["data"] == HIDDEN
    assert MASK in answers["/api/v1/errors"].text
    assert answers[f"/api/v1/jobs/{running.id}"].json()["progress_data"] == {
        "token": MASK
    }


async def test_no_route_shows_the_password_of_a_url_that_others_noted(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await q.enqueue("email", unique=STORE)
    await q.store.renew(RenewRequest("w", info={"trouble": f"{STORE} is damaged"}))
    await q.pause("email", reason=f"{STORE} moves")
    await q.pause(worker="w", reason=f"{STORE} moves")
    await q.open_circuit("stripe", reason=f"{STORE} moves")
    await q.store.note(
        AuditEntry(
            who="cli:ann",
            what="queue.pause",
            target=f"email {STORE}",
            status=200,
            address="here",
            detail=json.dumps({"reason": f"token={CANARY}", "from": STORE}),
        )
    )
    paths = [f"/jobs/{job.id}", "/workers", "/workers/w", "/queues", "/queues/email"]
    paths += ["/stats", "/audit", "/circuits"]

    answers = [await client.get(path) for path in paths]
    for path in ("/pause", "/circuits/stripe/open"):
        answers.append(await client.post(path, json={"reason": STORE}))

    assert {answer.status_code for answer in answers} == {200}
    assert [one.url.path for one in answers if CANARY in one.text] == []
    assert [one.url.path for one in answers if HIDDEN_STORE not in one.text] == []
    assert answers[0].json()["unique"] == HIDDEN_STORE
    assert answers[2].json()["trouble"] == f"{HIDDEN_STORE} is damaged"


async def test_events_tell_no_secret(http: Http, q: Kue) -> None:
    heard = []
    app = create_app(q, guard=Anyone())
    async with http.client_of(app) as client, client.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        async for line in lines:
            if line.startswith("data: "):
                break
        await failed_job(q)
        async for line in lines:
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: ")))
            if heard and heard[-1]["kind"] == "failed":
                break
        await app.state.live.close()

    assert CANARY not in str(heard)
    assert heard[-1]["detail"]["message"] == f"bad token={MASK} of {HIDDEN_STORE}"
    assert {"progress": 5, "data": {"token": MASK}} in [one["detail"] for one in heard]


async def test_an_edit_sends_hidden_values_back_and_they_stay(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await q.enqueue("email", DATA)
    shown = (await client.get(f"/jobs/{job.id}")).json()["data"]

    answer = await client.patch(f"/jobs/{job.id}", json={"data": {**shown, "to": "b"}})

    assert answer.json()["data"] == {**HIDDEN, "to": "b"}
    assert (await get_one(q.store, job.id)).data == {**DATA, "to": "b"}


async def test_a_retry_and_a_copy_send_hidden_values_back_and_they_stay(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await failed_job(q)
    edited = {"data": {**HIDDEN, "to": "b"}}

    copied = await client.post(f"/jobs/{job_id}/copy", json=edited)
    plain = await client.post(f"/jobs/{job_id}/copy")
    retried = await client.post(f"/jobs/{job_id}/retry", json=edited)

    assert retried.status_code == 204
    for one in (job_id, copied.json()["id"]):
        assert (await get_one(q.store, one)).data == {**DATA, "to": "b"}
    assert (await get_one(q.store, plain.json()["id"])).data == DATA


async def test_a_mask_that_means_nothing_is_400_and_changes_nothing(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await q.enqueue("email", DATA)

    answer = await client.patch(f"/jobs/{job.id}", json={"data": {"secret": MASK}})

    assert (answer.status_code, answer.json()["field"]) == (400, "body.data")
    assert (await get_one(q.store, job.id)).data == DATA


async def test_a_search_does_not_find_what_is_hidden(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """Else a secret could be guessed letter by letter."""
    job = await q.enqueue("email", DATA)
    await q.store.log(job.id, [LogLine(f"connected with password={CANARY}")])
    base = str(client.base_url).removesuffix("/api/v1/")

    for text, number in (
        (CANARY, 0),
        (CANARY[:3], 0),
        ("ann", 1),
        ("connected ANN", 1),
    ):
        native = await client.get("/jobs", params={"text": text})
        kue = await client.get(f"{base}/kue/job/search", params={"q": text})
        vertx = await client.get(f"{base}/vertx-kue/job/search/{text}")
        assert len(native.json()["jobs"]) == number
        assert (len(kue.json()), len(vertx.json())) == (number, number)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"text": CANARY[:3]}, {"text": "zzz"}),
        ({"error": CANARY}, {"error": "zzz"}),
        ({"data.nested.1": STORE}, {"data.nested.1": "zzz"}),
        (
            {"data.nested.0": json.dumps({"apiKey": CANARY})},
            {"data.nested.0": json.dumps({"apiKey": "zzz"})},
        ),
    ],
    ids=str,
)
async def test_a_guess_that_is_right_is_answered_like_one_that_is_wrong(
    client: httpx.AsyncClient, q: Kue, right: dict[str, str], wrong: dict[str, str]
) -> None:
    """The page ends, and has a cursor, by what is shown alone."""
    await failed_job(q)
    await failed_job(q)

    answers = [
        (await client.get("/jobs", params={"limit": 1, **asked})).json()
        for asked in (right, wrong)
    ]

    assert answers[0] == answers[1]
    assert answers[0]["jobs"] == []


async def test_a_search_as_of_kue_looks_as_far_whatever_is_hidden(
    client: httpx.AsyncClient, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.http.compat.jobs.MAX_PAGE", 1)
    monkeypatch.setattr("kue.http.compat.jobs.MAX_SEARCHED", 1_000)
    await q.enqueue("email", {"to": "ann", "n": "hunter2"})
    await q.enqueue("email", DATA)
    base = str(client.base_url).removesuffix("/api/v1/")

    found = await client.get(f"{base}/kue/job/search", params={"q": "hunter2"})

    assert (found.json(), found.headers.get("Kue-Searched")) == (["1"], None)


async def test_nothing_hidden_is_found_by_errors_or_acted_on(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await failed_job(q)

    for asked, number in (({"error": CANARY}, 0), ({"text": CANARY}, 0), ({}, 1)):
        found = await client.get("/jobs", params={"state": "failed", **asked})
        order = {"action": "retry", "filter": {"state": "failed", **asked}}
        started = await client.post("/jobs/bulk", json=order)
        over = await ended(client, started.json()["id"])
        assert (len(found.json()["jobs"]), over["done"]) == (number, number)


async def test_a_path_to_what_is_hidden_is_refused(client: httpx.AsyncClient) -> None:
    wanted = {"state": "failed", "data": {"user.password": "x"}}

    found = await client.get("/jobs", params={"data.user.password": "x"})
    acted = await client.post("/jobs/bulk", json={"action": "retry", "filter": wanted})

    assert (found.status_code, acted.status_code) == (400, 400)
    assert found.json()["field"] == "query.data.user.password"
    assert acted.json()["field"] == "body.filter.data.user.password"


async def test_errors_shown_without_their_secrets_can_be_retried(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await failed_job(q)
    [group] = (await client.get("/errors")).json()["groups"]

    wanted = {"state": "failed", "fingerprint": group["fingerprint"]}
    order = {"action": "retry", "filter": wanted}
    started = await client.post("/jobs/bulk", json=order)
    await ended(client, started.json()["id"])

    assert (await get_one(q.store, job_id)).state is State.WAITING


async def test_an_application_has_rules_of_its_own(http: Http) -> None:
    job = await http.q.enqueue("email", {"to": "ann", "password": "a"})

    async with http.client(redact=["to"]) as client:
        added = (await client.get(f"/jobs/{job.id}")).json()["data"]
    async with http.client(redact=Redaction(only=["to"])) as client:
        replaced = (await client.get(f"/jobs/{job.id}")).json()["data"]

    assert added == {"to": MASK, "password": MASK}
    assert replaced == {"to": MASK, "password": "a"}
