"""The fake as a test uses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.fake_slack import reading
from tests.fake_slack.faults import fault_of
from tests.fake_slack.people import People
from tests.fake_slack.records import Team
from tests.fake_slack.socket_mode import SocketMode
from tests.fake_slack.web_api import WebApiServer


class FakeSlack(People):
    """``with FakeSlack() as slack:``. What no Slack would let pass is raised at the end."""

    mentions_in = staticmethod(reading.mentions_in)
    links_in = staticmethod(reading.links_in)
    plain = staticmethod(reading.plain)

    def __init__(
        self, *, clock: Callable[[], float] = time.time, mode: str = "http", patience_s: float = 3.0
    ) -> None:
        super().__init__(clock=clock)
        self.mode = mode
        self.patience_s = patience_s

    def __enter__(self) -> Self:
        self._web = WebApiServer(self)
        self._thread = threading.Thread(
            target=self._web.serve_forever, args=(0.02,), name="fake Slack web"
        )
        self._thread.start()
        self.socket = SocketMode(self)
        self.api_url = f"http://127.0.0.1:{self._web.server_address[1]}/api/"
        self.socket_url = self.socket.url
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self.stopping.set()
        self.socket.stop()
        self._web.shutdown()
        self._thread.join()
        self._web.server_close()
        if kind is None and self.bugs:
            raise AssertionError("\n".join(self.bugs))

    def fail(
        self,
        method: str,
        *,
        times: int = 1,
        status: int | None = None,
        error: str = "",
        retry_after_s: int | None = None,
        delay_s: float = 0,
        drop: str = "",
    ) -> None:
        """The next calls of the method ("*": any) go wrong; as a 500 if nothing else is said."""
        with self.changing():
            self.faults.append(fault_of(method, times, status, error, retry_after_s, delay_s, drop))

    def heal(self) -> None:
        with self.changing():
            self.faults.clear()

    def wait_for_socket(self, seconds: float = 10, team: Team | None = None) -> None:
        self.wait_for(lambda: self.socket.open_lines(team), seconds)

    def refresh_socket(self) -> None:
        self.socket.refresh()

    def drop_socket(self, *, abruptly: bool = False) -> None:
        """Abruptly: without a closing frame, which slack_sdk notices only by its own pings."""
        self.socket.drop(abruptly=abruptly)
