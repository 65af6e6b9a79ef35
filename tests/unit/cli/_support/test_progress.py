"""Kernels that commands name exist: otherwise they would announce compilation each time."""

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[4] / "src"


def test_each_kernel_that_a_command_waits_for_is_one() -> None:
    texts = [path.read_text() for path in SOURCES.rglob("*.py")]
    trees = [ast.parse(text) for text in texts if "@kernel" in text or "warn_compiling(" in text]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    kernels = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Name) and one.id == "kernel" for one in node.decorator_list)
    }
    named = {
        node.args[0].id
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "warn_compiling"
        and isinstance(node.args[0], ast.Name)
    }
    assert named
    assert named <= kernels
