"""Profiles that are shown the way a magic was asked to."""

from __future__ import annotations

import dataclasses
from typing import Any

from onnx_notebook_profiler.profile.result import Order, Profile

__all__ = ["ShownProfile", "shown_profile"]


class ShownProfile(Profile):
    """A profile whose representations follow the options of the magic that made it."""

    __slots__ = ("_order", "_rows", "_times")
    _order: Order
    _rows: int | None
    _times: bool

    def _repr_html_(self) -> str:
        return self.to_html(top=self._rows, sort=self._order)

    def __repr__(self) -> str:
        return self.to_text(times=self._times, top=self._rows, sort=self._order)


def shown_profile(profile: Profile, *, top: int | None, sort: Order, times: bool) -> Profile:
    """*profile* itself where nothing special is asked for, else a copy that is shown with these options."""
    if top is None and sort == "order" and not times:
        return profile
    fields = {field.name: getattr(profile, field.name) for field in dataclasses.fields(Profile)}
    shown = ShownProfile(**fields)
    options: dict[str, Any] = {"_rows": top, "_order": sort, "_times": times}
    for name, value in options.items():
        object.__setattr__(shown, name, value)  # the class is frozen
    return shown
