"""Lists the texts that auctune shows to users: `python tests/support/messages.py` prints them."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/auctune"
LISTED = Path(__file__).parents[1] / "data/messages.txt"
UPDATE = "python tests/support/messages.py > tests/data/messages.txt"
PACKAGES = ("cli", "client", "doctor", "domain", "replay", "service", "standalone")

# Help of commands, settings and API fields is on the generated pages of docs/reference.
_DOCUMENTED = {"help", "description", "summary", "title"}
_ERRORS = {"DamagedLogError", "InputError", "RepairableError", "TooLargeError"}
_CODE = {"cast", "compile", "exec_driver_sql", "execute", "match", "strftime", "sub", "text"}
_LOGGED = {"critical", "debug", "error", "exception", "info", "log", "warning"}
_PROSE = re.compile(r"[A-Za-z]{2,},? |[}…] [a-z]{2,}| [a-z]{2,}[ .;:]")
_SQL = re.compile(r"(ALTER|BEGIN|CREATE|DROP|INSERT|SELECT|.* ON CONFLICT) ")


def main() -> None:
    sys.stdout.write(collected())


def collected() -> str:
    """Return one line per text under the path of its module, sorted."""
    modules = [path for package in PACKAGES for path in sorted((SOURCE / package).rglob("*.py"))]
    sections = []
    for path in modules:
        texts = set(_texts(ast.parse(path.read_text())))
        if texts and "migrations" not in path.parts:
            lines = "".join(f"  {text}\n" for text in sorted(texts, key=str.casefold))
            sections.append(f"{path.relative_to(SOURCE)}\n{lines}")
    return "\n".join(sections)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield from _of_call(node)
        return
    if isinstance(node, ast.arg | ast.Assert) or _is_docstring(node):
        return
    text = _template(node)
    if text is not None and _PROSE.search(text) and not _SQL.match(text):
        yield text
    for child in _parts(node):
        yield from _texts(child)


def _of_call(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in _CODE:
        return
    arguments = call.args + [item.value for item in call.keywords if item.arg not in _DOCUMENTED]
    first = [_template(argument) or "{…}" for argument in arguments[:3]]
    joined = name in _ERRORS and len(first) == 3
    if joined and (first[1] != "{…}" or first[2] != "{…}"):
        yield f"{first[0]}: {first[1]}; expected {first[2]}"
    elif name in _LOGGED and first and first[0] != "{…}":
        yield first[0]
    for argument in arguments:
        literal = _template(argument) is not None
        for child in _parts(argument) if joined and literal else [argument]:
            yield from _texts(child)
    yield from _texts(call.func)


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node; of a text, its expressions only."""
    if _template(node) is None:
        annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
        return [child for child in ast.iter_child_nodes(node) if child not in annotations]
    if isinstance(node, ast.BinOp):
        return [part for side in (node.left, node.right) for part in _parts(side)]
    if isinstance(node, ast.JoinedStr):
        return [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
    return []


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _template(node: ast.AST) -> str | None:
    """Return the text of a literal, with `{…}` for its expressions; None for other nodes."""
    if isinstance(node, ast.Constant):
        return node.value.replace("\n", "\\n") if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value) or "{…}" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _template(node.left), _template(node.right)
        return None if left is None and right is None else (left or "{…}") + (right or "{…}")
    return None


if __name__ == "__main__":
    main()
