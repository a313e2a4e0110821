"""The grid language in plain Python, for the ratio that `hone bench arc` prints.

Written from the description of the language: grids are tuples of rows, objects and indices are frozensets. Sets iterate as
CPython does, so that a program which takes any element of a set may take another one than in hone.
"""

from collections import Counter


# Numbers and logic


def each(operation):
    """An operation of two numbers, part by part where one of them is a pair."""

    def applied(a, b):
        if isinstance(a, tuple):
            return (operation(a[0], b[0]), operation(a[1], b[1])) if isinstance(b, tuple) else (operation(a[0], b), operation(a[1], b))
        return (operation(a, b[0]), operation(a, b[1])) if isinstance(b, tuple) else operation(a, b)

    return applied


def alone(operation):
    """An operation of one number, on both parts of a pair."""
    return lambda n: (operation(n[0]), operation(n[1])) if isinstance(n, tuple) else operation(n)


add = each(lambda a, b: a + b)
subtract = each(lambda a, b: a - b)
multiply = each(lambda a, b: a * b)
divide = each(lambda a, b: a // b)
invert = alone(lambda n: -n)
double = alone(lambda n: 2 * n)
halve = alone(lambda n: n // 2)
increment = alone(lambda n: n + 1)
decrement = alone(lambda n: n - 1)
sign = alone(lambda n: (n > 0) - (n < 0))
crement = alone(lambda n: n + (n > 0) - (n < 0))


def even(n):
    return n % 2 == 0


def flip(b):
    return not b


def equality(a, b):
    return a == b


def greater(a, b):
    return a > b


def positive(x):
    return x > 0


def toivec(i):
    return (i, 0)


def tojvec(j):
    return (0, j)


def both(a, b):
    return a and b


def either(a, b):
    return a or b


def branch(condition, a, b):
    return a if condition else b


def astuple(a, b):
    return (a, b)


# Containers


def identity(x):
    return x


def contained(value, container):
    return value in container


def size(container):
    return len(container)


def initset(value):
    return frozenset((value,))


def insert(value, container):
    return container | {value}


def remove(value, container):
    return type(container)(item for item in container if item != value)


def other(container, value):
    return next(item for item in container if item != value)


def combine(a, b):
    return type(a)((*a, *b))


def intersection(a, b):
    return a & b


def difference(a, b):
    return type(a)(item for item in a if item not in b)


def merge(containers):
    return type(containers)(item for container in containers for item in container)


def dedupe(tup):
    return tuple(dict.fromkeys(tup))


def repeat(item, num):
    return (item,) * num


def interval(start, stop, step):
    return tuple(range(start, stop, step))


def totuple(container):
    return tuple(container)


def product(a, b):
    return frozenset((x, y) for x in a for y in b)


def pair(a, b):
    return tuple(zip(a, b))


def first(container):
    return next(iter(container))


def last(container):
    if isinstance(container, tuple):
        return container[-1]
    *_, item = container
    return item


def sfilter(container, condition):
    return type(container)(item for item in container if condition(item))


def mfilter(container, function):
    return merge(sfilter(container, function))


def extract(container, condition):
    return next(item for item in container if condition(item))


def sizefilter(container, n):
    return frozenset(item for item in container if len(item) == n)


def colorfilter(objs, value):
    return frozenset(obj for obj in objs if first(obj)[0] == value)


def order(container, compfunc):
    return tuple(sorted(container, key=compfunc))


def maximum(container):
    return max(container, default=0)


def minimum(container):
    return min(container, default=0)


def valmax(container, compfunc):
    return compfunc(max(container, key=compfunc, default=0))


def valmin(container, compfunc):
    return compfunc(min(container, key=compfunc, default=0))


def argmax(container, compfunc):
    return max(container, key=compfunc)


def argmin(container, compfunc):
    return min(container, key=compfunc)


def mostcommon(container):
    counts = Counter(container)
    return min(counts, key=lambda value: (-counts[value], value))


def leastcommon(container):
    counts = Counter(container)
    return min(counts, key=lambda value: (counts[value], value))


# Applying and building functions


def apply(function, container):
    return type(container)(map(function, container))


def rapply(functions, value):
    return type(functions)(function(value) for function in functions)


def mapply(function, container):
    return merge(apply(function, container))


def papply(function, a, b):
    return tuple(map(function, a, b))


def mpapply(function, a, b):
    return merge(papply(function, a, b))


def prapply(function, a, b):
    return frozenset(function(x, y) for x in a for y in b)


def compose(outer, inner):
    return lambda x: outer(inner(x))


def chain(h, g, f):
    return lambda x: h(g(f(x)))


def matcher(function, target):
    return lambda x: function(x) == target


def rbind(function, fixed):
    return lambda *given: function(*given, fixed)


def lbind(function, fixed):
    return lambda *given: function(fixed, *given)


def power(function, n):
    def applied(x):
        for _ in range(n):
            x = function(x)
        return x

    return applied


def fork(outer, a, b):
    return lambda x: outer(a(x), b(x))


# Colours


def colours(element):
    """The colour of every cell."""
    if isinstance(element, tuple):
        return [colour for row in element for colour in row]
    return [colour for colour, _ in element]


def mostcolor(element):
    return mostcommon(colours(element))


def leastcolor(element):
    return leastcommon(colours(element))


def colorcount(element, value):
    return colours(element).count(value)


def palette(element):
    return frozenset(colours(element))


def numcolors(element):
    return len(set(colours(element)))


def color(obj):
    return first(obj)[0]


# Extent and shape


def toindices(patch):
    if not patch:
        return frozenset()
    if isinstance(first(patch)[1], tuple):
        return frozenset(place for _, place in patch)
    return patch


def rows_of(patch):
    return [row for row, _ in toindices(patch)]


def columns_of(patch):
    return [column for _, column in toindices(patch)]


def uppermost(patch):
    return min(rows_of(patch))


def lowermost(patch):
    return max(rows_of(patch))


def leftmost(patch):
    return min(columns_of(patch))


def rightmost(patch):
    return max(columns_of(patch))


def height(piece):
    if isinstance(piece, tuple) or not piece:
        return len(piece)
    return lowermost(piece) - uppermost(piece) + 1


def width(piece):
    if not piece:
        return 0
    return len(piece[0]) if isinstance(piece, tuple) else rightmost(piece) - leftmost(piece) + 1


def shape(piece):
    return (height(piece), width(piece))


def portrait(piece):
    return height(piece) > width(piece)


def square(piece):
    if isinstance(piece, tuple):
        return len(piece) == len(piece[0])
    return height(piece) == width(piece) and height(piece) * width(piece) == len(piece)


def vline(patch):
    return width(patch) == 1 and height(patch) == len(patch)


def hline(patch):
    return height(patch) == 1 and width(patch) == len(patch)


def ulcorner(patch):
    return (uppermost(patch), leftmost(patch)) if patch else ()


def urcorner(patch):
    return (uppermost(patch), rightmost(patch)) if patch else ()


def llcorner(patch):
    return (lowermost(patch), leftmost(patch)) if patch else ()


def lrcorner(patch):
    return (lowermost(patch), rightmost(patch)) if patch else ()


def corners(patch):
    return frozenset((ulcorner(patch), urcorner(patch), llcorner(patch), lrcorner(patch)))


def center(patch):
    return (uppermost(patch) + height(patch) // 2, leftmost(patch) + width(patch) // 2)


def centerofmass(patch):
    return (sum(rows_of(patch)) // len(patch), sum(columns_of(patch)) // len(patch)) if patch else ()


def period(obj, extent, step):
    """The least number of steps after which the object agrees with itself."""
    normal = normalize(obj)
    for n in range(1, extent):
        moved = shift(normal, (-step[0] * n, -step[1] * n))
        if all(cell in normal for cell in moved if min(cell[1]) >= 0):
            return n
    return extent


def hperiod(obj):
    return period(obj, width(obj), (0, 1))


def vperiod(obj):
    return period(obj, height(obj), (1, 0))


# Relations


def hmatching(a, b):
    return not set(rows_of(a)).isdisjoint(rows_of(b))


def vmatching(a, b):
    return not set(columns_of(a)).isdisjoint(columns_of(b))


def manhattan(a, b):
    return min(abs(i - x) + abs(j - y) for i, j in toindices(a) for x, y in toindices(b))


def adjacent(a, b):
    return manhattan(a, b) == 1


def bordering(patch, grid):
    return (
        uppermost(patch) == 0
        or leftmost(patch) == 0
        or lowermost(patch) == len(grid) - 1
        or rightmost(patch) == len(grid[0]) - 1
    )


def position(a, b):
    if center(a) == center(b):
        return (0, -1)
    return sign(subtract(center(b), center(a)))


def gravitate(source, destination):
    axis = 0 if vmatching(source, destination) else 1
    sense = 1 if center(source)[axis] < center(destination)[axis] else -1
    direction = (sense, 0) if axis == 0 else (0, sense)
    for n in range(42):
        if adjacent(source, destination):
            return multiply(direction, n)
        source = shift(source, direction)
    return multiply(direction, 42)


# Making and moving patches


def asindices(grid):
    return frozenset((i, j) for i in range(len(grid)) for j in range(len(grid[0])))


def asobject(grid):
    return frozenset((colour, (i, j)) for i, row in enumerate(grid) for j, colour in enumerate(row))


def ofcolor(grid, value):
    return frozenset((i, j) for i, row in enumerate(grid) for j, colour in enumerate(row) if colour == value)


def is_inside(grid, place):
    return 0 <= place[0] < len(grid) and 0 <= place[1] < len(grid[0])


def toobject(patch, grid):
    return frozenset((grid[i][j], (i, j)) for i, j in toindices(patch) if is_inside(grid, (i, j)))


def recolor(value, patch):
    return frozenset((value, place) for place in toindices(patch))


def shift(patch, directions):
    if not patch:
        return patch
    down, right = directions
    if isinstance(first(patch)[1], tuple):
        return frozenset((colour, (i + down, j + right)) for colour, (i, j) in patch)
    return frozenset((i + down, j + right) for i, j in patch)


def normalize(patch):
    return shift(patch, (-uppermost(patch), -leftmost(patch))) if patch else patch


def dneighbors(loc):
    i, j = loc
    return frozenset(((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)))


def ineighbors(loc):
    i, j = loc
    return frozenset(((i - 1, j - 1), (i - 1, j + 1), (i + 1, j - 1), (i + 1, j + 1)))


def neighbors(loc):
    return dneighbors(loc) | ineighbors(loc)


def connect(a, b):
    down, right = subtract(b, a)
    if down and right and abs(down) != abs(right):
        return frozenset()
    step = sign((down, right))
    return frozenset((a[0] + n * step[0], a[1] + n * step[1]) for n in range(max(abs(down), abs(right)) + 1))


def shoot(start, direction):
    return connect(start, (start[0] + 42 * direction[0], start[1] + 42 * direction[1]))


def vfrontier(location):
    return frozenset((i, location[1]) for i in range(30))


def hfrontier(location):
    return frozenset((location[0], j) for j in range(30))


def rectangle(top, left, bottom, right):
    return frozenset((i, j) for i in range(top, bottom + 1) for j in range(left, right + 1))


def backdrop(patch):
    return rectangle(*ulcorner(patch), *lrcorner(patch)) if patch else frozenset()


def delta(patch):
    return backdrop(patch) - frozenset(toindices(patch)) if patch else frozenset()


def outline(top, left, bottom, right):
    return frozenset((i, j) for i, j in rectangle(top, left, bottom, right) if i in (top, bottom) or j in (left, right))


def box(patch):
    return outline(*ulcorner(patch), *lrcorner(patch)) if patch else patch


def outbox(patch):
    return outline(*decrement(ulcorner(patch)), *increment(lrcorner(patch)))


def inbox(patch):
    (top, left), (bottom, right) = increment(ulcorner(patch)), decrement(lrcorner(patch))
    return outline(min(top, bottom), min(left, right), max(top, bottom), max(left, right))


# Finding things


def objects(grid, univalued, diagonal, without_bg):
    background = mostcolor(grid) if without_bg else None
    around = neighbors if diagonal else dneighbors
    found, seen = set(), set()
    for start in asindices(grid):
        if start in seen or grid[start[0]][start[1]] == background:
            continue
        colour = grid[start[0]][start[1]]
        cells, waiting = set(), [start]
        seen.add(start)
        while waiting:
            place = waiting.pop()
            cells.add((grid[place[0]][place[1]], place))
            for near in around(place):
                if near in seen or not is_inside(grid, near):
                    continue
                at = grid[near[0]][near[1]]
                if at == colour if univalued else at != background:
                    seen.add(near)
                    waiting.append(near)
        found.add(frozenset(cells))
    return frozenset(found)


def partition(grid):
    cells = asobject(grid)
    return frozenset(frozenset(cell for cell in cells if cell[0] == value) for value in palette(grid))


def fgpartition(grid):
    cells = asobject(grid)
    return frozenset(frozenset(cell for cell in cells if cell[0] == value) for value in palette(grid) - {mostcolor(grid)})


def occurrences(grid, obj):
    cells = normalize(obj)
    tops, lefts = range(len(grid) - height(obj) + 1), range(len(grid[0]) - width(obj) + 1)
    meets = lambda top, left: all(grid[top + i][left + j] == colour for colour, (i, j) in cells)
    return frozenset((top, left) for top in tops for left in lefts if meets(top, left))


def frontiers(grid):
    rows = [i for i, row in enumerate(grid) if len(set(row)) == 1]
    columns = [j for j, column in enumerate(zip(*grid)) if len(set(column)) == 1]
    flat = [frozenset((grid[i][j], (i, j)) for j in range(len(grid[0]))) for i in rows]
    upright = [frozenset((grid[i][j], (i, j)) for i in range(len(grid))) for j in columns]
    return frozenset(flat + upright)


def index(grid, loc):
    return grid[loc[0]][loc[1]] if is_inside(grid, loc) else None


# Reshaping


def canvas(value, dimensions):
    return ((value,) * dimensions[1],) * dimensions[0]


def crop(grid, start, dims):
    return tuple(row[start[1]:start[1] + dims[1]] for row in grid[start[0]:start[0] + dims[0]])


def subgrid(patch, grid):
    return crop(grid, ulcorner(patch), shape(patch))


def trim(grid):
    return tuple(row[1:-1] for row in grid[1:-1])


def tophalf(grid):
    return grid[:len(grid) // 2]


def bottomhalf(grid):
    return grid[(len(grid) + 1) // 2:]


def lefthalf(grid):
    return dmirror(tophalf(dmirror(grid)))


def righthalf(grid):
    return dmirror(bottomhalf(dmirror(grid)))


def vsplit(grid, n):
    piece, gap = len(grid) // n, len(grid) % n != 0
    return tuple(grid[i * (piece + gap):i * (piece + gap) + piece] for i in range(n))


def hsplit(grid, n):
    piece, gap = len(grid[0]) // n, len(grid[0]) % n != 0
    return tuple(crop(grid, (0, j * (piece + gap)), (len(grid), piece)) for j in range(n))


def hconcat(a, b):
    return tuple(x + y for x, y in zip(a, b))


def vconcat(a, b):
    return a + b


def rot90(grid):
    return tuple(zip(*grid[::-1]))


def rot180(grid):
    return tuple(row[::-1] for row in grid[::-1])


def rot270(grid):
    return tuple(zip(*grid))[::-1]


def reflected(piece, change):
    """Each place of a patch changed, colours kept."""
    if isinstance(first(piece)[1], tuple):
        return frozenset((colour, change(*place)) for colour, place in piece)
    return frozenset(change(*place) for place in piece)


def hmirror(piece):
    if isinstance(piece, tuple):
        return piece[::-1]
    ends = uppermost(piece) + lowermost(piece)
    return reflected(piece, lambda i, j: (ends - i, j))


def vmirror(piece):
    if isinstance(piece, tuple):
        return tuple(row[::-1] for row in piece)
    ends = leftmost(piece) + rightmost(piece)
    return reflected(piece, lambda i, j: (i, ends - j))


def dmirror(piece):
    if isinstance(piece, tuple):
        return tuple(zip(*piece))
    top, left = ulcorner(piece)
    return reflected(piece, lambda i, j: (top + j - left, left + i - top))


def cmirror(piece):
    if isinstance(piece, tuple):
        return tuple(zip(*(row[::-1] for row in piece[::-1])))
    return vmirror(dmirror(vmirror(piece)))


def hupscale(grid, factor):
    return tuple(tuple(colour for colour in row for _ in range(factor)) for row in grid)


def vupscale(grid, factor):
    return tuple(row for row in grid for _ in range(factor))


def upscale(element, factor):
    if isinstance(element, tuple):
        return vupscale(hupscale(element, factor), factor)
    if not element:
        return frozenset()
    top, left = ulcorner(element)
    return frozenset(
        (colour, (top + (i - top) * factor + down, left + (j - left) * factor + right))
        for colour, (i, j) in element
        for down in range(factor)
        for right in range(factor)
    )


def downscale(grid, factor):
    return tuple(row[::factor] for row in grid[::factor])


def compress(grid):
    kept = [j for j, column in enumerate(zip(*grid)) if len(set(column)) > 1]
    return tuple(tuple(row[j] for j in kept) for row in grid if len(set(row)) > 1)


# Painting


def painted(grid, cells, background=None):
    """The grid with cells in their colours, only over the background if there is one."""
    rows = [list(row) for row in grid]
    for colour, (i, j) in cells:
        if 0 <= i < len(rows) and 0 <= j < len(rows[0]) and (background is None or rows[i][j] == background):
            rows[i][j] = colour
    return tuple(map(tuple, rows))


def fill(grid, value, patch):
    return painted(grid, ((value, place) for place in toindices(patch)))


def paint(grid, obj):
    return painted(grid, obj)


def underfill(grid, value, patch):
    return painted(grid, ((value, place) for place in toindices(patch)), mostcolor(grid))


def underpaint(grid, obj):
    return painted(grid, obj, mostcolor(grid))


def cover(grid, patch):
    return fill(grid, mostcolor(grid), patch)


def move(grid, obj, offset):
    return paint(cover(grid, obj), shift(obj, offset))


def replace(grid, replacee, replacer):
    return tuple(tuple(replacer if colour == replacee else colour for colour in row) for row in grid)


def switch(grid, a, b):
    return tuple(tuple(b if colour == a else a if colour == b else colour for colour in row) for row in grid)


def cellwise(a, b, fallback):
    return tuple(
        tuple(colour if colour == b[i][j] else fallback for j, colour in enumerate(row)) for i, row in enumerate(a)
    )
