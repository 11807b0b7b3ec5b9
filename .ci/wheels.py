"""Makes the sdist and, of it, a wheel with machine code for each system, into dist/; checks each as far as it can here.

The wheel of x86-64 Linux is installed where there is no compiler, that of arm64 Linux in a Debian for arm64 by qemu;
both run README's first command by machine code, and write the same file. Those of macOS cannot run here: their headers
are read. So are those of the others elsewhere than on Linux for x86-64, or without qemu-user-static and apt-get; which
check was made is said. `make wheels` calls this.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import backend

ROOT = Path(__file__).resolve().parent.parent
DIST, ZIG = ROOT / "dist", ROOT / ".venv" / "zig"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
BASE = ["--require-hashes", "-r", ROOT / "requirements" / "base.txt"]
EIGHT = ["--table", ROOT / "examples" / "eight", ROOT / "examples" / "eight" / "rows.csv"]
NEWEST_GLIBC = (2, 28)
QEMU = "qemu-aarch64-static"
DEBIAN = "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1 libstdc++6 zlib1g libexpat1"
DEBIAN += " libffi8 libssl3 liblzma5 libbz2-1.0 libuuid1 libcrypt1"
"""What a Python for arm64 is made of."""

Command = Sequence[str | Path]


def run(command: Command, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Ends this with what a command said if it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done


def made(sdist: Path, target: str) -> Path:
    """The wheel of a system."""
    before = set(DIST.glob("*.whl"))
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", DIST, "-C", f"target={target}"]
    run([*PIP, "wheel", *options, sdist], PYTHONPATH=str(ZIG))
    (wheel,) = set(DIST.glob("*.whl")) - before
    return wheel


def anonymized(python: Command, folder: Path, **environment: str) -> bytes:
    """The file that README's first command writes; it must run by machine code, and see no compiler."""
    words = ["-m", "streamer.cli.main", "anonymize", *EIGHT, "-o", "anonymous.csv"]
    done = run([*python, *words], folder, PATH="/nowhere", **environment)
    if done.stderr:
        sys.exit(f"README's first command says: {done.stderr}")
    return (folder / "anonymous.csv").read_bytes()


def on_x86_64(wheel: Path, folder: Path) -> bytes:
    """Also loads each of its files, as far as this processor can."""
    run([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    run([*PIP, "--python", python, "install", *BASE])
    run([*PIP, "--python", python, "install", "--no-deps", wheel])
    each = "from streamer.native.library import *; assert all(Library(one).is_current() for one in FOLDER.iterdir())"
    run([python, "-c", each], folder)
    return anonymized([python], folder)


def on_arm64(wheel: Path, folder: Path) -> bytes:
    """In a folder with Debian's Python, of packages that are only unpacked."""
    state, root, site = folder / "apt", folder / "root", folder / "site"
    for part in ("lists/partial", "archives/partial", "packages"):
        (state / part).mkdir(parents=True)
    settings = ["APT::Architecture=arm64", "APT::Architectures=arm64", f"Dir::State={state}", f"Dir::Cache={state}"]
    settings += ["Dir::State::status=/dev/null", "APT::Sandbox::User=root", "Debug::NoLocking=1"]
    apt = ["apt-get", "-qq", *(word for one in settings for word in ("-o", one))]
    run([*apt, "update"])
    run([*apt, "download", *DEBIAN.split()], state / "packages")
    for package in (state / "packages").iterdir():
        run(["dpkg-deb", "-x", package, root])
    of_arm64 = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 17)]
    options = ["--target", site, "--python-version=3.11", "--only-binary=:all:", *of_arm64]
    run([*PIP, "install", *options, *BASE])
    run([*PIP, "install", *options, "--no-deps", wheel])
    emulator = shutil.which(QEMU) or QEMU
    return anonymized([emulator, "-L", root, root / "usr/bin/python3.11"], folder, PYTHONPATH=str(site))


def check_elf(name: str, code: bytes) -> None:
    """It asks for no newer C library than its tag says."""
    asked = {tuple(map(int, one.split(b"."))) for one in re.findall(rb"\0GLIBC_([\d.]+)(?=\0)", code)}
    if max(asked, default=(0,)) > NEWEST_GLIBC:
        sys.exit(f"{name} asks for the C library {max(asked)}")


def check_macho(name: str, code: bytes, processor: int) -> None:
    """A signed library for a processor and macOS 11, which loads the system's alone, and gives what Python calls."""
    _, of, _, kind, n_commands, *_ = struct.unpack_from("<8I", code)
    loads, oldest, given, signed, at = [], 0, set(), False, 32
    for _ in range(n_commands):
        command, size = struct.unpack_from("<2I", code, at)
        if command == 0x0C:  # LC_LOAD_DYLIB
            loads.append(code[at + 24 : at + size].rstrip(b"\0").decode())
        elif command == 0x32:  # LC_BUILD_VERSION
            oldest = struct.unpack_from("<I", code, at + 12)[0] >> 16
        elif command == 0x02:  # LC_SYMTAB
            given = exported(code, *struct.unpack_from("<3I", code, at + 8))
        signed |= command == 0x1D  # LC_CODE_SIGNATURE
        at += size
    found = (kind, of, loads, oldest, signed or processor != 0x100000C, {"_streamer_says", "_core_release"} <= given)
    if found != (6, processor, ["/usr/lib/libSystem.B.dylib"], 11, True, True):
        sys.exit(f"{name} is not the library that macOS needs: {found}")


def exported(code: bytes, symbols: int, number: int, strings: int) -> set[str]:
    """The names that a library gives, of its table of symbols."""
    table = [struct.unpack_from("<IBBHQ", code, symbols + 16 * one) for one in range(number)]
    names = [(strings + name, kind) for name, kind, *_ in table if kind & 0x1F == 0x0F]  # defined, and not hidden
    return {code[at : code.index(b"\0", at)].decode() for at, _ in names}


def check(target: str, wheel: Path, folder: Path) -> bytes | None:
    """What a wheel's first command wrote, if it could run; says what was checked."""
    files = {one: ZipFile(wheel).read(one) for one in ZipFile(wheel).namelist() if "native/library/" in one}
    machine, system = target.split("-")
    wrote = None
    for name, code in files.items():
        if system == "macos":
            check_macho(name, code, {"x86_64": 0x1000007, "aarch64": 0x100000C}[machine])
        else:
            check_elf(name, code)
    word = "its headers are right; not run"
    if target == "x86_64-linux" == backend.this_system():
        wrote, word = on_x86_64(wheel, folder), "README's first command runs, without a compiler"
    elif target == "aarch64-linux" and shutil.which(QEMU) and shutil.which("apt-get"):
        wrote, word = on_arm64(wheel, folder), "README's first command runs, under qemu"
    print(f"{wheel.name}: {', '.join(Path(one).name for one in files)}; {word}", flush=True)
    return wrote


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        sdist = DIST / backend.build_sdist(str(DIST))
    wrote = set()
    for target in backend.TAGS:
        print(f"builds for {target} (some ten seconds)", flush=True)
        with TemporaryDirectory() as folder:
            wrote.add(check(target, made(sdist, target), Path(folder)))
    if len(wrote - {None}) > 1:
        sys.exit("two systems wrote different files")


if __name__ == "__main__":
    main()
