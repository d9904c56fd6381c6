"""Linear models, support vectors, trees and features of ai.onnx.ml."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import TRANSCENDENTAL, cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import ZERO, Work, flops, macs, rule

__all__: list[str] = []

_ML = "ai.onnx.ml"
_TRANSFORMS = {
    "NONE": 0,
    "LOGISTIC": cost("Sigmoid"),
    "SOFTMAX": cost("softmax"),
    "SOFTMAX_ZERO": cost("softmax"),
    "PROBIT": 2 * TRANSCENDENTAL,
}


def _transform(node: PricedNode) -> int:
    """FLOPs of ``post_transform`` for each score."""
    name = str(node.attribute("post_transform", "NONE"))
    if name not in _TRANSFORMS:
        raise UnknownWork(f"no cost is known for the post_transform {name[:20]!r}")
    return _TRANSFORMS[name]


def _rows(node: PricedNode) -> Expr:
    """A vector is one row."""
    shape = node.shape(0)
    return shape[0] if len(shape) > 1 else Expr.constant(1)


def _count(node: PricedNode, name: str) -> int:
    return len(node.attribute(name) or ())


def _linear(node: PricedNode, scores: int) -> Work:
    """*scores* sums of products for each row."""
    each = scores * _transform(node) + _count(node, "intercepts")
    return macs(_rows(node) * _count(node, "coefficients"), _rows(node) * each)


@rule("LinearRegressor", domain=_ML)
def _regressor(node: PricedNode) -> Work:
    """One MAC for each coefficient and row; one FLOP for each intercept; the post_transform's cost for each score."""
    return _linear(node, int(node.attribute("targets", 1)))


@rule("LinearClassifier", domain=_ML)
def _classifier(node: PricedNode) -> Work:
    """As LinearRegressor; one comparison for each class."""
    classes = max(_count(node, "classlabels_ints"), _count(node, "classlabels_strings"), 1)
    work = _linear(node, classes)
    assert work.flops is not None
    return Work(work.macs, work.flops + _rows(node) * classes)


def _kernels(node: PricedNode) -> tuple[int, int]:
    """For each row: MACs with all support vectors, and what the kernel adds in FLOPs."""
    values = _count(node, "support_vectors")
    features = node.shape(0)[-1]
    if not features.is_constant or not features.value:
        raise UnknownWork("the number of features is not fixed")
    vectors = values // features.value
    kind = str(node.attribute("kernel_type", "LINEAR"))
    each = {
        "LINEAR": 0,
        "POLY": 2 + cost("Pow"),
        "RBF": 1 + cost("Exp"),
        "SIGMOID": 2 + cost("Tanh"),
    }
    if kind not in each:
        raise UnknownWork(f"no cost is known for the kernel {kind[:20]!r}")
    return values, vectors * each[kind] + (values if kind == "RBF" else 0)


@rule("SVMClassifier", "SVMRegressor", domain=_ML)
def _support_vectors(node: PricedNode) -> Work:
    """One MAC for each number of the support vectors and one for each coefficient, for each row.

    FLOPs beside them: the kernel's function, RBF's differences, one for each rho, the post_transform's cost; unknown
    where probabilities are fitted, by iteration.
    """
    values, extra = _kernels(node)
    products = _rows(node) * (values + _count(node, "coefficients"))
    if _count(node, "prob_a"):
        return Work(products, None)
    each = extra + _count(node, "rho")
    scores = node.made if node.op_type == "SVMRegressor" else _rows(node) * _count(node, "rho")
    return macs(products, _rows(node) * each + scores * _transform(node))


@rule("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=_ML)
def _trees(node: PricedNode) -> Work:  # noqa: ARG001 - the data decides
    """No MACs; FLOPs are unknown: the data decides how deep each row goes in each tree."""
    return Work(ZERO, None)


@rule("Binarizer", "Imputer", "OneHotEncoder", domain=_ML)
def _comparing(node: PricedNode) -> Work:
    """One comparison for each output element."""
    return flops(node.made)


@rule("Scaler", domain=_ML)
def _scaler(node: PricedNode) -> Work:
    """A difference and a product for each element."""
    return flops(node.made * 2)


@rule("Normalizer", domain=_ML)
def _normalizer(node: PricedNode) -> Work:
    """|x| or its square, the sum or maximum, the division for each element; for L2 a root for each row."""
    roots = _rows(node) if node.attribute("norm", "MAX") == "L2" else ZERO
    return flops(node.made * 3 + roots)
