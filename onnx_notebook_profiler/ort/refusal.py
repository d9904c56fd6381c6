"""onnxruntime's own words when it refuses a model, and what to do where that is known."""

from __future__ import annotations

__all__ = ["refusal"]

_ADVICE = {
    "locale": (
        "A StringNormalizer names a locale that this system lacks: install it, or set the node's attribute locale to "
        "one that `locale -a` lists"
    ),
    "is not a registered function/op": (
        "An operator is of a domain that this onnxruntime has no kernels for: register its library, or take a version "
        "that has them"
    ),
    "Unsupported model IR version": "Save the model with a lower ir_version, or take a newer onnxruntime",
    "opset": "Convert the model to an older opset, or take a newer onnxruntime",
}


def refusal(version: str, words: str) -> str:
    """The message of an error: the runtime's version and words, and what to do."""
    advice = next((text for part, text in _ADVICE.items() if part in words), "")
    text = f"onnxruntime {version} refuses the model: {words.strip().rstrip('.')}"
    return f"{text}. {advice}" if advice else text
