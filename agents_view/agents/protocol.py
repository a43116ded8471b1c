"""The agent's side of ACP, as far as `shell` speaks it."""

from __future__ import annotations

import msgspec


class _Message(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    pass


class Named(_Message, kw_only=True, frozen=True):
    session_id: str = ""


class NewSession(_Message, kw_only=True, frozen=True):
    cwd: str


class LoadSession(_Message, kw_only=True, frozen=True):
    session_id: str
    cwd: str


class Opened(_Message, kw_only=True, frozen=True):
    session_id: str


class Loaded(_Message, kw_only=True, frozen=True):
    pass


class Text(_Message, kw_only=True, frozen=True):
    text: str = ""
    type: str = "text"


class Prompt(_Message, kw_only=True, frozen=True):
    session_id: str
    prompt: tuple[Text, ...]


class Stopped(_Message, kw_only=True, frozen=True):
    stop_reason: str


class Implementation(_Message, kw_only=True, frozen=True):
    name: str
    version: str


class PromptCapabilities(_Message, kw_only=True, frozen=True):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class Capabilities(_Message, kw_only=True, frozen=True):
    load_session: bool = True
    prompt_capabilities: PromptCapabilities = PromptCapabilities()


class Initialized(_Message, kw_only=True, frozen=True):
    agent_info: Implementation
    protocol_version: int = 1
    agent_capabilities: Capabilities = Capabilities()
    auth_methods: tuple[str, ...] = ()


class Chunk(_Message, kw_only=True, frozen=True):
    session_update: str
    content: Text


class ToolText(_Message, kw_only=True, frozen=True):
    content: Text
    type: str = "content"


class Input(_Message, kw_only=True, frozen=True):
    command: str


class Result(_Message, kw_only=True, frozen=True):
    exit_code: int


class ToolCall(_Message, kw_only=True, frozen=True, omit_defaults=True):
    """A call or an update of one; inside a permission request it has no update kind."""

    session_update: str | None = None
    tool_call_id: str
    title: str
    kind: str
    status: str
    content: tuple[ToolText, ...] | None = None
    raw_input: Input | None = None
    raw_output: Result | None = None


class Notification(_Message, kw_only=True, frozen=True):
    session_id: str
    update: msgspec.Struct


class PermissionOption(_Message, kw_only=True, frozen=True):
    option_id: str
    name: str
    kind: str


class RequestPermission(_Message, kw_only=True, frozen=True):
    session_id: str
    tool_call: ToolCall
    options: tuple[PermissionOption, ...]


class Outcome(_Message, kw_only=True, frozen=True):
    outcome: str = "cancelled"
    option_id: str = ""


class PermissionAnswer(_Message, kw_only=True, frozen=True):
    outcome: Outcome = Outcome()
