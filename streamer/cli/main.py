"""The command `streamer`: its subcommands, loaded when they are called for, and its exit codes.

A command lives in a module of its own, as the click command `command`. Only the module of the command that was called
is imported: `streamer check` needs neither Kafka nor Redis. Every error of ours ends as one message on stderr and the
exit code of whose fault it is: 1 a law is violated, 2 usage and configuration, 3 a server cannot be reached. A program
that asked for JSON always gets some: an error is one object on stdout, too. What nobody foresaw may quote people's
values: of that, the object has the kind alone.
"""

from __future__ import annotations

from importlib import import_module

import click
import msgspec

from streamer.errors import EXIT_LAW, StreamerError

INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended

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
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except StreamerError as error:
            click.echo(f"streamer: {error}", err=True)
            _tell_program(ctx, str(error), error, error.exit_code)
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            _tell_program(ctx, error.format_message(), error, error.exit_code)
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            _tell_program(ctx, f"an error that nobody foresaw ({type(error).__name__})", error, EXIT_LAW)
            raise


def _tell_program(ctx: click.Context, text: str, error: Exception, exit_code: int) -> None:
    """The error as one JSON object, where the command was called with --json."""
    if ctx.meta.get(AS_JSON):
        said = {"ok": False, "error": text, "kind": type(error).__name__, "exit_code": exit_code}
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
