"""The chain with one key a call: each function takes and returns plain Python values."""

import json
from pathlib import Path

from barca import asset, partitions_from, sensor


@sensor()
def versions() -> dict[str, str]:
    return json.loads(Path(__file__).with_name("versions.json").read_text())


@asset(partitions={"device": partitions_from(versions)})
def cleaned(device: str, versions: str) -> dict:
    return {"version": versions, "level": float(len(versions) + int(device[1:]) % 97)}


@asset(partitions={"device": partitions_from(cleaned)})
def scored(device: str, cleaned: dict) -> dict:
    return {"score": cleaned["level"] * 0.5}
