"""Every threshold, limit and delay of the product, with its default (spec 09).

Durations are seconds; in the config file they may also be written `20m`. A field's docstring-like
`Meta(description=…)` is what `docs/configuration.md` is generated from.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


def _duration(description: str) -> Meta:
    return Meta(gt=0, description=description, extra_json_schema={"unit": "seconds"})


def _bytes(description: str) -> Meta:
    return Meta(gt=0, description=description, extra_json_schema={"unit": "bytes"})


class AgentLimits(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`[agent]`: how long each step of an agent may take, and how much it may say (A2, A6, A7)."""

    initialize_timeout: Annotated[float, _duration("answer to `initialize`")] = 30
    new_session_timeout: Annotated[float, _duration("answer to `session/new`")] = 60
    load_session_timeout: Annotated[float, _duration("answer to `session/load` or `resume`")] = 120
    cancel_timeout: Annotated[float, _duration("a cancel not confirmed by then replaces it")] = 10
    configure_timeout: Annotated[float, _duration("setting a mode, a model or an option")] = 10
    stop_step: Annotated[float, _duration("patience after each of end of input, TERM, KILL")] = 5
    quiet_after: Annotated[float, _duration("silence in a turn that the label mentions")] = 30
    max_line: Annotated[int, _bytes("longest line an agent may print")] = 64 << 20
    stderr_log: Annotated[int, _bytes("kept of an agent's stderr")] = 256 << 10
    stderr_tail: Annotated[int, Meta(gt=0, description="stderr lines shown on failure")] = 8
    kill_background: Annotated[
        bool, Meta(description="end background processes of an agent with its turn")
    ] = False


class DaemonSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`[daemon]`: supervisor, workers and the wire (spec 05.6, 07)."""

    roster_tick: Annotated[float, _duration("roster changes are sent together this often")] = 0.05
    alive_interval: Annotated[float, _duration("a silent worker says it is alive this often")] = 5
    stale_after: Annotated[float, _duration("facts older than this are marked stale (R7)")] = 15
    restart_delays: Annotated[
        tuple[float, ...], Meta(description="seconds before each restart of a crashed worker")
    ] = (0.25, 1.0, 5.0)
    crash_reset: Annotated[float, _duration("health after which crashes are forgotten")] = 600
    supervisor_grace: Annotated[float, _duration("a worker without supervisor starts one")] = 5
    redial_max: Annotated[float, _duration("longest pause between dials of a worker")] = 1
    boot_pass: Annotated[float, _duration("wait for living workers before the first roster")] = 2
    hello_timeout: Annotated[float, _duration("first frame of a connection, a worker's hello")] = 10
    order_timeout: Annotated[float, _duration("a worker's answer to an order")] = 15
    stop_timeout: Annotated[float, _duration("putting every tree to sleep at stop (S50)")] = 30
    socket_check: Annotated[float, _duration("the socket's inode is looked at this often")] = 10
    idle_exit: Annotated[float, _duration("nothing to do for this long: exit (S55)")] = 600
    request_retention: Annotated[float, _duration("outcomes of requests are kept")] = 86_400
    trash_retention: Annotated[float, _duration("deleted sessions are kept")] = 7 * 86_400
    environment_timeout: Annotated[float, _duration("inside an agent: wait for a daemon")] = 10
    max_clients: Annotated[int, Meta(gt=0, description="connections at once")] = 256
    write_buffer: Annotated[int, _bytes("unsent to one client before its stream is dropped")] = (
        1 << 20
    )
    max_prompt: Annotated[int, _bytes("longest prompt")] = 512 << 10
    transcript_entry: Annotated[int, _bytes("longer text is split into several entries")] = 32 << 10
    transcript_page: Annotated[int, _bytes("one chunk of a transcript on the wire")] = 256 << 10
    log_size: Annotated[int, _bytes("a log file is rotated at this size")] = 2 << 20


class PermissionSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`[permissions]`: what may be answered without a person (A5)."""

    allow: Annotated[
        tuple[str, ...], Meta(description="tool kinds allowed once, e.g. `read`, `search`")
    ] = ()


class UiSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`[ui]`: how the dashboard looks."""

    theme: Annotated[str, Meta(description="a theme by name")] = "agents-view-dark"
    animations: Annotated[bool, Meta(description="the running mark changes once a second")] = True
    ascii: Annotated[bool, Meta(description="only ASCII marks")] = False
    mouse: Annotated[bool, Meta(description="clicks and the wheel")] = True
    undo_window: Annotated[float, _duration("how long a toast offers undo")] = 10
    key_guard: Annotated[float, _duration("answers are inert this long after a change")] = 0.4


class AgentEntry(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`[agents.NAME]`: one agent of the catalogue (spec 08.4)."""

    label: Annotated[str, Meta(description="name for people")] = ""
    command: Annotated[str, Meta(description="program, looked up on PATH")] = ""
    args: Annotated[tuple[str, ...], Meta(description="its arguments")] = ()
    env: Annotated[dict[str, str], Meta(description="set for it")] = {}
    env_pass: Annotated[tuple[str, ...], Meta(description="keys it needs of your shell")] = ()
    cwd: Annotated[str, Meta(description="default directory of its sessions")] = ""
    modes: Annotated[tuple[str, ...], Meta(description="modes it is known to offer")] = ()
    load: Annotated[bool, Meta(description="it can load a saved session")] = True
    frame: Annotated[bool, Meta(description="it may be told which job fires, and a tail")] = True
    permissions: Annotated[tuple[str, ...], Meta(description="tool kinds allowed once")] = ()
    kill_background: Annotated[bool | None, Meta(description="overrides `[agent]`")] = None
    requires: Annotated[tuple[str, ...], Meta(description="other programs it needs")] = ()
    install_hint: Annotated[str, Meta(description="how to get it")] = ""


class Settings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The whole configuration file."""

    agent: AgentLimits = AgentLimits()
    daemon: DaemonSettings = DaemonSettings()
    permissions: PermissionSettings = PermissionSettings()
    ui: UiSettings = UiSettings()
    agents: dict[str, AgentEntry] = {}
    keys: dict[str, str] = {}
