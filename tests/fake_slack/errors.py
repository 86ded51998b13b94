"""A refusal by the Web API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ApiError(Exception):
    def __init__(
        self,
        code: str,
        *,
        messages: Sequence[str] = (),
        status: int = 200,
        retry_after_s: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.messages = list(messages)
        self.status = status
        self.retry_after_s = retry_after_s
        self.more = more

    @property
    def answer(self) -> dict[str, Any]:
        answer = {"ok": False, "error": self.code, **self.more}
        if self.messages:
            answer["response_metadata"] = {"messages": self.messages}
        return answer
