"""Settings: `barca.toml`, its errors, and the variables that override it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barca.config import Config, available_cores, find_root, read_config
from barca.errors import UsageError


def write(root: Path, text: str) -> Path:
    (root / "barca.toml").write_text(text)
    return root


def test_defaults_without_a_file(tmp_path: Path):
    cores = available_cores()
    assert read_config(tmp_path, {}) == Config(pool_size=cores, capacity=cores)
    assert cores >= 1


def test_every_setting(tmp_path: Path):
    text = """
        [execution]
        pool_size = 3
        capacity = 9
        executor = "inline"
        engine = "streaming"
        [env.prod]
        MODE = "full"
        LIMIT = 5
    """
    config = read_config(write(tmp_path, text), {})
    assert (config.pool_size, config.capacity) == (3, 9)
    assert (config.executor, config.engine) == ("inline", "streaming")
    assert config.environment("prod") == {"MODE": "full", "LIMIT": "5"}
    assert config.file == tmp_path / "barca.toml"


def test_capacity_is_the_pool_size_unless_given_and_caps_the_default_pool(tmp_path: Path):
    assert read_config(write(tmp_path, "[execution]\npool_size = 7"), {}).capacity == 7
    assert read_config(write(tmp_path, "[execution]\ncapacity = 1"), {}).pool_size == 1


def test_variables_override_the_file(tmp_path: Path):
    write(tmp_path, '[execution]\npool_size = 3\nexecutor = "inline"')
    config = read_config(tmp_path, {"BARCA_POOL_SIZE": "5", "BARCA_EXECUTOR": "processes"})
    assert (config.pool_size, config.capacity, config.executor) == (5, 5, "processes")
    assert read_config(tmp_path, {"BARCA_POOL_SIZE": ""}).pool_size == 3


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_pool_size_variable_must_fit(tmp_path: Path, value: str):
    with pytest.raises(UsageError, match="BARCA_POOL_SIZE") as caught:
        read_config(tmp_path, {"BARCA_POOL_SIZE": value})
    assert value in caught.value.message


def test_executor_variable_must_fit(tmp_path: Path):
    with pytest.raises(UsageError, match="BARCA_EXECUTOR") as caught:
        read_config(tmp_path, {"BARCA_EXECUTOR": "process"})
    assert "did you mean `processes`?" in caught.value.remediation


@pytest.mark.parametrize(
    ("text", "message", "remediation"),
    [
        ("[exection]", "no key `exection`", "did you mean `execution`?"),
        ("[execution]\npoolsize = 2", "no key `poolsize`", "did you mean `pool_size`?"),
        ("[execution]\npool_size = 0", "pool_size", None),
        ('[execution]\npool_size = "2"', "'2'", None),
        ("[execution]\ncapacity = true", "True", None),
        ('[execution]\nengine = "fast"', "'fast'", "`in-memory`"),
        ("[execution]\nexecutor = 3", "executor", "`inline`"),
        ("execution = 3", "`execution` is a table", None),
        ("[env]\nprod = 3", "`env.prod` is a table", None),
        ("[env.prod]\nMODE = true", "MODE", 'MODE = "..."'),
        ("[env.prod]\nMODE = [1]", "MODE", None),
        ("[execution", "not valid TOML", None),
    ],
)
def test_errors_name_the_file_the_key_and_what_is_valid(
    tmp_path: Path, text: str, message: str, remediation: str | None
):
    with pytest.raises(UsageError) as caught:
        read_config(write(tmp_path, text), {})
    assert caught.value.file == str(tmp_path / "barca.toml")
    assert message in caught.value.message
    if remediation:
        assert remediation in caught.value.remediation


def test_unknown_environment_names_the_known_ones(tmp_path: Path):
    config = read_config(write(tmp_path, '[env.production]\nA = "1"'), {})
    with pytest.raises(UsageError, match="`productoin`") as caught:
        config.environment("productoin")
    assert "did you mean `production`?" in caught.value.remediation


def test_root_is_the_nearest_folder_with_settings(tmp_path: Path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_root(deep) == deep
    write(tmp_path, "")
    assert find_root(deep) == tmp_path
    write(tmp_path / "a", "")
    assert find_root(deep) == tmp_path / "a"
