"""The reference of the environment's variables: those of options, of table.yaml, and of clients."""

from __future__ import annotations

from collections import defaultdict

from docs.generate.commands import all_commands
from streamer.cli.support.config import REDIS_VARIABLES
from streamer.kafka import SECRET_KEY, SECRET_KEY_FILE
from streamer.kafka.registry import BASIC_AUTH, BASIC_AUTH_FILE, CA, URL
from streamer.kafka.settings import CONFIG, VARIABLES
from streamer.table.sources import PASSWORDS
from streamer.table.yaml import VARIABLE_PREFIX
from streamer.table.yaml.loading import BY_FILE, BY_VARIABLE
from streamer.table.yaml.shape import TableSettings

HEAD = """\
# Variables of the environment

An option wins over a variable, a variable over the file (table.yaml; for Kafka's clients the one that KAFKA_CONFIG
names), the file over the default. `streamer config --table mine` shows what is in effect and where it comes from; of
secrets, that they are set.
"""

OF_REDIS = {"USERNAME": "the user", "PASSWORD": "the password", "PASSWORD_FILE": "a file that holds the password"}


def of_redis(variable: str) -> str:
    """What a variable says of Redis, or of the sentinels."""
    what = variable.removeprefix("REDIS_").removeprefix("SENTINEL_")
    return f"{'of the sentinels' if 'SENTINEL_' in variable else 'of Redis'}: {OF_REDIS[what]}"


CLIENTS = {
    CONFIG: "the file of Kafka's Java clients (client.properties) that says how to get in",
    **{variable: f"the setting `{name}` of such a file" for variable, name in VARIABLES.items()},
    **{variable: of_redis(variable) for variable in REDIS_VARIABLES},
    URL: "where the schema registry is",
    CA: "a file of certificates that vouch for it",
    BASIC_AUTH: "user:password for it",
    BASIC_AUTH_FILE: "a file that holds these",
    SECRET_KEY: "the key by which the shards' secrets are encrypted in the control topic; several with commas between",
    SECRET_KEY_FILE: "a file that holds it, or them",
    **{variable: f"the password of {system}, for rows from a database" for system, variable in PASSWORDS.items()},
    "STREAMER_NATIVE": "`off`: everything runs uncompiled, some hundred times slower; or a file of machine code",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    by_variable, by_file = (", ".join(f"`{name}`" for name in names) for names in (BY_VARIABLE, BY_FILE))
    parts = [HEAD, "## Options\n", "| variable | option | commands |", "|---|---|---|", *_of_options(), ""]
    parts += ["## table.yaml\n", f"Of the sections {by_variable}. A variable that means {by_file} is refused.\n"]
    parts += ["| variable | setting |", "|---|---|"]
    parts += [*_of_table_yaml(), "", "## Servers, secrets and the rest\n", "| variable | what |", "|---|---|"]
    return "\n".join([*parts, *(f"| `{name}` | {what} |" for name, what in CLIENTS.items()), ""])


def _of_options() -> list[str]:
    of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, command in all_commands():
        for option in command.params:
            if isinstance(option.envvar, str):
                of[option.envvar, option.opts[0]].append(name)
    return [f"| `{variable}` | `{option}` | {', '.join(names)} |" for (variable, option), names in sorted(of.items())]


def _of_table_yaml() -> list[str]:
    found = []
    for section in BY_VARIABLE:
        model = TableSettings.model_fields[section].annotation
        names = getattr(model, "model_fields", {})
        found += [f"| `{VARIABLE_PREFIX}{section.upper()}_{name.upper()}` | `{section}.{name}` |" for name in names]
    return found
