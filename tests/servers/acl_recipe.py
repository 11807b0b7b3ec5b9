"""A script of kafka-acls commands, run as it is; its commands are carried out by an admin client.

The script calls what KAFKA_ACLS names: here a program that writes its words down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

RECORDER = "import json, sys; open(sys.argv[1], 'a').write(json.dumps(sys.argv[2:]) + chr(10))"
OPERATIONS = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}


def commands_of(script: Path, table_name: str, directory: Path) -> list[list[str]]:
    """The words of every kafka-acls command that the script calls for a table."""
    recorder, written = directory / "recorder.py", directory / "commands.jsonl"
    recorder.write_text(RECORDER)
    environment = {**os.environ, "KAFKA_ACLS": f"{sys.executable} {recorder} {written}"}
    subprocess.run(["sh", str(script), table_name], check=True, env=environment, timeout=60)
    return [json.loads(line) for line in written.read_text().splitlines()]


def grant(bootstrap: str, commands: Sequence[Sequence[str]]) -> None:
    """Carries out `kafka-acls --add` commands."""
    bindings = [binding for command in commands for binding in bindings_of(command)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.create_acls(bindings).values():
        answer.result(20)


def bindings_of(command: Sequence[str]) -> Iterator[AclBinding]:
    """What one command adds; words that kafka-acls does not know end the test."""
    words = argparse.ArgumentParser(exit_on_error=False)
    words.add_argument("--add", action="store_true", required=True)
    words.add_argument("--allow-principal", required=True)
    words.add_argument("--operation", action="append", required=True)
    words.add_argument("--topic", action="append", default=[])
    words.add_argument("--group", action="append", default=[])
    words.add_argument("--transactional-id", action="append", default=[])
    words.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
    said = words.parse_args(list(command))
    pattern = ResourcePatternType[said.resource_pattern_type.upper()]
    named = [
        *((ResourceType.TOPIC, name) for name in said.topic),
        *((ResourceType.GROUP, name) for name in said.group),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in said.transactional_id),
    ]
    for resource, name in named:
        for operation in said.operation:
            allowed = OPERATIONS[operation.lower()], AclPermissionType.ALLOW
            yield AclBinding(resource, name, pattern, said.allow_principal, "*", *allowed)
