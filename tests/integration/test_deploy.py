"""The files of deploy/: read as the tools that are installed here read them, and by the service.

Tools beside the environment are in the folder that AUCTUNE_DEPLOY_TOOLS names; `make deploy-check`
makes it and runs this file.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from auctune.cli.app import app
from auctune.engine.service_manager import notify_manager
from auctune.service.config.models import ServiceConfig, read_config
from auctune.train.base import Base
from support.pages import ROOT
from support.service_process import running, write_pool_service

pytest_plugins = ["support.tiny_bases"]

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "auctune.service"
KUBERNETES = DEPLOY / "kubernetes"
PASSWORD = {"AUCTUNE_DATABASE_PASSWORD": "secret"}
# Of `systemd-analyze security`, times ten: what it calls OK.
OK_EXPOSURE = 20


def tool(name: str, *elsewhere: str) -> str:
    """The path of a program; skips the test that has none."""
    tools = os.environ.get("AUCTUNE_DEPLOY_TOOLS")
    path = os.pathsep.join([*([tools] if tools else []), os.environ["PATH"], *elsewhere])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed; see `make deploy-check`")
    return found


def run(*command: str | Path, **changes: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **changes}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_command(words: Sequence[str]) -> None:
    """Fail if a command of auctune has an option that there is not."""
    assert words[0] == "serve"
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0, done.output


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def stateful_set() -> Any:
    return yaml.safe_load((KUBERNETES / "statefulset.yaml").read_text())


def container() -> Any:
    return stateful_set()["spec"]["template"]["spec"]["containers"][0]


def check_settings(config: ServiceConfig) -> None:
    """Settings of a service in a container whose password comes from the environment."""
    assert (config.host, config.port) == ("0.0.0.0", 8420)
    assert config.database is not None
    assert re.fullmatch(r"postgresql://auctune@[a-z]+/auctune", config.database)


def test_the_service_accepts_the_settings_of_compose_and_mounts_them() -> None:
    service = compose()["services"]["auctune"]
    (mount,) = (one for one in service["volumes"] if one.endswith(":ro"))
    source, target, _ = mount.split(":")
    assert target == service["command"][service["command"].index("--config") + 1]
    check_settings(read_config(DEPLOY / source))


def test_the_service_accepts_the_settings_of_kubernetes_and_mounts_them() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    (generator,) = listed["configMapGenerator"]
    (name,) = generator["files"]
    (volume,) = (
        one for one in stateful_set()["spec"]["template"]["spec"]["volumes"] if "configMap" in one
    )
    assert volume["configMap"]["name"] == generator["name"]
    (mount,) = (one for one in container()["volumeMounts"] if one["name"] == volume["name"])
    args = container()["args"]
    assert args[args.index("--config") + 1] == f"{mount['mountPath']}/{name}"
    check_settings(read_config(KUBERNETES / name))


def test_all_commands_have_options_that_there_are() -> None:
    (start,) = re.findall(r"^ExecStart=\S+/auctune (.+)$", UNIT.read_text(), re.MULTILINE)
    (image,) = re.findall(r"^CMD (\[.+\])$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    for words in (
        shlex.split(start),
        yaml.safe_load(image),
        compose()["services"]["auctune"]["command"],
        container()["args"],
    ):
        check_command(words)


def test_the_image_has_the_files_that_it_is_built_from() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Containerfile").read_text(), re.M)
    kept = re.findall(r"^!(.+)$", (DEPLOY / "Containerfile.dockerignore").read_text(), re.M)
    names = [name for line in copied for name in line.split()]
    assert sorted(names) == sorted(kept)
    assert all((ROOT / name).exists() for name in names)


def test_hadolint_finds_nothing_in_the_containerfile() -> None:
    run(tool("hadolint"), DEPLOY / "Containerfile")


def test_compose_accepts_its_file_and_no_database_without_a_password() -> None:
    plugins = ("/usr/libexec/docker/cli-plugins", "/usr/lib/docker/cli-plugins")
    command = (tool("docker-compose", *plugins), "--file", DEPLOY / "compose.yaml", "config")
    assert yaml.safe_load(run(*command, **PASSWORD))["services"].keys() == {"auctune", "postgres"}
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "AUCTUNE_DATABASE_PASSWORD" in refused.stderr


def test_the_compose_file_is_one_of_the_specification() -> None:
    tools = os.environ.get("AUCTUNE_DEPLOY_TOOLS")
    if tools is None:
        pytest.skip("AUCTUNE_DEPLOY_TOOLS names no folder; `make deploy-check` makes one")
    script = "import compose_spec, sys; compose_spec.PyCompose.from_yaml(sys.stdin.read())"
    command: list[str | Path] = [Path(tools) / "python", "-c", script]
    subprocess.run(command, input=(DEPLOY / "compose.yaml").read_bytes(), check=True)


def test_kubernetes_accepts_what_kustomize_makes(tmp_path: Path) -> None:
    made = tmp_path / "made.yaml"
    made.write_text(run(tool("kubectl"), "kustomize", KUBERNETES))
    kinds = [one["kind"] for one in yaml.safe_load_all(made.read_text())]
    assert kinds == ["Namespace", "ConfigMap", "Service", "StatefulSet"]
    run(tool("kubernetes-validate"), "--strict", made)


@pytest.mark.parametrize("name", ["auctune.service", "with GPUs"])
def test_systemd_accepts_the_unit_and_rates_it_as_safe(name: str, tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    unit = tmp_path / UNIT.name
    # The program need not be installed here.
    unit.write_text(UNIT.read_text().replace("/opt/auctune/bin/auctune ", "/bin/true "))
    if name == "with GPUs":
        unit.with_name("auctune.service.d").mkdir()
        shutil.copy(DEPLOY / "auctune-gpu.conf", unit.with_name("auctune.service.d") / "gpu.conf")
    run(analyze, "verify", "--man=no", unit)
    threshold = f"--threshold={OK_EXPOSURE}"
    run(analyze, "security", "--offline=true", threshold, unit)


@pytest.mark.slow
def test_a_service_reports_its_start_and_its_end_to_the_service_manager(
    tiny_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{tmp_path}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path}/notify")
        # Few messages fit into a socket whose reader waits.
        reader = threading.Thread(
            target=lambda: received.extend(
                one.decode() for one in iter(lambda: manager.recv(4096), b"END")
            )
        )
        reader.start()
        try:
            config = write_pool_service(tmp_path, tiny_base.architecture)
            with running(config, tmp_path / "data") as service:
                assert service.stop() == 0
        finally:
            notify_manager("END")
            reader.join()
    at = received.index(f"READY=1\nSTATUS=serves at {service.url}")
    assert "STATUS=opening the market" in received[:at]
    assert all(one.startswith("STATUS=") for one in received[:at])
    assert received[at + 1 :] == ["STOPPING=1"]
