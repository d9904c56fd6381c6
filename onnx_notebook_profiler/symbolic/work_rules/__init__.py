"""How much each operator computes: one file for each family, one function for each way of counting.

One MAC is one multiplication whose product is added to a sum: of matrix products, convolutions, attention, recurrent
cells and whatever else is a sum of products of two tensors. One MAC is 2 FLOPs, and a node's FLOPs include those of its
MACs. A FLOP is one arithmetic operation on numbers, integers and truth values included: an addition, a multiplication,
a division, a square root, a comparison, a rounding, a logical or bitwise operation. Functions such as exp have
a weight of their own, and what has a formula counts what its formula says (``costs.py``). Moving, casting and filling
data is none. A sum or maximum over n elements counts n. Padding counts like data, masked scores like others: what is
counted is the plain loop over the shapes, never what a clever kernel can skip.
"""
