"""The 28 constants of the grid language, for CPython."""

F, T = False, True
ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE, TEN = range(11)
NEG_ONE, NEG_TWO = -1, -2
DOWN, RIGHT, UP, LEFT = (1, 0), (0, 1), (-1, 0), (0, -1)
ORIGIN, UNITY, NEG_UNITY = (0, 0), (1, 1), (-1, -1)
UP_RIGHT, DOWN_LEFT = (-1, 1), (1, -1)
ZERO_BY_TWO, TWO_BY_ZERO, TWO_BY_TWO, THREE_BY_THREE = (0, 2), (2, 0), (2, 2), (3, 3)
