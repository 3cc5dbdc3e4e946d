"""Type aliases shared across layers; nothing here has behaviour."""

from __future__ import annotations

from typing import Literal, TypeAlias

NodeId: TypeAlias = str
"""`path/file.py:function`, relative to the project root with `/` separators, or a node's `name=`."""

Kind: TypeAlias = Literal["asset", "task", "sensor"]
Engine: TypeAlias = Literal["in-memory", "streaming"]
Serializer: TypeAlias = Literal["table", "json", "pickle"]
Buffer: TypeAlias = bytes | bytearray | memoryview
