"""tools/bundle.sh: a folder that runs by itself: every library that is not the system's comes out of it."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from server import BUILD, PATIENCE, ROOT, run, scaled

# What a bundle leaves to its host: the C library's family and the compiler's run time.
HOST = re.compile(
    r"^(linux-vdso|libc|libm|libpthread|libdl|librt|libresolv|libstdc\+\+|libgcc_s|libcublas\w*)\.so|^/lib\d*/ld-"
)


def bundle(folder):
    out = pathlib.Path(folder) / "minisgl"
    env = dict(os.environ, MINISGL_BUILD=str(BUILD))
    result = subprocess.run(
        [str(ROOT / "tools/bundle.sh"), "--out", str(out), "--no-archive"],
        env=env,
        capture_output=True,
        text=True,
        timeout=scaled(300),
    )
    assert result.returncode == 0, result.stderr
    return out


def follow_readme(out, env):
    """Its commands do what it says, as they stand there."""
    readme = (out / "README.txt").read_text()
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    ")]
    assert [command.split()[0] for command in commands] == ["./launch.sh", *["bin/minisgl"] * 3, "./launch.sh"], readme
    said = []
    for command in commands:
        result = subprocess.run(
            command, shell=True, cwd=out, env=env, capture_output=True, text=True, timeout=scaled(2 * PATIENCE), stdin=subprocess.DEVNULL
        )
        assert result.returncode == 0, (command, result)
        said.append(result.stdout)
    assert len(said[1]) > 20 and "server 'default'" in said[3], said
    run_dir = pathlib.Path(env["MINISGL_RUN_DIR"])
    assert "/default/*.log" in readme and len(list(run_dir.glob("default/*.log"))) >= 3, list(run_dir.glob("*/*"))


def test_bundle_holds_its_libraries_and_runs():
    with tempfile.TemporaryDirectory() as folder:
        out = bundle(folder)
        needed = set()
        for program in sorted((out / "bin").iterdir()):
            listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
            for line in listing.splitlines():
                name, _, where = line.strip().partition(" => ")
                needed.add(name)
                if HOST.match(name.split()[0]):
                    continue
                assert str(out / "lib") in where or f"{out}/bin/../lib" in where, (program.name, line)
        assert set(os.listdir(out / "lib")) <= needed, needed
        env = {"PATH": "/usr/bin:/bin", "MINISGL_RUN_DIR": str(pathlib.Path(folder) / "run")}
        env |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        follow_readme(out, env)
        result = subprocess.run(
            [str(out / "launch.sh"), "--once", "Once upon a time", "--max-tokens", "12"],
            env=env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=scaled(2 * PATIENCE),
            stdin=subprocess.DEVNULL,
        )
        assert result.returncode == 0, result.stderr
        assert len(result.stdout) > 20, result.stdout


if __name__ == "__main__":
    sys.exit(run(globals()))
