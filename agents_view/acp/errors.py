"""How a step of an agent fails: the one exception of the session client (A2)."""

from __future__ import annotations

from agents_view.base.processes import exit_text


class AgentError(Exception):
    """A step of an agent that failed: which, why, and what its process said last."""

    def __init__(
        self,
        step: str,
        message: str,
        *,
        command: str = "",
        exit_code: int | None = None,
        stderr: tuple[str, ...] = (),
        noise: tuple[str, ...] = (),
        advice: str = "",
        needs_login: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.message = message
        self.command = command
        self.exit_code = exit_code
        self.stderr = stderr
        self.noise = noise
        self.advice = advice
        self.needs_login = needs_login

    def text(self) -> str:
        """All of it in one line for people."""
        parts = [self.message if self.step == "start" else f"{self.step}: {self.message}"]
        if self.exit_code is not None and exit_text(self.exit_code) not in self.message:
            parts.append(exit_text(self.exit_code))
        if self.advice:
            parts.append(self.advice)
        if self.command:
            parts.append(f"command: {self.command[:300]}")
        if self.stderr:
            parts.append("last words: " + " / ".join(line[:200] for line in self.stderr))
        if self.noise:
            parts.append("it printed: " + " / ".join(line[:200] for line in self.noise))
        return " · ".join(parts)
