"""One output of the running cell that can be shown, updated and taken back without a trace.

Jupyter's protocol can clear all outputs of a cell, but not one of them. So for as long as such an
output may be needed, the messages that go to the cell are watched where they leave the kernel. To
take the output back, the cell is cleared and what it had shown is sent again, in the same order and
unchanged. The output is also taken back as soon as anything else is shown, so it never stands between
outputs of the user, and whoever saves the notebook at the end finds those alone.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["CellOutput", "cell_output", "is_watchable"]

_KEPT_CHARACTERS = 4_000_000
"""A cell that has shown more than this gets no further transient output: sending it again takes too long."""

_SHOWING = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})
_WATCHED = _SHOWING | {"update_display_data"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Sent:
    """What is needed to send a message a second time."""

    stream: Any
    kind: str
    content: Mapping[str, Any]
    metadata: Mapping[str, Any]
    ident: Any


class CellOutput:
    """The outputs of the cell that a kernel runs now; made by :func:`cell_output`."""

    def __init__(self, publisher: Any) -> None:
        self._session = publisher.session
        self._socket = publisher.pub_socket
        self._topic = publisher.topic
        self._parent: Mapping[str, Any] = publisher.parent_header
        self._streams = (sys.stdout, sys.stderr)
        self._send = self._session.send
        self._lock = threading.RLock()
        self._sent: list[_Sent] = []
        self._characters = 0
        self._captures: set[str] = set()
        self._display_id = ""
        self._closed = False

    @property
    def visible(self) -> bool:
        """Whether the transient output is on show."""
        return bool(self._display_id)

    def show(self, data: Mapping[str, str]) -> None:
        """Show a bundle (MIME type -> text), or let it replace the one on show.

        Nothing happens where it could not be taken back: while an Output widget catches the cell's
        outputs, and after very large ones.
        """
        if not self.visible:
            for stream in self._streams:
                stream.flush()
        with self._lock:
            if self._captures or self._characters > _KEPT_CHARACTERS:
                return
            kind = "update_display_data" if self.visible else "display_data"
            self._display_id = self._display_id or uuid.uuid4().hex
            transient = {"display_id": self._display_id}
            self._send_new(kind, {"data": dict(data), "metadata": {}, "transient": transient})

    def take_back(self) -> None:
        """Remove what :meth:`show` showed; everything else that the cell shows stays."""
        with self._lock:
            if not self.visible:
                return
            self._display_id = ""
            # Waiting for the first of the outputs to come avoids a flicker, but needs one to come.
            wait = bool(self._sent) and self._sent[0].kind in ("stream", "display_data")
            self._send_new("clear_output", {"wait": wait})
            for one in self._sent:
                message = self._session.msg(
                    one.kind, one.content, parent=self._parent, metadata=one.metadata
                )
                self._send(one.stream, message, ident=one.ident)

    def close(self) -> None:
        """Take the output back, and watch no longer."""
        self.take_back()
        self._closed = True
        self._sent.clear()

    def _send_new(self, kind: str, content: Mapping[str, Any]) -> None:
        message = self._session.msg(kind, content, parent=self._parent)
        self._send(self._socket, message, ident=self._topic)

    def watch(self, stream: Any, msg_or_type: Any, *args: Any, **kwargs: Any) -> Any:
        """Stand in for the session's ``send``, from whatever thread it is called."""
        message = msg_or_type
        if not isinstance(message, Mapping):
            names = ("content", "parent", "ident", "buffers", "track", "header", "metadata")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            parts = {
                name: given[name]
                for name in ("content", "parent", "header", "metadata")
                if name in given
            }
            message = self._session.msg(msg_or_type, **parts)
            args, kwargs = (), {name: value for name, value in given.items() if name not in parts}
        if self._closed or not self._is_ours(message):
            return self._send(stream, message, *args, **kwargs)
        with self._lock:
            self._note(stream, message, kwargs.get("ident"))
            return self._send(stream, message, *args, **kwargs)

    def _is_ours(self, message: Mapping[str, Any]) -> bool:
        """Whether a message is an output of this cell, or about one."""
        kind = message["header"]["msg_type"]
        if kind.startswith("comm_"):
            return True
        parent = message.get("parent_header") or {}
        return kind in _WATCHED and parent.get("msg_id") == self._parent.get("msg_id")

    def _note(self, stream: Any, message: Mapping[str, Any], ident: Any) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind.startswith("comm_"):
            self._note_capture(content)
            return
        if kind in _SHOWING:
            self.take_back()
        if self._captures:
            return
        if kind == "clear_output" and not content.get("wait"):
            self._sent.clear()
            self._characters = 0
            return
        self._characters += sum(len(str(part)) for part in content.values())
        if self._characters > _KEPT_CHARACTERS:
            self._sent.clear()
        else:
            self._sent.append(_Sent(stream, kind, content, message.get("metadata") or {}, ident))

    def _note_capture(self, content: Mapping[str, Any]) -> None:
        """An Output widget says by its ``msg_id`` which cell's outputs it catches from now on."""
        state = (content.get("data") or {}).get("state") or {}
        if "msg_id" not in state:
            return
        if state["msg_id"]:
            self.take_back()
            self._captures.add(content["comm_id"])
        else:
            self._captures.discard(content["comm_id"])


@contextmanager
def cell_output(publisher: Any) -> Iterator[CellOutput]:
    """Watch the outputs of the running cell, of which there must be none yet.

    Args:
        publisher: The kernel's display publisher, see :func:`is_watchable`.
    """
    output = CellOutput(publisher)
    session = publisher.session
    session.send = output.watch
    try:
        yield output
    finally:
        output.close()
        if vars(session).get("send") == output.watch:  # else somebody else stands before us
            del session.send


def is_watchable(publisher: Any) -> bool:
    """Whether *publisher* is that of a kernel, and nobody has put a hand on its session already."""
    session = getattr(publisher, "session", None)
    if session is None or getattr(publisher, "pub_socket", None) is None:
        return False
    return "send" not in vars(session) and bool(publisher.parent_header)
