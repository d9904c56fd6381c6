"""Watches the sessions of onnxruntime that a piece of code makes and runs, which needs no change for it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["ObservedSession", "WallRun", "observing_sessions", "profiled_options", "unobserved"]

_RUNS: Final = ("run", "run_with_ort_values", "run_with_iobinding")

_SAVED_UP_TO: Final = 2**30
"""Bytes of a model up to which the optimized one is saved."""

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
    """Where its profile and the model that it ran are."""
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

    @property
    def saved(self) -> Path | None:
        """The model that it ran; None where it was not saved."""
        path = self.folder / "saved.onnx"
        return path if path.is_file() else None


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
def profiled_options(options: Any, folder: Path, *, save: bool = True) -> Iterator[None]:
    """For as long as a session is made of *options*, these ask for a profile and the optimized model in *folder*."""
    wanted = {"enable_profiling": True, "profile_file_prefix": str(folder / "profile")}
    if save and not options.optimized_model_filepath:
        wanted["optimized_model_filepath"] = str(folder / "saved.onnx")
    before = {name: getattr(options, name) for name in wanted}
    for name, value in wanted.items():
        setattr(options, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(options, name, value)


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
                    save = _size(path_or_bytes) <= _SAVED_UP_TO
                    with profiled_options(options, known.folder, save=save):
                        make(session, path_or_bytes, options, *args, **kwargs)
                    known.is_profiled = True
            except Exception:  # noqa: BLE001 - it may come from what was added to the options
                make(session, path_or_bytes, sess_options, *args, **kwargs)
            session._sess_options_initial = sess_options  # noqa: SLF001 - as it would be
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
