"""OpenAPI document of the API, generated from the operations and their types."""

from __future__ import annotations

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
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(_PARAMETER.sub(r"{\1}", operation.path), {})
        methods[operation.method.lower()] = _operation(operation, schemas)
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
        # The base of the paths; `located` sets it for an application below a prefix.
        "servers": [{"url": BASE}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {
            "schemas": {
                name: _without_defaults(schema)
                for name, schema in schemas.components.items()
            },
            "securitySchemes": SECURITY,
        },
    }


def located(document: dict[str, Any], root: str) -> dict[str, Any]:
    """Return *document* for an application that is mounted at *root*."""
    return {**document, "servers": [{"url": f"{root}{BASE}"}]}


class _Schemas:
    """JSON schemas of all types that operations use."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        types = [Problem]
        for one in operations:
            types += [*one.parameters.values(), one.query, one.body, one.returns]
        self._types = [type for type in types if type is not None]
        found, self.components = msgspec.json.schema_components(
            self._types, ref_template=REF
        )
        self._schemas = list(found)

    def of(self, type: Any) -> dict[str, Any]:
        for known, schema in zip(self._types, self._schemas, strict=True):
            if known == type:
                return schema
        raise KeyError(type)


def _operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        **_rights(operation),
        "parameters": [*_path(operation, schemas), *_query(operation, schemas)],
        "responses": _responses(operation, schemas),
    }
    if operation.description:
        document["description"] = operation.description
    if operation.body is not None:
        schema = _without_null(schemas.of(operation.body))
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


def _path(operation: Operation, schemas: _Schemas) -> Iterable[dict[str, Any]]:
    for name in _PARAMETER.findall(operation.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas.of(operation.parameters[name]),
        }


def _query(operation: Operation, schemas: _Schemas) -> Iterable[dict[str, Any]]:
    if operation.query is None:
        return
    struct = schemas.components[operation.query.__name__]
    for name, schema in struct["properties"].items():
        # OpenAPI cannot express data.<path>=; see the description.
        if name != PREFIXED:
            required = name in struct.get("required", ())
            yield {"name": name, "in": "query", "required": required, "schema": schema}


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    good: dict[str, Any] = {"description": operation.status.phrase}
    if operation.returns is not None and operation.returns is not type(None):
        content = {"schema": schemas.of(operation.returns)}
        good["content"] = {operation.media_type: content}
    responses = {str(operation.status.value): good}
    if operation.method == "GET":
        unchanged = HTTPStatus.NOT_MODIFIED
        responses[str(unchanged.value)] = {"description": unchanged.phrase}
    bad = list(_ANYWHERE)
    if operation.method != "GET":
        bad += _CHANGING
    if operation.body is not None:
        bad.append(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    problem = {CONTENT_TYPE: {"schema": schemas.of(Problem)}}
    for status in bad:
        responses[str(status.value)] = {
            "description": status.phrase,
            "content": problem,
        }
    return responses
