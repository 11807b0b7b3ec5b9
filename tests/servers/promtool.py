"""promtool, which parses alerts, expressions and what a worker reports as Prometheus itself would.

It comes in Debian's package prometheus, which starts a server of its own where it is installed. So the package is
unpacked only, into a folder of the cache, where there is no promtool and apt-get can fetch one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from servers.broker.processes import INSTALL_SECONDS_MAX, JARS, run
from servers.broker.servers import NoServers

UNPACKED = JARS.parent / "prometheus" / "promtool"
INSTEAD = "promtool is needed (Debian: prometheus), and nobody has parsed the expressions"


def promtool() -> str:
    """Where it is. Raises NoServers where it is not, and cannot be had."""
    found = shutil.which("promtool") or shutil.which(UNPACKED)
    if found:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoServers(INSTEAD)
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            run("apt-get update", ["apt-get", "update", "-qq"], INSTALL_SECONDS_MAX)
        unpack = f"cd {folder} && apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb ."
        run("fetch promtool with apt-get", ["sh", "-c", unpack], INSTALL_SECONDS_MAX)
        UNPACKED.parent.mkdir(parents=True, exist_ok=True)
        fresh = UNPACKED.with_name(f".promtool.{os.getpid()}")
        shutil.copy(Path(folder) / "usr" / "bin" / "promtool", fresh)
        fresh.rename(UNPACKED)  # whole, or not there
    return str(UNPACKED)
