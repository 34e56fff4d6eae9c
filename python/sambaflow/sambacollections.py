# SPDX-License-Identifier: Apache-2.0
"""Collections that programs import from here."""

from collections.abc import Iterable, Iterator, MutableSet
from typing import TypeVar

_T = TypeVar("_T")


class OrderedSet(MutableSet[_T]):
    """A set that remembers the order in which elements came.

    >>> OrderedSet([3, 1, 3, 2])
    OrderedSet([3, 1, 2])
    """

    def __init__(self, elements: Iterable[_T] = ()) -> None:
        self._elements = dict.fromkeys(elements)

    def __contains__(self, element: object) -> bool:
        return element in self._elements

    def __iter__(self) -> Iterator[_T]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, index: int) -> _T:
        return list(self._elements)[index]

    def add(self, element: _T) -> None:
        """Puts an element at the end, unless it is there."""
        self._elements[element] = None

    def discard(self, element: _T) -> None:
        """Takes an element out, if it is there."""
        self._elements.pop(element, None)

    def update(self, *others: Iterable[_T]) -> None:
        """Adds the elements of the others, in their order."""
        for other in others:
            for element in other:
                self.add(element)

    def __repr__(self):
        return f"OrderedSet({list(self._elements)})"
