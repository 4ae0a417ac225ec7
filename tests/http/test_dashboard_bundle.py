"""Modules become one script, which does what they did."""

from __future__ import annotations

import pytest

from kue.http.dashboard.bundler import BadModule, bundle_modules, bundle_styles

TOOL = "export const one = 1;\nexport function add(a, b) {\n  return a + b;\n}\n"


def test_a_module_runs_after_those_that_it_imports_from() -> None:
    script = bundle_modules(
        {
            "app.js": 'import { add, one as x } from "./lib/tool.js";\nadd(x);\n',
            "lib/tool.js": TOOL,
        },
        "app.js",
    )

    assert script.index("const $lib_tool =") < script.index("const $app =")
    assert "const { add, one: x } = $lib_tool;" in script
    assert "return { one, add };" in script


def test_a_module_that_two_import_is_there_once() -> None:
    both = 'import { one } from "./tool.js";\n'
    script = bundle_modules(
        {
            "app.js": 'import { a } from "./a.js";\n' + both,
            "a.js": both + "export const a = one;\n",
            "tool.js": TOOL,
        },
        "app.js",
    )

    assert script.count("const $tool =") == 1


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        ({"app.js": 'import { a } from "./b.js";\n'}, "imports b.js"),
        ({"app.js": "export default 1;\n"}, "export default 1;"),
        ({"app.js": 'export { a } from "./app.js";\n'}, "not bundled"),
        (
            {
                "app.js": 'import { a } from "./b.js";\n',
                "b.js": 'import { b } from "./app.js";\n',
            },
            "import each other: app.js → b.js",
        ),
    ],
)
def test_what_cannot_be_bundled_is_refused(modules: dict[str, str], why: str) -> None:
    with pytest.raises(BadModule, match=why):
        bundle_modules(modules, "app.js")


def test_sheets_of_single_pages_come_after_those_of_all() -> None:
    sheets = {"styles/jobs.css": "b {}", "style.css": "a {}"}

    assert bundle_styles(sheets) == "a {}\nb {}"
