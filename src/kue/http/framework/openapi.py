"""OpenAPI document of the API, generated from the operations and their types."""

from __future__ import annotations

import inspect
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from kue.http.framework.operations import PREFIXED
from kue.http.framework.problem import CONTENT_TYPE, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kue.http.framework.operations import Operation, Section

#: The path of the API, below that of the application.
BASE = "/api/v1"
#: How clients authenticate.
SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token (kue token add) or the start-up token.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "kue_session",
        "description": "The session of a logged-in user.",
    },
}
#: The default of a field that is omitted.
DEFAULT = "x-default"
REF = "#/components/schemas/{name}"
#: A path parameter, with its Starlette convertor.
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")

#: Errors of every operation.
_ANYWHERE = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

#: Errors after which a client should try again, and when.
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "schema": {"type": "integer"},
    }
}
_TRY_LATER = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.INSUFFICIENT_STORAGE,
)
#: Further errors of operations that change something.
_CHANGING = (
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INSUFFICIENT_STORAGE,
)


def openapi(sections: Sequence[Section], *, version: str) -> dict[str, Any]:
    """Return the document."""
    operations = [one for section in sections for one in section.operations]
    types: list[Any] = [Problem]
    for one in operations:
        types += [*one.parameters.values(), one.query, one.body, one.returns]
    used = [type for type in types if type is not None]
    _, components = msgspec.json.schema_components(used, ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(_PARAMETER.sub(r"{\1}", operation.path), {})
        methods[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kue",
            "version": version,
            "description": "Jobs, queues, workers and their events. "
            "Times are Unix milliseconds.",
        },
        "tags": [
            {"name": section.tag, "description": section.about} for section in sections
        ],
        # The base of the paths; an application below a prefix sets its own.
        "servers": [{"url": BASE}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {
            "schemas": {
                name: _without_defaults(schema) for name, schema in components.items()
            },
            "securitySchemes": SECURITY,
        },
    }


def _schema(type: Any) -> dict[str, Any]:
    [schema], _ = msgspec.json.schema_components([type], ref_template=REF)
    return schema


def _operation(operation: Operation) -> dict[str, Any]:
    text = inspect.getdoc(operation.handler) or operation.handler.__name__
    summary, *paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "tags": [operation.tag],
        **_rights(operation),
        "parameters": [*_path(operation), *_query(operation)],
        "responses": _responses(operation),
    }
    if paragraphs:
        document["description"] = "\n\n".join(paragraphs)
    if operation.body is not None:
        schema = _without_null(_schema(operation.body))
        document["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {"application/json": {"schema": schema}},
        }
    return document


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """
    Return the schema of an object whose fields have no defaults.

    Code generators treat a field with a default as always present, so that optional
    fields of a request would be required.  For readers the default is in ``x-default``.
    """
    fields = schema.get("properties")
    if fields is None:
        return schema
    bare = {
        name: {DEFAULT if key == "default" else key: field[key] for key in field}
        for name, field in fields.items()
    }
    return {**schema, "properties": bare}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a nullable schema without null: such a body may be omitted instead."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _rights(operation: Operation) -> dict[str, Any]:
    if operation.is_open:
        return {"security": []}
    if operation.scope is None:
        return {}
    return {
        "x-scope": operation.scope.value,
        "x-role": operation.scope.role.label,
    }


def _path(operation: Operation) -> Iterable[dict[str, Any]]:
    for name in _PARAMETER.findall(operation.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _schema(operation.parameters[name]),
        }


def _query(operation: Operation) -> Iterable[dict[str, Any]]:
    if operation.query is None:
        return
    _, components = msgspec.json.schema_components([operation.query], ref_template=REF)
    struct = components[operation.query.__name__]
    for name, schema in struct["properties"].items():
        # OpenAPI cannot express data.<path>=; see the description.
        if name != PREFIXED:
            required = name in struct.get("required", ())
            yield {"name": name, "in": "query", "required": required, "schema": schema}


def _responses(operation: Operation) -> dict[str, Any]:
    good: dict[str, Any] = {}
    if operation.returns is not None and operation.returns is not type(None):
        content = {"schema": _schema(operation.returns)}
        good["content"] = {operation.media_type: content}
    responses = {
        str(status.value): {
            "description": status.phrase,
            **(good if status is not HTTPStatus.NO_CONTENT else {}),
        }
        for status in (operation.status, *operation.also)
    }
    if operation.method == "GET":
        unchanged = HTTPStatus.NOT_MODIFIED
        responses[str(unchanged.value)] = {"description": unchanged.phrase}
    bad = list(_ANYWHERE)
    if operation.method != "GET":
        bad += _CHANGING
    if operation.body is not None:
        bad.append(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    problem = {CONTENT_TYPE: {"schema": _schema(Problem)}}
    for status in bad:
        responses[str(status.value)] = {
            "description": status.phrase,
            **({"headers": _RETRY_AFTER} if status in _TRY_LATER else {}),
            "content": problem,
        }
    return responses
