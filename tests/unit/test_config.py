"""Bad configuration is named with file, line, key and what is allowed; the rest is kept (09)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents_view.base.config import load_settings
from agents_view.base.settings import Settings


def load(tmp_path: Path, text: str, **environ: str):
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode())
    return load_settings(path, environ)


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    loaded = load_settings(tmp_path / "none.toml", {})
    assert loaded.settings == Settings() and loaded.problems == ()


def test_durations_may_be_numbers_or_texts(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[agent]\ncancel_timeout = "2m"\nstop_step = 1.5\n')
    assert (loaded.settings.agent.cancel_timeout, loaded.settings.agent.stop_step) == (120, 1.5)
    assert not loaded.problems


@pytest.mark.parametrize(
    ("text", "line", "key", "part"),
    [
        ('[agent]\n\ncancel_timeout = "soon"\n', 3, "agent.cancel_timeout", "seconds, or 20m"),
        ("[agent]\ncancel_timeout = 0\n", 2, "agent.cancel_timeout", "> 0"),
        ("[agent]\ncancel_timeuot = 3\n", 2, "agent.cancel_timeuot", "did you mean cancel_timeout"),
        ("[agnet]\n", 1, "agnet", "did you mean agent"),
        ("[daemon]\nmax_clients = 'x'\n", 2, "daemon.max_clients", "int"),
        ("[agents.mine]\ncommand = 3\n", 2, "agents.mine.command", "str"),
        ("agents = 3\n", 1, "agents", "table"),
        ("[keys]\n'session.delete' = 3\n", 2, "keys.session.delete", "keys"),
        ("[keys]\nsession.delete = 3\n", 2, "keys.session.delete", "keys"),
        ("[agent]\nstop_step = inf\n", 2, "agent.stop_step", "finite"),
        ("[agent]\nstop_step = nan\n", 2, "agent.stop_step", "the default is used"),
        ("[agent]\nstop_step = true\n", 2, "agent.stop_step", "float"),
        ("[agent]\nmax_line = 1.5\n", 2, "agent.max_line", "int"),
        ("[agents]\nmine = {command = 3}\n", 2, "agents.mine.command", "str"),
        ('[agents."my agent"]  # a\ncommand = 3\n', 2, "agents.my agent.command", "str"),
        (
            '[agents.a]\ninstall_hint = """\n[agent]\nload = 1\n"""\nload = 3\n',
            6,
            "agents.a.load",
            "bool",
        ),
    ],
)
def test_a_bad_value_is_named_and_replaced_by_its_default(
    tmp_path: Path, text: str, line: int, key: str, part: str
) -> None:
    loaded = load(tmp_path, text + "\n[ui]\nmouse = false\n")
    (problem,) = loaded.problems
    assert (problem.line, problem.key) == (line, key)
    assert part in problem.message
    assert str(problem).startswith(str(tmp_path))
    assert loaded.settings.ui.mouse is False
    assert loaded.settings.agent.cancel_timeout == Settings().agent.cancel_timeout


def test_an_unparsable_file_gives_defaults_and_a_position(tmp_path: Path) -> None:
    loaded = load(tmp_path, "[ui]\nmouse = \n")
    (problem,) = loaded.problems
    assert problem.line == 2
    assert loaded.settings == Settings()
    assert (tmp_path / "config.toml").read_text() == "[ui]\nmouse = \n"


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "\ufffe = 1", "x\x00 = 1"])
def test_whatever_a_file_holds_the_defaults_are_there(tmp_path: Path, text: str) -> None:
    loaded = load(tmp_path, text)
    assert len(loaded.problems) == 1 and loaded.settings == Settings()


def test_a_file_that_is_no_text_or_no_file(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes", "."):
        (problem,) = load_settings(tmp_path / name, {}).problems
        assert "cannot be read" in problem.message


def test_bom_and_crlf_are_accepted(tmp_path: Path) -> None:
    loaded = load(tmp_path, "\ufeff[ui]\r\nmouse = false\r\n")
    assert loaded.settings.ui.mouse is False and not loaded.problems


def test_the_environment_overrides_single_values(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[agent]\nstop_step = 9\n",
        AGENTS_VIEW_AGENT_STOP_STEP="2s",
        AGENTS_VIEW_UI_MOUSE="false",
        AGENTS_VIEW_DAEMON_MAX_CLIENTS="many",
        AGENTS_VIEW_HOME="/somewhere",
    )
    assert (loaded.settings.agent.stop_step, loaded.settings.ui.mouse) == (2, False)
    (problem,) = loaded.problems
    assert str(problem).startswith("environment: AGENTS_VIEW_DAEMON_MAX_CLIENTS")


def test_own_agents_and_dotted_keys(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        '[agents.mine]\ncommand = "my-agent"\nargs = ["--acp"]\n'
        '[keys]\nsession.delete = "D"\n"session.archive" = "X"\n',
    )
    assert loaded.settings.agents["mine"].args == ("--acp",)
    assert loaded.settings.keys == {"session.delete": "D", "session.archive": "X"}
