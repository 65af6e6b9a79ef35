"""Command groups that import a command's module on first use.

`auctune --help` therefore imports no command, and a command's module can import what it needs at
its top. The one-line help is declared with the command's name; a test checks that it repeats the
first line of the command's docstring. A command whose packages are not installed says which of
auctune's extras have them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """A command or group of commands, with one line of help.

    The target is `module:attribute` in `auctune.cli`: a function, or a `typer.Typer` for a group.
    `extras` are those of auctune's extras that it needs, or that some of its options need.
    """

    target: str
    help: str
    extras: tuple[str, ...] = ()

    def load(self, name: str) -> Any:
        """Import the module and build the command."""
        module, _, attribute = self.target.partition(":")
        target = getattr(import_module(f"auctune.cli.{module}"), attribute)
        if isinstance(target, typer.Typer):
            group = typer.main.get_group(target)
            group.name = name
            return group
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(target)
        return typer.main.get_command(single)


@contextmanager
def _needing(command: str, extras: tuple[str, ...]) -> Iterator[None]:
    """Explain a failed import by packages of the command's extras that are not installed.

    If all of them are installed, the import is a defect, and its error is raised again.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if extras and not (error.name or "").startswith("auctune"):
            # --help imports nothing of auctune's but this module and the table of commands.
            from auctune.cli._support.errors import require_extras

            require_extras(command, *extras)
        raise


def lazy_group(entries: Mapping[str, Entry]) -> type[TyperGroup]:
    """Return a class of lazy command groups, for `typer.Typer(cls=...)`."""

    class LazyGroup(TyperGroup):
        """Group that imports a command on first use."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(entries)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in entries and cmd_name not in self.commands:
                entry = entries[cmd_name]
                with _needing(f"{ctx.command_path} {cmd_name}", entry.extras):
                    self.commands[cmd_name] = entry.load(cmd_name)
            return self.commands.get(cmd_name)

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except ModuleNotFoundError:
                name = ctx.invoked_subcommand
                if name not in entries:
                    raise
                with _needing(f"{ctx.command_path} {name}", entries[name].extras):
                    raise

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args[0] not in entries:
                near = ", ".join(map(repr, get_close_matches(args[0], entries)))
                ctx.fail(
                    f"No such command {args[0]!r}." + (f" Did you mean {near}?" if near else "")
                )
            return super().resolve_command(ctx, args)

    return LazyGroup
