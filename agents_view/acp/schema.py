"""The part of the Agent Client Protocol that we read and write (version 1).

Tolerant: agents leave out, add and misname; every field has a default, unknown fields are ignored
here and kept raw beside (A11). `read` takes what makes sense of a message and leaves the rest at
its default. `_meta` is never looked at.
"""

from __future__ import annotations

import typing
from typing import Any, Final, TypeVar

import msgspec

PROTOCOL: Final = 1

T = TypeVar("T")


def read(raw: bytes, kind: type[T]) -> T:
    """As much of `kind` as the JSON object `raw` holds: a field that is something else than we
    know stays at its default, an element of a list that is gets lost, the others are read.

    `null` reads as an empty object. Raises `msgspec.MsgspecError` if it is no object at all, and
    `RecursionError`.
    """
    try:
        return msgspec.json.decode(raw if raw != b"null" else b"{}", type=kind)
    except msgspec.ValidationError:
        pass
    given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):  # type: ignore[type-var]
        if field.encode_name in given:
            value = _read_value(bytes(given[field.encode_name]), field.type)
            if value is not msgspec.UNSET:
                values[field.name] = value
    return kind(**values)


def _read_value(raw: bytes, kind: Any) -> object:
    """The value, or what can be read of it if it is an object or a list; else UNSET."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        pass
    for member in typing.get_args(kind) or (kind,):
        inner = _element_of(kind if typing.get_origin(kind) is tuple else member)
        try:
            if inner is not None:
                items = msgspec.json.decode(raw, type=list[msgspec.Raw])
                found = (_read_value(bytes(item), inner) for item in items)
                return tuple(item for item in found if item is not msgspec.UNSET)
            if isinstance(member, type) and issubclass(member, msgspec.Struct):
                return read(raw, member)
        except msgspec.MsgspecError:
            continue
    return msgspec.UNSET


def _element_of(kind: Any) -> Any:
    """What `tuple[X, ...]` consists of, None for any other type."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


class _Read(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What an agent sends."""


class _Write(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=False):
    """What we send."""


# --- initialize


class FileSystem(_Write, kw_only=True, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(_Write, kw_only=True, frozen=True):
    """No file system, no terminal (A12)."""

    fs: FileSystem = FileSystem()
    terminal: bool = False


class Implementation(_Write, kw_only=True, frozen=True):
    name: str
    version: str
    title: str | None = None


class Initialize(_Write, kw_only=True, frozen=True):
    protocol_version: int
    client_info: Implementation
    client_capabilities: ClientCapabilities = ClientCapabilities()


class PromptCapabilities(_Read, kw_only=True, frozen=True):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class AgentCapabilities(_Read, kw_only=True, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    session_capabilities: dict[str, msgspec.Raw] | None = None

    @property
    def can_resume(self) -> bool:
        """Advertised, and not as `null` or `false`."""
        offered = (self.session_capabilities or {}).get("resume", msgspec.Raw(b"null"))
        return bytes(offered) not in (b"null", b"false")


class AuthMethod(_Read, kw_only=True, frozen=True):
    id: str = ""
    name: str = ""


class Initialized(_Read, kw_only=True, frozen=True):
    protocol_version: int | str = PROTOCOL
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: tuple[AuthMethod, ...] | None = None

    @property
    def capabilities(self) -> AgentCapabilities:
        return self.agent_capabilities or AgentCapabilities()


# --- sessions


class NewSession(_Write, kw_only=True, frozen=True):
    cwd: str
    mcp_servers: tuple[str, ...] = ()


class LoadSession(_Write, kw_only=True, frozen=True):
    session_id: str
    cwd: str
    mcp_servers: tuple[str, ...] = ()


class Choice(_Read, kw_only=True, frozen=True):
    """A mode or a model; agents name the id differently."""

    id: str = ""
    model_id: str = ""
    value: str = ""
    name: str = ""

    @property
    def key(self) -> str:
        return self.id or self.model_id or self.value


class Modes(_Read, kw_only=True, frozen=True):
    current_mode_id: str | None = None
    available_modes: tuple[Choice, ...] | None = None


class Models(_Read, kw_only=True, frozen=True):
    """The old form, still sent by half of the agents."""

    current_model_id: str | None = None
    available_models: tuple[Choice, ...] | None = None


class ConfigOption(_Read, kw_only=True, frozen=True):
    id: str = ""
    name: str = ""
    category: str | None = None
    current_value: Any = None
    options: msgspec.Raw = msgspec.Raw(b"null")

    def choices(self) -> tuple[Choice, ...]:
        """Options, flat or in groups."""
        try:
            flat = msgspec.json.decode(self.options, type=list[_OptionOrGroup])
        except msgspec.MsgspecError:
            return ()
        found: list[Choice] = []
        for item in flat:
            found.extend(item.options or (Choice(value=item.value, name=item.name),))
        return tuple(found)


class _OptionOrGroup(_Read, kw_only=True, frozen=True):
    value: str = ""
    name: str = ""
    options: tuple[Choice, ...] | None = None


class SessionOpened(_Read, kw_only=True, frozen=True):
    """Answer to new, load and resume."""

    session_id: str = ""
    modes: Modes | None = None
    models: Models | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class SetMode(_Write, kw_only=True, frozen=True):
    session_id: str
    mode_id: str


class SetModel(_Write, kw_only=True, frozen=True):
    session_id: str
    model_id: str


class SetConfigOption(_Write, kw_only=True, frozen=True):
    session_id: str
    config_id: str
    value: str


class ConfigOptionsChanged(_Read, kw_only=True, frozen=True):
    config_options: tuple[ConfigOption, ...] | None = None


# --- prompting


class TextBlock(_Write, kw_only=True, frozen=True):
    text: str
    type: str = "text"


class Prompt(_Write, kw_only=True, frozen=True):
    session_id: str
    prompt: tuple[TextBlock, ...]


class Prompted(_Read, kw_only=True, frozen=True):
    stop_reason: str = "end_turn"


class Cancel(_Write, kw_only=True, frozen=True):
    session_id: str


# --- updates


class Content(_Read, kw_only=True, frozen=True):
    """A content block: text, or something else named by its type."""

    type: str = ""
    text: str = ""
    uri: str = ""
    name: str = ""
    resource: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def shown(self) -> str:
        if self.type == "text" or self.text:
            return self.text
        return f"[{self.type}{' ' + (self.name or self.uri) if self.name or self.uri else ''}]"


class ToolContent(_Read, kw_only=True, frozen=True):
    """What a tool call carries: content, a diff, or a terminal."""

    type: str = ""
    content: Content | None = None
    path: str = ""
    old_text: str | None = None
    new_text: str | None = None
    terminal_id: str = ""


class Location(_Read, kw_only=True, frozen=True):
    path: str = ""
    line: int | None = None

    @property
    def shown(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class PlanStep(_Read, kw_only=True, frozen=True):
    content: str = ""
    status: str = "pending"
    priority: str = ""


class Command(_Read, kw_only=True, frozen=True):
    name: str = ""
    description: str = ""


class RawInput(_Read, kw_only=True, frozen=True):
    """The few fields of a tool's input that say what will be done."""

    command: Any = None
    cmd: Any = None
    description: Any = None
    file_path: Any = None
    path: Any = None


class ToolCall(_Read, kw_only=True, frozen=True):
    """A tool call, or an update of one: what is absent stays as it was."""

    tool_call_id: str = ""
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[ToolContent, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: msgspec.Raw = msgspec.Raw(b"null")
    raw_output: msgspec.Raw = msgspec.Raw(b"null")

    def input(self) -> RawInput:
        """The input as far as it is an object with names we know."""
        try:
            return msgspec.json.decode(self.raw_input, type=RawInput)
        except msgspec.MsgspecError:
            return RawInput()


class Update(_Read, kw_only=True, frozen=True):
    """Any `session/update`; which fields mean something follows from the kind."""

    session_update: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")
    entries: tuple[PlanStep, ...] | None = None
    available_commands: tuple[Command, ...] | None = None
    current_mode_id: str | None = None
    config_options: tuple[ConfigOption, ...] | None = None
    title: msgspec.Raw = msgspec.Raw(b"null")


class UpdateNotification(_Read, kw_only=True, frozen=True):
    session_id: str = ""
    update: msgspec.Raw = msgspec.Raw(b"{}")


# --- permission


class PermissionOption(_Read, kw_only=True, frozen=True):
    option_id: str = ""
    name: str = ""
    kind: str = ""


class RequestPermission(_Read, kw_only=True, frozen=True):
    session_id: str = ""
    tool_call: ToolCall | None = None
    options: tuple[PermissionOption, ...] | None = None


class Outcome(_Write, kw_only=True, frozen=True):
    outcome: str
    option_id: str | msgspec.UnsetType = msgspec.UNSET


class PermissionOutcome(_Write, kw_only=True, frozen=True):
    outcome: Outcome
