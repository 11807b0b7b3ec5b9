"""The command `streamer`: its subcommands, loaded when they are called for, and its exit codes.

A command lives in a module of its own, as the click command `command`. Only the module of the command that was called
is imported: `streamer check` needs neither Kafka nor Redis. Every error of ours ends as one message on stderr and the
exit code of whose fault it is: 1 a law is violated, 2 usage and configuration, 3 a server cannot be reached. A program
that asked for JSON always gets some: an error is one object on stdout, too. What nobody foresaw may quote people's
values: of that, the kind alone is told, and the lines of the program that led there.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
import msgspec

from streamer.cli.options import may_be_misspelt
from streamer.cli.tables import say
from streamer.cli.terminated import terminated_in_order
from streamer.errors import EXIT_LAW, StreamerError, UsageError

INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended

UNFORESEEN = "report it with the lines of the program on stderr, which quote nobody's values"

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

AS_JSON = "streamer.as_json"
"""Where a call keeps whether it was made with --json."""

COMMANDS = {
    "init": "streamer.cli.init",
    "check": "streamer.cli.check",
    "config": "streamer.cli.config",
    "anonymize": "streamer.cli.anonymize",
    "compare": "streamer.cli.compare",
    "topics": "streamer.cli.topics",
    "connect": "streamer.cli.connect",
    "produce": "streamer.cli.produce",
    "subscribe": "streamer.cli.subscribe",
    "status": "streamer.cli.status",
    "groups": "streamer.cli.groups",
    "explain": "streamer.cli.explain",
    "dead-letters": "streamer.cli.dead_letters",
    "rebuild": "streamer.cli.rebuild",
    "skip": "streamer.cli.skip",
    "end-snapshot": "streamer.cli.end_snapshot",
    "replay": "streamer.cli.replay",
    "verify": "streamer.cli.verify",
    "index": "streamer.cli.index",
    "warm": "streamer.cli.warm",
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = import_module(COMMANDS[cmd_name]).command
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[AS_JSON] = "--json" in args
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing and any(map(may_be_misspelt, os.environ)):
            import_module("streamer.cli.config").warn_of_misspelt(command, os.environ)
        return name, command, rest

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed before we began: nobody wants to hear it
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
        with terminated_in_order():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return self._invoke(ctx)
        except StreamerError as error:
            say(f"streamer: {error}", err=True)
            with suppress(OSError):  # what has no room, perhaps
                _tell_program(ctx, str(error), error, error.exit_code, error.hint)
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            path = (error.ctx or ctx).command_path if isinstance(error, click.UsageError) else ctx.command_path
            _tell_program(ctx, error.format_message(), error, error.exit_code, f"`{path} --help` says what it takes")
            if not isinstance(error, click.UsageError) or isinstance(error, click.exceptions.NoArgsIsHelpError):
                raise
            _show_usage(error.ctx or ctx)
            say(f"Error: {error.format_message()}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except (click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:  # click ends for it in silence
            raise
        except Exception as error:
            said = f"an error that nobody foresaw ({type(error).__name__})"
            traceback.print_tb(error.__traceback__)
            say(f"streamer: {said}; its text may quote people's values. Report it with the lines above", err=True)
            _tell_program(ctx, said, error, EXIT_LAW, UNFORESEEN)
            ctx.exit(EXIT_LAW)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise UsageError(f"not everything could be written: {error.strerror}; make room, then repeat") from None
            raise


def _show_usage(ctx: click.Context) -> None:
    """As click does it, which breaks no sentence behind it."""
    click.echo(f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.\n", err=True)


def _tell_program(ctx: click.Context, text: str, error: Exception, exit_code: int, hint: str) -> None:
    """The error as one JSON object, where the command was called with --json."""
    if ctx.meta.get(AS_JSON):
        kind = type(error).__name__
        said = {"ok": False, "error": text, "hint": hint, "kind": kind, "exit_code": exit_code}
        click.echo(msgspec.json.encode(said))


@click.group(name="streamer", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamer", prog_name="streamer")
def main() -> None:
    """Keeps a k-anonymous copy of a changing table current, change by change, and publishes it as a Kafka changelog.

    Exit codes: 0 ok, 1 a law is violated or a problem was found, 2 usage or configuration, 3 a server cannot be
    reached.
    """


if __name__ == "__main__":
    main()
