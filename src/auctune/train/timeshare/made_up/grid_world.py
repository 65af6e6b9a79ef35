"""Rooms of cells with walls, a walker and a treasure; an expert who knows the shortest way.

In place of Montezuma's Revenge. A room is a square of cells, of which about a quarter are walls,
drawn from a seed; the walker and the treasure are in cells with a way between them. An action is a
step up, down, left or right; one into a wall does nothing.

The expert takes the step to the neighbour that is nearest to the treasure by breadth-first
search, the first of those in the order of ACTIONS.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE = 8
ACTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
FAR = 10_000


@dataclass(frozen=True)
class Room:
    """A room with its expert.

    Attributes:
        walls: (SIDE, SIDE), 1 where there is a wall.
        treasure: its cell.
        start: the walker's first cell.
        distance: (SIDE, SIDE) steps to the treasure; FAR where there is no way.
    """

    walls: NDArray[np.int64]
    treasure: tuple[int, int]
    start: tuple[int, int]
    distance: NDArray[np.int64]

    def view(self, walker: tuple[int, int]) -> NDArray[np.uint8]:
        """(3, SIDE, SIDE): walls, the walker, the treasure."""
        seen = np.zeros((3, SIDE, SIDE), dtype=np.uint8)
        seen[0] = self.walls
        seen[1][walker] = 1
        seen[2][self.treasure] = 1
        return seen

    def move(self, walker: tuple[int, int], action: int) -> tuple[int, int]:
        """Where an action leads."""
        down, right = ACTIONS[action]
        cell = walker[0] + down, walker[1] + right
        inside = 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE
        return cell if inside and not self.walls[cell] else walker

    def expert(self, walker: tuple[int, int]) -> int:
        """The expert's action in a cell other than the treasure's."""
        return int(np.argmin([self.distance[self.move(walker, a)] for a in range(len(ACTIONS))]))


def make_room(draw: np.random.Generator, walls: float = 0.25) -> Room:
    """A room in which there is a way of two steps at least."""
    while True:
        built = (draw.random((SIDE, SIDE)) < walls).astype(np.int64)
        free = np.argwhere(built == 0)
        if len(free) == 0:
            continue
        row, column = free[draw.integers(len(free))]
        treasure = int(row), int(column)
        distance = _distances(built, treasure)
        starts = np.argwhere((distance >= 2) & (distance < FAR))
        if len(starts):
            row, column = starts[draw.integers(len(starts))]
            return Room(built, treasure, (int(row), int(column)), distance)


def _distances(walls: NDArray[np.int64], treasure: tuple[int, int]) -> NDArray[np.int64]:
    distance = np.full((SIDE, SIDE), FAR)
    distance[treasure] = 0
    border = [treasure]
    while border:
        reached = []
        for row, column in border:
            for down, right in ACTIONS:
                cell = row + down, column + right
                inside = 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE
                if inside and not walls[cell] and distance[cell] == FAR:
                    distance[cell] = distance[row, column] + 1
                    reached.append(cell)
        border = reached
    return distance
