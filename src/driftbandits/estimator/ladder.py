"""The monomials of an expansion, in the order in which they are built from one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ladder_of(d: int, order: int) -> NDArray[np.uint32]:
    """Monomials in d variables of degree 0..order+1, by degree, each built from a parent.

    Columns: parent, variable that multiplies the parent, degree, length of the run that it is in
    (the monomials that differ from it in their powers of the last two variables alone, which stand
    in a row), and then for each variable j the index of this monomial times x_j (degree <= order
    only, else 0).
    """
    exponents: list[tuple[int, ...]] = [(0,) * d]
    index: dict[tuple[int, ...], int] = {exponents[0]: 0}
    built: list[tuple[int, int, int, int]] = [(0, 0, 0, 1)]
    first = 0
    for degree in range(1, order + 2):
        last = len(exponents)
        for parent in range(first, last):
            for j in range(built[parent][1], d):
                child = list(exponents[parent])
                child[j] += 1
                index[tuple(child)] = len(exponents)
                exponents.append(tuple(child))
                built.append((parent, j, degree, 1 + (sum(child[-2:]) if d > 1 else 0)))
        first = last
    ladder = np.zeros((len(exponents), 4 + d), dtype=np.uint32)
    ladder[:, :4] = built
    for i, powers in enumerate(exponents):
        if built[i][2] <= order:
            for j in range(d):
                up = list(powers)
                up[j] += 1
                ladder[i, 4 + j] = index[tuple(up)]
    return ladder
