"""Watches the sessions of onnxruntime that a piece of code makes and runs, which needs no change for it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.node_map import name_nameless

__all__ = ["ObservedSession", "WallRun", "observing_sessions", "second_session", "unobserved"]

_RUNS: Final = ("run", "run_with_ort_values", "run_with_iobinding")

_SAVED_UP_TO: Final = 2**30
"""Bytes of a model up to which a copy of it is made and saved."""

_own = threading.local()


@dataclasses.dataclass(frozen=True, slots=True)
class WallRun:
    """One call of a session, as its caller sees it."""

    duration_ns: int
    feeds: Mapping[str, Any] | None
    """None where it was called in another way than by ``run``."""
    error: str


@dataclasses.dataclass(slots=True)
class ObservedSession:
    """A session that ran while it was watched."""

    number: int
    """Counted from 0, in the order in which they were made or first ran."""
    model: str | bytes | None
    """Where its model comes from; None where nobody knows."""
    options: Any
    providers: tuple[str, ...]
    is_new: bool
    """Whether it was made while it was watched; one made before cannot be switched to profiling."""
    folder: Path
    """Where its profile is."""
    alive: weakref.ref[Any]
    is_profiled: bool = False
    began_ns: int = 0
    runs: list[WallRun] = dataclasses.field(default_factory=list)

    def profile(self) -> str:
        """The text of its profile; empty where there is none."""
        if not self.is_profiled:
            return ""
        session = self.alive()
        if session is not None:
            session.end_profiling()
        files = sorted(self.folder.glob("profile*.json"))
        return files[-1].read_text(encoding="utf-8", errors="replace") if files else ""


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Sessions that this package makes for itself, in this thread, are nobody's business."""
    before = getattr(_own, "is_own", False)
    _own.is_own = True
    try:
        yield
    finally:
        _own.is_own = before


@contextlib.contextmanager
def set_for_now(options: Any, **wanted: Any) -> Iterator[None]:
    """For as long as a session is made of *options*, these have other values."""
    before = {name: getattr(options, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(options, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(options, name, value)


def second_session(known: ObservedSession, runtime: Any, folder: Path, *, is_profiled: bool) -> Any:
    """A session of the same model, options and providers, which saves what it runs as ``saved.onnx`` in *folder*.

    It says nothing. Names of nodes in it are those of the first session, but for what layouts put in.

    Raises:
        Exception: Whatever the runtime raises.
    """
    options = known.options if known.options is not None else runtime.SessionOptions()
    saved = options.optimized_model_filepath
    if _size(known.model) <= _SAVED_UP_TO:
        saved = str(folder / "saved.onnx")
    wanted = {
        "enable_profiling": is_profiled,
        "profile_file_prefix": str(folder / "profile"),
        "optimized_model_filepath": saved,
        "log_severity_level": 4,
    }
    with unobserved(), set_for_now(options, **wanted):
        return runtime.InferenceSession(
            _named(known.model), options, providers=list(known.providers)
        )


@contextlib.contextmanager
def observing_sessions(runtime: Any, folder: Path) -> Iterator[list[ObservedSession]]:
    """Watch every ``InferenceSession``; the class is as before when this ends, whatever happens.

    Args:
        runtime: The module ``onnxruntime``.
        folder: Where profiles go; it must outlive the use of what is yielded.
    """
    kind = runtime.InferenceSession
    watch = _Watch(runtime, folder)
    before = {name: vars(kind).get(name) for name in ("__init__", *_RUNS)}
    kind.__init__ = watch.making(kind.__init__)
    for name in _RUNS:
        if hasattr(kind, name):
            setattr(kind, name, watch.running(getattr(kind, name), has_feeds=name == "run"))
    try:
        yield watch.sessions
    finally:
        for name, value in before.items():
            if value is not None:
                setattr(kind, name, value)
            elif name in vars(kind):
                delattr(kind, name)


class _Watch:
    def __init__(self, runtime: Any, folder: Path) -> None:
        self.sessions: list[ObservedSession] = []
        self._by_session: weakref.WeakKeyDictionary[Any, ObservedSession] = (
            weakref.WeakKeyDictionary()
        )
        self._runtime = runtime
        self._folder = folder
        self._lock = threading.Lock()

    def making(self, make: Callable[..., None]) -> Callable[..., None]:
        """Stands in for ``InferenceSession.__init__``."""

        @functools.wraps(make)
        def make_profiled(
            session: Any, path_or_bytes: Any, sess_options: Any = None, *args: Any, **kwargs: Any
        ) -> None:
            if getattr(_own, "is_own", False):
                make(session, path_or_bytes, sess_options, *args, **kwargs)
                return
            known = self._new(session, is_new=True)
            options = sess_options if sess_options is not None else self._runtime.SessionOptions()
            try:
                if options.enable_profiling:  # the file is the caller's
                    make(session, path_or_bytes, sess_options, *args, **kwargs)
                else:
                    prefix = str(known.folder / "profile")
                    with set_for_now(options, enable_profiling=True, profile_file_prefix=prefix):
                        make(session, _named(path_or_bytes), options, *args, **kwargs)
                    known.is_profiled = True
            except Exception:  # noqa: BLE001 - it may come from what was added to the options
                make(session, path_or_bytes, sess_options, *args, **kwargs)
            _restore(session, path_or_bytes, sess_options)
            _describe(known, session)
            if known.is_profiled:
                known.began_ns = session.get_profiling_start_time_ns()

        return make_profiled

    def running(self, run: Callable[..., Any], *, has_feeds: bool) -> Callable[..., Any]:
        """Stands in for a method that runs the session."""

        @functools.wraps(run)
        def run_timed(session: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(_own, "is_own", False):
                return run(session, *args, **kwargs)
            feeds = (args[1] if len(args) > 1 else kwargs.get("input_feed")) if has_feeds else None
            held = dict(feeds) if isinstance(feeds, Mapping) else None
            error = ""
            began = time.perf_counter_ns()
            try:
                return run(session, *args, **kwargs)
            except BaseException as raised:
                error = f"{type(raised).__name__}: {raised}"
                raise
            finally:
                known = self._known(session)
                if known.runs:  # feeds are held for the last run alone
                    known.runs[-1] = dataclasses.replace(known.runs[-1], feeds=None)
                known.runs.append(WallRun(time.perf_counter_ns() - began, held, error))

        return run_timed

    def _known(self, session: Any) -> ObservedSession:
        known = self._by_session.get(session)
        if known is None:
            known = self._new(session, is_new=False)
            _describe(known, session)
        return known

    def _new(self, session: Any, *, is_new: bool) -> ObservedSession:
        with self._lock:
            number = len(self.sessions)
            folder = self._folder / str(number)
            folder.mkdir()
            known = ObservedSession(number, None, None, (), is_new, folder, weakref.ref(session))
            self.sessions.append(known)
            self._by_session[session] = known
        return known


def _named(model: Any) -> Any:
    """*model* with a name for each node that has none; *model* itself where there are none, or it is no such model."""
    if _size(model) > _SAVED_UP_TO:
        return model
    try:
        loaded = load_model(model)
    except ModelError:
        return model
    has_data_apart = any(one.data_location for one in loaded.proto.graph.initializer)
    if has_data_apart or not name_nameless(loaded.proto):
        return model
    return loaded.proto.SerializeToString()


def _restore(session: Any, model: Any, options: Any) -> None:
    """The session's own notes are those that it would have made of the caller's arguments."""
    is_bytes = isinstance(model, bytes)
    notes = {
        "_model_path": None if is_bytes else os.fspath(model),
        "_model_bytes": model if is_bytes else None,
        "_sess_options_initial": options,
    }
    for name, value in notes.items():
        if hasattr(session, name):
            setattr(session, name, value)


def _describe(known: ObservedSession, session: Any) -> None:
    """What a second session would have to be made of."""
    known.model = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
    known.options = getattr(session, "_sess_options_initial", None)
    known.providers = tuple(session.get_providers())


def _size(model: Any) -> int:
    if isinstance(model, bytes):
        return len(model)
    with contextlib.suppress(OSError, TypeError):
        path = Path(model)
        data = path.with_name(f"{path.name}.data")
        return path.stat().st_size + (data.stat().st_size if data.is_file() else 0)
    return 0
