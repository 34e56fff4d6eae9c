# SPDX-License-Identifier: Apache-2.0
"""Collections that programs import from here."""

from collections.abc import MutableSet


class OrderedSet(MutableSet):
    """A set that remembers the order in which elements came.

    >>> OrderedSet([3, 1, 3, 2])
    OrderedSet([3, 1, 2])
    """

    def __init__(self, elements=()):
        self._elements = dict.fromkeys(elements)

    def __contains__(self, element):
        return element in self._elements

    def __iter__(self):
        return iter(self._elements)

    def __len__(self):
        return len(self._elements)

    def __getitem__(self, index):
        return list(self._elements)[index]

    def add(self, element):
        self._elements[element] = None

    def discard(self, element):
        self._elements.pop(element, None)

    def update(self, *others):
        """Adds the elements of the others, in their order."""
        for other in others:
            for element in other:
                self.add(element)

    def __repr__(self):
        return f"OrderedSet({list(self._elements)})"
