"""A document as a web page of its own: the fragment, with colours for light and dark, and nothing from elsewhere."""

from __future__ import annotations

from onnx_notebook_profiler.render.clean import escape
from onnx_notebook_profiler.render.html import to_html
from onnx_notebook_profiler.render.sections import Document

__all__ = ["to_page"]

_STYLE = """
:root { color-scheme: light dark; --jp-layout-color0: #ffffff; --jp-layout-color1: #ffffff; --jp-layout-color2: #f0f2f4;
  --jp-content-font-color1: #1f2328; --jp-content-font-color2: #59636e; --jp-border-color2: #d8dee4; }
@media (prefers-color-scheme: dark) { :root { --jp-layout-color0: #16191d; --jp-layout-color1: #16191d;
  --jp-layout-color2: #22272e; --jp-content-font-color1: #e6edf3; --jp-content-font-color2: #a3acb5;
  --jp-border-color2: #3a414a; } }
body { margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; background: var(--jp-layout-color0);
  color: var(--jp-content-font-color1); font: 14px/1.45 system-ui, sans-serif; }
"""


def to_page(document: Document, *, times: bool = True) -> str:
    """A complete HTML page without scripts; it opens from a file and asks for nothing."""
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{to_html(document, times=times)}</body></html>\n"
    )
