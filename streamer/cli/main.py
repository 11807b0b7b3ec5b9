"""The command `streamer`: subcommands that are imported when they are called, and exit codes.

Each command is a module with a click command `command`. Only the module of the called command is imported, and `--help`
imports none, so that `check` needs neither Kafka nor Redis. An error of ours is one message on stderr, with --json also
one object on stdout, and the exit code says whose fault it is: 1 a violated law, 2 usage and configuration, 3 a server.
The text of any other error may quote people's values: only its class and its lines of code are printed.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from streamer.cli.support.help_pages import page_asked_for
from streamer.cli.support.options import may_be_misspelt
from streamer.cli.support.signals import INTERRUPTED, stop_in, terminated_in_order
from streamer.cli.support.tables import AS_JSON, say
from streamer.errors import (
    EXIT_LAW,
    LibraryMissing,
    StreamerError,
    UsageError,
    lacks_memory,
    needs_extra,
    out_of_memory,
)

UNFORESEEN = "report it with the lines of code on stderr, which hold no values"

PLAIN_NUMBER = re.compile("[0-9]{1,9}")

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Listed(NamedTuple):
    """A command whose module is not imported yet."""

    module: str
    help: str  # what `streamer --help` shows: 45 characters at most, as click allows in lists of commands
    extra: str | None = None  # the extra of the package that installs what the command needs


SECTIONS = {
    "Whole tables": {
        "init": Listed("streamer.cli.batch.init", "Drafts a table.yaml from ROWS.csv."),
        "hierarchy": Listed("streamer.cli.batch.hierarchy", "Drafts a hierarchy from a column of ROWS."),
        "distribution": Listed("streamer.cli.batch.distribution", "Counts a column's values, for t-closeness."),
        "check": Listed("streamer.cli.batch.check", "Validates a table.yaml; says what k costs."),
        "anonymize": Listed("streamer.cli.batch.anonymize", "Writes the published table of ROWS.csv."),
        "compare": Listed("streamer.cli.batch.compare", "Compares all algorithms on ROWS.csv."),
        "pseudonym": Listed("streamer.cli.batch.pseudonym", "Makes a key; says a value's pseudonym."),
    },
    "Set up a live table": {
        "config": Listed("streamer.cli.support.config", "Shows all settings and their sources.", "stream"),
        "topics": Listed("streamer.cli.stream.topics", "Creates or checks the topics of a table.", "stream"),
        "connect": Listed("streamer.cli.stream.connect", "Prints settings of sources, sinks, readers.", "stream"),
        "doctor": Listed("streamer.cli.operate.doctor", "Tries all that a worker needs.", "stream"),
        "forecast": Listed("streamer.cli.batch.forecast", "Says what a live table of ROWS.csv costs."),
        "load": Listed("streamer.cli.stream.load", "Loads a file into an empty table.", "stream"),
    },
    "Run it": {
        "demo": Listed("streamer.cli.demo.command", "Shows everything at work, without servers.", "demo"),
        "worker": Listed("streamer.cli.operate.worker", "Keeps shards of a table current.", "stream"),
        "produce": Listed("streamer.cli.stream.produce", "Sends a file to the input topic.", "stream"),
        "subscribe": Listed("streamer.cli.stream.subscribe", "Reads the published table; keeps copies."),
        "replay": Listed("streamer.cli.stream.replay", "Replays a file of events into files."),
    },
    "Look at it": {
        "status": Listed("streamer.cli.operate.status", "Shows every shard, and what is wrong.", "stream"),
        "groups": Listed("streamer.cli.operate.groups", "Shows QI groups: boxes, sizes, losses.", "stream"),
        "explain": Listed("streamer.cli.operate.explain", "Explains why a row is in its QI group.", "stream"),
        "index": Listed("streamer.cli.operate.index", "Writes the QI group of every source row.", "stream"),
        "verify": Listed("streamer.cli.batch.verify", "Checks the laws of a published changelog."),
        "audit": Listed("streamer.cli.batch.audit", "Finds out what a whole history gives away."),
    },
    "Remedy": {
        "dead-letters": Listed("streamer.cli.operate.dead_letters", "Shows dead letters; retries them.", "stream"),
        "rebuild": Listed("streamer.cli.operate.rebuild", "Anonymizes the whole table again, live.", "stream"),
        "reload": Listed("streamer.cli.operate.reload", "Loads the table again from its source.", "stream"),
        "erase": Listed("streamer.cli.operate.erase", "Deletes a person's rows; says what is left.", "stream"),
        "skip": Listed("streamer.cli.operate.skip", "Makes one message a dead letter.", "stream"),
        "end-snapshot": Listed("streamer.cli.operate.end_snapshot", "Publishes an unfinished snapshot.", "stream"),
    },
}
"""The commands as `streamer --help` lists them."""

COMMANDS = {name: listed for section in SECTIONS.values() for name, listed in section.items()}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, and none for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _help, extra = COMMANDS[cmd_name]
        try:
            with needs_extra(extra) if extra else nullcontext():
                command: click.Command = import_module(module).command
        except LibraryMissing:
            if ctx.resilient_parsing:  # completion: the shell would show the message in the line that is being typed
                return None
            raise
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = (name for name in sorted(COMMANDS) if name.startswith(incomplete))
        return [
            *(CompletionItem(name, help=COMMANDS[name].help) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), listed.help) for name, listed in section.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (page := page_asked_for(args)) is not None:
            return page.name, page, args[-1:]
        ctx.meta[AS_JSON] = "--json" in args
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing and any(map(may_be_misspelt, os.environ)):
            with suppress(ImportError):  # an installation without servers has no settings of theirs
                import_module("streamer.cli.support.config").warn_of_misspelt(command, os.environ)
        return name, command, rest

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed before the process started
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends
            with suppress(AttributeError, OSError):  # a terminal or a log may not know a letter or a rule
                getattr(sys, name).reconfigure(errors="backslashreplace")
        for name in ("COLUMNS", "LINES"):
            if not PLAIN_NUMBER.fullmatch(os.environ.get(name, "0")):  # rich takes ² for a number, and fails
                del os.environ[name]
        with terminated_in_order():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return self._invoke(ctx)
        except StreamerError as error:
            say(f"streamer: {error}", err=True)
            with suppress(OSError):  # a full disk
                _print_json(ctx, str(error), error, error.exit_code, error.hint)
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            path = (error.ctx or ctx).command_path if isinstance(error, click.UsageError) else ctx.command_path
            _print_json(ctx, error.format_message(), error, error.exit_code, f"`{path} --help` says what it takes")
            if not isinstance(error, click.UsageError) or isinstance(error, click.exceptions.NoArgsIsHelpError):
                raise
            of = error.ctx or ctx  # click would not wrap the message after its usage
            click.echo(f"{of.get_usage()}\nTry '{of.command_path} --help' for help.\n", err=True)
            say(f"Error: {error.format_message()}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except (click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:  # click ends silently
            raise
        except Exception as error:
            if isinstance(stop := stop_in(error), KeyboardInterrupt):
                ctx.exit(INTERRUPTED)
            if stop is not None:
                raise stop from None
            text = f"an unexpected error ({type(error).__name__})"
            traceback.print_tb(error.__traceback__)
            say(f"streamer: {text}; its text may quote people's values. Report it with the lines above", err=True)
            _print_json(ctx, text, error, EXIT_LAW, UNFORESEEN)
            ctx.exit(EXIT_LAW)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise UsageError(f"not everything could be written: {error.strerror}; make room, then repeat") from None
            if lacks_memory(error):
                raise out_of_memory(f"streamer {ctx.invoked_subcommand}") from None
            raise


def _print_json(ctx: click.Context, text: str, error: Exception, exit_code: int, hint: str) -> None:
    """Prints the error as one JSON object if the command was called with --json."""
    if ctx.meta.get(AS_JSON):
        import msgspec

        report = {"ok": False, "error": text, "hint": hint, "kind": type(error).__name__, "exit_code": exit_code}
        click.echo(msgspec.json.encode(report))


def _version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """The version, and those of what is stored: versions with the same ones can take over each other's shards."""
    if asked and not ctx.resilient_parsing:
        version = import_module("importlib.metadata").version
        schema, codec = import_module("streamer.table.schema"), import_module("streamer.incremental.store.codec")
        outlet, requests = (import_module(f"streamer.incremental.shard.{name}") for name in ("outlet", "requests"))
        engine = f"{schema.ENGINE_VERSION}, with repair {schema.ENGINE_VERSION}.{schema.REPAIR_VERSION}"
        click.echo(f"streamer, version {version('streamer')}")
        click.echo(f"formats: Redis {codec.FORMAT_READ_FIRST} to {codec.FORMAT_VERSION}, ", nl=False)
        click.echo(f"positions {outlet.POSITION_FORMAT}, control {requests.FORMAT}; engine: {engine}")
        ctx.exit()


@click.group(name="streamer", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show it, and exit."
)
def main() -> None:
    """Keeps a k-anonymous copy of a changing table current, change by change, and publishes it as a Kafka changelog.

    Exit codes: 0 ok, 1 a law is violated or a problem was found, 2 usage or configuration, 3 a server cannot be
    reached. A first look: `streamer demo`.
    """


if __name__ == "__main__":
    main()
