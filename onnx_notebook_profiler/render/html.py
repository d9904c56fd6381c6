"""A document as an HTML fragment that needs no script and loses nothing without its styles.

Only elements, attributes and style properties are used that untrusted notebooks keep: tables,
`<details>`, `style`, `title`, `<img>` with a picture of its own. Colours come from the page's
variables where it has them, always text and background together.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx_notebook_profiler.render.bars import bars_img
from onnx_notebook_profiler.render.cells import (
    HEADING_LIMIT,
    PARAGRAPH_LIMIT,
    cell_text,
    full_text,
    header_text,
    more_text,
)
from onnx_notebook_profiler.render.clean import TITLE_LIMIT, escape, shorten
from onnx_notebook_profiler.render.describe import describe_bars, describe_chart
from onnx_notebook_profiler.render.palette import SERIES_COLORS
from onnx_notebook_profiler.render.sections import (
    Bars,
    Block,
    Chart,
    Column,
    Document,
    Section,
    Table,
    visible,
)
from onnx_notebook_profiler.render.svg import chart_img

# A notebook's own variables first, then an editor's, then those of documentation themes.
_INK = (
    "var(--jp-content-font-color1,var(--vscode-editor-foreground,"
    "var(--pst-color-text-base,var(--color-foreground-primary,#1f2328))))"
)
_PAPER = (
    "var(--jp-layout-color0,var(--vscode-editor-background,"
    "var(--pst-color-background,var(--color-background-primary,#ffffff))))"
)
_FONT = (
    "var(--jp-content-font-family,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif)"
)
_RULE = "rgba(128,128,128,0.28)"
_REPORT_STYLE = (
    f"color:{_INK};background:{_PAPER};font-family:{_FONT};font-size:13px;line-height:1.45;"
    "font-variant:tabular-nums;font-variant-numeric:tabular-nums;text-align:left;"
    "max-width:100%;box-sizing:border-box;padding:8px 10px"
)
_LEFT = ' style="text-align:left;white-space:nowrap"'
_RIGHT = ' align="right" style="text-align:right"'
_MARK = "▸"


def to_html(document: Document, *, times: bool = True) -> str:
    """The document as one `<div class="onp-report">`, with measured times unless told otherwise.

    The same document gives the same HTML: it holds no ids and nothing random.
    """
    shown = visible(document, times=times)
    parts = [
        # The two last classes keep mathematics renderers away from names with dollar signs.
        f'<div class="onp-report mathjax_ignore tex2jax_ignore" style="{_REPORT_STYLE}">',
        _heading("h3", shown.title, "font-size:1.25em;font-weight:600;margin:0 0 4px"),
        _paragraph(shown.headline, "onp-headline", "font-size:1.08em;margin:0 0 8px"),
        *map(_section, shown.sections),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _heading(tag: str, title: str, style: str) -> str:
    return f'<{tag} style="{style}">{escape(shorten(title, HEADING_LIMIT))}</{tag}>'


def _paragraph(text: str, name: str, style: str) -> str:
    words = escape(shorten(text, PARAGRAPH_LIMIT))
    return f'<p class="{name}" style="{style};overflow-wrap:anywhere">{words}</p>' if words else ""


def _section(section: Section) -> str:
    body = "\n".join(part for block in section.body for part in _block(block, section.title))
    if not section.folded:
        heading = _heading(
            "h4", section.title, "font-size:1.08em;font-weight:600;margin:14px 0 4px"
        )
        return f'<div class="onp-section">\n{heading}\n{body}\n</div>'
    heading = _heading(
        "h4", section.title, "display:inline;font-size:1.08em;font-weight:600;margin:0"
    )
    return (
        '<details class="onp-section" style="margin:14px 0 4px">'
        f'<summary style="cursor:pointer">{heading}</summary>\n{body}\n</details>'
    )


def _block(block: Block, title: str) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block, title)
    elif isinstance(block, Chart):
        yield from _picture(block.title, chart_img(block), describe_chart(block))
    elif isinstance(block, Bars):
        yield from _picture(block.title, bars_img(block), describe_bars(block))
    else:
        yield _paragraph(block, "onp-text", "margin:8px 0 6px")


def _picture(title: str, image: str, words: tuple[str, ...]) -> Iterator[str]:
    yield '<div class="onp-chart">'
    yield _paragraph(title, "onp-chart-title", "margin:0;font-weight:600")
    yield image
    statements = "".join(f"<li>{escape(line)}</li>" for line in words)
    yield (
        '<details class="onp-chart-text" style="font-size:0.92em;opacity:0.85;margin:2px 0 6px">'
        '<summary style="cursor:pointer">The chart in words</summary>'
        f'<ul style="margin:0;padding-left:18px">{statements}</ul></details></div>'
    )


def _table(table: Table, title: str) -> Iterator[str]:
    label = escape(f"{shorten(title, HEADING_LIMIT)}, table")
    yield (
        f'<div class="onp-scroll" role="region" aria-label="{label}" tabindex="0" '
        'style="overflow-x:auto;max-width:100%">'
    )
    yield (
        '<table class="onp-table" cellpadding="5" style="border-collapse:collapse;'
        'table-layout:auto;margin:0;font-size:12px;color:inherit">'
    )
    yield f"<thead><tr>{''.join(map(_header, table.columns))}</tr></thead>"
    yield "<tbody>"
    for position, row in enumerate(table.rows):
        yield _row(row, table.columns, position in table.marked)
    yield "</tbody></table></div>"
    left_out = more_text(table.more) if table.more else "" if table.rows else "(none)"
    yield _paragraph(left_out, "onp-more", "margin:2px 0 6px;opacity:0.85")


def _header(column: Column) -> str:
    align = column.align
    return (
        f'<th scope="col" align="{align}" style="text-align:{align};white-space:nowrap;'
        f'border-bottom:1px solid {_RULE}">{escape(header_text(column))}</th>'
    )


def _row(row: tuple[object, ...], columns: tuple[Column, ...], marked: bool) -> str:
    cells = [_cell(value, column, marked) for value, column in zip(row, columns, strict=True)]
    if not marked:
        return f'<tr style="border-bottom:1px solid {_RULE}">{"".join(cells)}</tr>'
    # Marked rows differ by weight, a pointer and a bar at their side, not by colour alone.
    return (
        '<tr class="onp-marked" style="background:rgba(213,94,0,0.16);'
        f'box-shadow:inset 3px 0 0 #D55E00;border-bottom:1px solid {_RULE}">{"".join(cells)}</tr>'
    ).replace("<strong>", f"<strong>{_MARK}&nbsp;", 1)


def _cell(value: object, column: Column, marked: bool) -> str:
    text = cell_text(value, column.kind)
    words = escape(text)
    if column.align == "right":
        words = words.replace(" ", "&nbsp;")
    if marked:
        words = f"<strong>{words}</strong>"
    if column.kind == "share" and isinstance(value, (int, float)):
        words = f'{_bar(value)}<span style="display:inline-block;width:4.6em">{words}</span>'
        return f'<td class="onp-share"{_RIGHT[:-1]};white-space:nowrap">{words}</td>'
    return f"<td{_LEFT if column.align == 'left' else _RIGHT}{_full(value, text)}>{words}</td>"


def _full(value: object, shown: str) -> str:
    """The whole name as a hover text where the cell holds a shortened one."""
    full = full_text(value)
    return f' title="{escape(shorten(full, TITLE_LIMIT))}"' if "…" in shown and full else ""


def _bar(share: float) -> str:
    """A bar as long as the share; the figure stands beside it."""
    percent = f"{100 * min(max(share, 0.0), 1.0):.1f}".removesuffix(".0")
    return (
        '<span style="display:inline-block;width:64px;height:9px;vertical-align:middle;'
        f'text-align:left;background:{_RULE}"><span style="display:inline-block;height:9px;'
        f'width:{percent}%;vertical-align:top;background:{SERIES_COLORS[0]}"></span></span>'
    )
