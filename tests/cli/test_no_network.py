"""No command needs a network, and none tries to use one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GUARD = '''
import sys

def refuse(event, arguments):
    """Let sockets within the machine be (pipes of child processes), and nothing else."""
    reaches = event in ("socket.connect", "socket.bind", "socket.sendto") and isinstance(arguments[1], tuple)
    if reaches or event in ("socket.getaddrinfo", "urllib.Request"):
        print("NETWORK", event, arguments[1:], file=sys.stderr, flush=True)
        raise OSError(f"no network here: {event}")

sys.addaudithook(refuse)
from gpzed.cli import main
for line in sys.argv[1].splitlines():
    code = main(line.split())
    assert code == 0, (line, code)
'''


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GUARD, text]
    return subprocess.run(command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=600)


def test_train_predict_evaluate_and_report_without_a_network(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "[model]\nn_basis = 5\nn_members = 2\nn_heads = 2\n[training]\nmax_iter = 10\nn_epochs = 2\n"
    )
    done = run(
        tmp_path,
        f"""train {folder}/train.parquet -o m.gpzed --config run.toml
predict m.gpzed {folder}/train.parquet -o out.parquet
evaluate out.parquet
report out.parquet -o page.html
info m.gpzed""",
    )
    assert done.returncode == 0, done.stderr
    assert "NETWORK" not in done.stderr
    assert "http://" not in (tmp_path / "page.html").read_text().replace("http://www.w3.org/", "")


def test_the_guard_sees_a_connection(tmp_path: Path) -> None:
    code = GUARD.replace("from gpzed.cli import main", "import socket; socket.create_connection(('192.0.2.1', 80), 1)")
    done = subprocess.run([sys.executable, "-c", code, ""], capture_output=True, text=True)
    assert done.returncode != 0
    assert "NETWORK" in done.stderr
