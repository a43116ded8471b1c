"""temporary"""
from __future__ import annotations
import tomllib
from pathlib import Path
import msgspec
from agents_view.base.settings import Settings
class Loaded(msgspec.Struct):
    settings: Settings
    problems: tuple[str, ...] = ()
def load_settings(path: Path) -> Loaded:
    if path.exists():
        return Loaded(msgspec.convert(tomllib.loads(path.read_text()), Settings))
    return Loaded(Settings())
