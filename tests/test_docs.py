"""The Python in README.md and docs/ runs, and says what it is said to say.

A fenced block that starts with ```python is executed; the blocks of one page share their names.
An expression followed by the comment `# -> value` must equal that value. A block marked
```python no-run is only compiled.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    pytest.param(page, marks=pytest.mark.xdist_group("spark")) if page.name == "spark.md" else page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
]
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"#\s*->\s*(.+)$")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_do_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(encoding="utf-8"), {"__name__": "example"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 2
        _run("\n" * (line - 1) + block[2], page, names, execute="no-run" not in block[1])


def _run(source, page, names, execute):
    tree, lines = ast.parse(source, str(page)), source.splitlines()
    for statement in tree.body if execute else []:
        expected = EXPECTED.search(lines[statement.end_lineno - 1])
        if expected and isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), str(page), "eval"), names)
            wanted = ast.literal_eval(expected[1])
            assert value == wanted, f"{page.name}:{statement.lineno}: got {value!r}"
        else:
            module = ast.Module([statement], type_ignores=[])
            exec(compile(module, str(page), "exec"), names)
