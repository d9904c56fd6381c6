"""The magics: ``%onnx_profile``, ``%%onnx_profile``, ``%onnx_explore``, ``%onnx_arena`` and ``%%onnx_model``.

What needs onnx or numpy is imported when a magic is first used, so that loading the extension takes no time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from onnx_notebook_profiler.errors import ProfilerError
from onnx_notebook_profiler.notebook.arguments import (
    find_feeds,
    find_model,
    one_line,
    parse_line,
    read_dims,
    usage_errors,
    variable_name,
    whole_number,
)
from onnx_notebook_profiler.notebook.cell_body import run_cell_body
from onnx_notebook_profiler.notebook.progress import ProgressBars

if TYPE_CHECKING:
    from onnx_notebook_profiler.notebook.cell_sessions import CellSessions
    from onnx_notebook_profiler.notebook.explorer import MemoryExplorer
    from onnx_notebook_profiler.notebook.runs import CellRuns
    from onnx_notebook_profiler.profile.arena_report import ArenaReport
    from onnx_notebook_profiler.profile.result import Profile

__all__ = ["ProfilerMagics"]

_OUTPUT = argument(
    "-o", "--output", metavar="NAME", type=variable_name, help="bind the result to this variable"
)
_QUIET = argument("-q", "--quiet", action="store_true", help="show nothing")
_DIMS = argument(
    "--dims",
    metavar="NAME=SIZE",
    nargs="+",
    action="append",
    default=[],
    help="sizes of symbolic dimensions, such as: --dims batch=8 seq=128",
)


@magics_class
class ProfilerMagics(Magics):
    """Magics about the memory and time of ONNX models."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._bars = ProgressBars(shell)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    @magic_arguments()
    @argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a variable (model, path, ReferenceEvaluator) or a file; not in the cell form",
    )
    @_DIMS
    @argument("--feeds", metavar="NAME", help="a variable: mapping from input name to value")
    @argument(
        "--kernels",
        choices=("auto", "numpy", "onnxruntime"),
        default="auto",
        help="whose kernels run MODEL (default: auto, this package's before onnxruntime's)",
    )
    @argument(
        "--backend",
        choices=("reference", "onnxruntime"),
        default="reference",
        help="who runs MODEL: this package's evaluator, or onnxruntime in a session of its own",
    )
    @argument(
        "--trace",
        action="store_true",
        help="with onnxruntime: every request of its allocator, in a process of its own",
    )
    @_OUTPUT
    @_QUIET
    @argument("--top", metavar="N", type=whole_number, help="rows of each table (default: 40)")
    @argument(
        "--sort", choices=("order", "time", "memory"), default="order", help="order of the nodes"
    )
    @argument("--times", action="store_true", help="show times in plain text too")
    def onnx_profile(
        self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None
    ) -> Any:
        """Profile an ONNX model: memory and time of each node, and where the peak is.

        In a line, MODEL runs once on generated feeds, or on those of the mapping that
        --feeds names; dimensions that --dims does not name have size 1. The result is
        the value of the line: in a loop or a function bind it with -o and display it::

            %onnx_profile model.onnx --dims batch=8 seq=128 -o prof

        In a cell, every run of every onnx_notebook_profiler.ReferenceEvaluator and of every
        onnxruntime.InferenceSession is profiled, also when the cell raises; the code needs
        no change. Each session shows one run: the one that failed, else the last one with
        the highest peak; of onnxruntime the last one. A session of onnxruntime that was made
        before is measured through a second one of the same model, and says so. -o binds
        the profile of the only run, or a list where runs differ in session or sizes::

            %%onnx_profile -o prof
            ReferenceEvaluator(model).run(None, feeds)
        """
        __tracebackhide__ = True
        options = parse_line(self.onnx_profile, line)
        if cell is None:
            return self._profile_model(options, local_ns)
        if options.model is not None or options.dims or options.feeds:
            raise UsageError(
                "%%onnx_profile profiles the runs of its cell and takes no MODEL, --dims or --feeds: "
                "use %onnx_profile MODEL"
            )
        if options.trace or options.backend != "reference":
            raise UsageError(
                "%%onnx_profile profiles whatever its cell runs and takes no --backend or --trace: "
                "use %onnx_profile MODEL"
            )
        return self._profile_cell(options, line, cell)

    def _profile_model(
        self, options: argparse.Namespace, local_ns: Mapping[str, Any] | None
    ) -> Profile | None:
        if options.model is None:
            raise UsageError("%onnx_profile needs a MODEL: a variable or the path of a file")
        model = self._model(options.model, local_ns)
        dims = read_dims(options.dims, local_ns, self._names)
        feeds = find_feeds(options.feeds, local_ns, self._names)
        from onnx_notebook_profiler.profile.profile import profile

        if options.trace and options.backend != "onnxruntime":
            raise UsageError("--trace goes with --backend onnxruntime")
        with usage_errors():
            try:
                with self._bars.counting("onnx_profile", quiet=options.quiet) as progress:
                    prof = profile(
                        model,
                        feeds,
                        dims,
                        backend=options.backend,
                        trace=options.trace,
                        kernels=options.kernels,
                        progress=progress,
                    )
            except ProfilerError as error:
                failed = getattr(error, "profile", None)
                if failed is not None:
                    self._keep(options, failed)
                    self._show(options, failed)
                raise
        self._keep(options, prof)
        return None if options.quiet else self._as_asked(options, prof)

    def _profile_cell(self, options: argparse.Namespace, line: str, cell: str) -> Any:
        __tracebackhide__ = True
        from onnx_notebook_profiler.evaluator.observe import observing
        from onnx_notebook_profiler.notebook.cell_sessions import cell_sessions
        from onnx_notebook_profiler.notebook.runs import CellRuns

        runs = CellRuns()
        raised = True
        with cell_sessions(cell) as sessions:
            try:
                with (
                    self._bars.counting("onnx_profile", quiet=options.quiet) as progress,
                    observing(runs, progress),
                    sessions.watching(),
                ):
                    value = run_cell_body(self.shell, cell, "onnx_profile", line)
                raised = False
            finally:
                self._report(options, runs, sessions, raised=raised)
        return value

    def _report(
        self,
        options: argparse.Namespace,
        runs: CellRuns,
        sessions: CellSessions,
        *,
        raised: bool,
    ) -> None:
        """Show and bind what a cell ran."""
        if not runs and not sessions:
            if not raised and (not options.quiet or options.output):
                _say(
                    "nothing to show, since no onnx_notebook_profiler.ReferenceEvaluator and no "
                    "onnxruntime.InferenceSession ran in this cell (expected a call of its run method)"
                )
            return
        profiles = [*self._evaluators(options, runs), *self._sessions(options, sessions)]
        if profiles:
            self._keep(options, profiles[0] if len(profiles) == 1 else profiles)

    def _evaluators(self, options: argparse.Namespace, runs: CellRuns) -> Iterator[Profile]:
        """The profiles of a cell's evaluators, shown."""
        from onnx_notebook_profiler.profile.profile import profile_run

        for session in runs.sessions():
            kept = session.records if options.output else (session.shown,)
            for record in kept:
                try:
                    prof = profile_run(record)
                except ProfilerError as error:
                    _say(f"a run of {record.evaluator!r} has no profile: {one_line(error)}")
                    continue
                if record is session.shown and not options.quiet:
                    if session.note:
                        _say(session.note)
                    self._show(options, prof)
                yield prof

    def _sessions(self, options: argparse.Namespace, sessions: CellSessions) -> Iterator[Profile]:
        """The profiles of a cell's sessions of onnxruntime, shown."""
        for prof, words in sessions.profiles():
            if words:
                _say(words)
            if prof is not None:
                self._show(options, prof)
                yield prof

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments()
    @argument(
        "model", metavar="MODEL", help="a variable (model, path, ReferenceEvaluator) or a file"
    )
    @_DIMS
    @_OUTPUT
    @_QUIET
    @argument(
        "--account",
        choices=("model", "evaluator"),
        default="model",
        help="what is counted, see ComputeContext",
    )
    def onnx_explore(
        self, line: str, local_ns: Mapping[str, Any] | None = None
    ) -> MemoryExplorer | None:
        """Sliders over the symbolic dimensions of an ONNX model, with the memory of each node.

        The explorer is the value of the line; --dims says where the sliders start::

            %onnx_explore model.onnx --dims batch=8 -o explorer
        """
        options = parse_line(self.onnx_explore, line)
        model = self._model(options.model, local_ns)
        dims = read_dims(options.dims, local_ns, self._names)
        from onnx_notebook_profiler.notebook.explorer import explore

        with usage_errors():
            explorer = explore(model, dims, account=options.account)
        self._keep(options, explorer)
        return None if options.quiet else explorer

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments()
    @argument("model", metavar="MODEL", help="a variable (model, path) or a file")
    @_DIMS
    @argument("--feeds", metavar="NAME", help="a variable: mapping from input name to value")
    @argument(
        "--max-mem",
        metavar="BYTES",
        default="0",
        help="the limit that is asked about, such as 8192 or 64MiB",
    )
    @argument(
        "--strategy",
        choices=("kNextPowerOfTwo", "kSameAsRequested"),
        default="kNextPowerOfTwo",
        help="arena_extend_strategy (default: kNextPowerOfTwo)",
    )
    @argument("--no-pattern", action="store_true", help="enable_mem_pattern is off")
    @argument("--no-optimize", action="store_true", help="the session does not optimize the graph")
    @argument(
        "--runs", metavar="N", type=whole_number, default=3, help="runs of one session (default: 3)"
    )
    @argument(
        "--source",
        choices=("auto", "trace", "rules"),
        default="auto",
        help="a trace of the installed onnxruntime, or this package's rules (default: auto)",
    )
    @argument("--verify", action="store_true", help="try the real runtime around the edges")
    @_OUTPUT
    @_QUIET
    def onnx_arena(
        self, line: str, local_ns: Mapping[str, Any] | None = None
    ) -> ArenaReport | None:
        """Say which max_mem onnxruntime's arena needs for an ONNX model, and why.

        The report is the value of the line. Without --max-mem it shows the arena under the
        least limit that works for all runs::

            %onnx_arena model.onnx --dims batch=8 --max-mem 8192 --verify -o report
        """
        options = parse_line(self.onnx_arena, line)
        model = self._model(options.model, local_ns)
        dims = read_dims(options.dims, local_ns, self._names)
        feeds = find_feeds(options.feeds, local_ns, self._names)
        from onnx_notebook_profiler.profile.arena import arena_report
        from onnx_notebook_profiler.symbolic.budget import parse_bytes

        with usage_errors():
            report = arena_report(
                model,
                dims,
                feeds=feeds,
                max_mem=parse_bytes(options.max_mem),
                strategy=options.strategy,
                pattern=not options.no_pattern,
                optimized=not options.no_optimize,
                runs=options.runs,
                source=options.source,
                verify=options.verify,
            )
        self._keep(options, report)
        return None if options.quiet else report

    @no_var_expand
    @cell_magic
    @magic_arguments()
    @argument(
        "name", metavar="NAME", type=variable_name, help="the variable that the model is bound to"
    )
    @_QUIET
    def onnx_model(self, line: str, cell: str) -> None:
        """Make a model of the ONNX text in the cell, bind it to NAME and print it.

        The text is a whole model or a graph alone::

            %%onnx_model tiny
            agraph (float[N] x) => (float[N] y) { y = Abs(x) }
        """
        options = parse_line(self.onnx_model, line)
        if "{" not in cell:
            raise UsageError(
                "%%onnx_model expects ONNX text, such as: "
                "agraph (float[N] x) => (float[N] y) { y = Abs(x) }"
            )
        from onnx_notebook_profiler.model import load_model
        from onnx_notebook_profiler.render.model_text import pretty_onnx

        with usage_errors():
            model = load_model(cell).proto
            text = pretty_onnx(model)
        self._names[options.name] = model
        if not options.quiet:
            print(text)  # noqa: T201 - what this magic is for

    @property
    def _names(self) -> dict[str, Any]:
        """The user's variables."""
        shell: Any = self.shell
        names: dict[str, Any] = shell.user_ns
        return names

    def _model(self, text: str, local_ns: Mapping[str, Any] | None) -> Any:
        return find_model(text, local_ns, self._names)

    def _keep(self, options: argparse.Namespace, value: Any) -> None:
        if options.output:
            self._names[options.output] = value

    def _show(self, options: argparse.Namespace, prof: Profile) -> None:
        if not options.quiet:
            display(self._as_asked(options, prof))

    def _as_asked(self, options: argparse.Namespace, prof: Profile) -> Profile:
        """*prof* with the view options; a terminal has the text alone, so the text has the times there."""
        from IPython.terminal.interactiveshell import TerminalInteractiveShell

        from onnx_notebook_profiler.notebook.shown import shown_profile

        times = options.times or isinstance(self.shell, TerminalInteractiveShell)
        return shown_profile(prof, top=options.top, sort=options.sort, times=times)


def _say(note: str) -> None:
    print(f"onnx_profile: {note}")  # noqa: T201 - a line beside the results
