"""Programs that make the grid language work hard: every cell, every pair of objects, every window of large grids.

They are in the form of solvers and run on the grids of the tasks that they are named after, but solve none of them: only
`hone bench arc --programs` asks how fast they go.
"""

from dsl import *
from constants import *


def solve_0a938d79(I):
    x1 = asindices(I)
    x2 = ofcolor(I, ZERO)
    x3 = difference(x1, x2)
    x4 = product(x3, x1)
    x5 = fork(connect, first, last)
    x6 = apply(x5, x4)
    x7 = fork(either, vline, hline)
    x8 = mfilter(x6, x7)
    O = underfill(I, THREE, x8)
    return O


def solve_0dfd9992(I):
    x1 = asindices(I)
    x2 = lbind(lbind, crop)
    x3 = x2(I)
    x4 = rbind(x3, THREE_BY_THREE)
    x5 = chain(positive, decrement, numcolors)
    x6 = compose(x5, x4)
    x7 = sfilter(x1, x6)
    x8 = mapply(neighbors, x7)
    O = underfill(I, FOUR, x8)
    return O


def solve_1a07d186(I):
    x1 = leastcolor(I)
    x2 = lbind(mapply, dneighbors)
    x3 = rbind(ofcolor, x1)
    x4 = compose(x2, x3)
    x5 = fork(recolor, leastcolor, x4)
    x6 = fork(underpaint, identity, x5)
    x7 = power(x6, TEN)
    x8 = power(x7, TWO)
    O = x8(I)
    return O


def solve_264363fd(I):
    x1 = fgpartition(I)
    x2 = apply(hmirror, x1)
    x3 = combine(x1, x2)
    x4 = apply(vmirror, x3)
    x5 = combine(x3, x4)
    x6 = objects(I, F, T, T)
    x7 = apply(normalize, x6)
    x8 = combine(x5, x7)
    x9 = lbind(occurrences, I)
    x10 = apply(x9, x8)
    x11 = merge(x10)
    x12 = lbind(lbind, shift)
    x13 = rbind(apply, x11)
    x14 = compose(x13, x12)
    x15 = argmin(x8, size)
    x16 = x14(x15)
    x17 = merge(x16)
    O = paint(I, x17)
    return O


def solve_2dd70a9a(I):
    x1 = asobject(I)
    x2 = compose(neighbors, last)
    x3 = rbind(toobject, I)
    x4 = compose(x3, x2)
    x5 = rbind(colorcount, ZERO)
    x6 = compose(x5, x4)
    x7 = rbind(greater, FIVE)
    x8 = compose(x7, x6)
    x9 = sfilter(x1, x8)
    x10 = recolor(EIGHT, x9)
    O = paint(I, x10)
    return O


def solve_3631a71a(I):
    x1 = asobject(I)
    x2 = hperiod(x1)
    x3 = vperiod(x1)
    x4 = astuple(x3, x2)
    x5 = dmirror(I)
    x6 = papply(pair, I, x5)
    x7 = lbind(apply, maximum)
    x8 = apply(x7, x6)
    x9 = cmirror(x8)
    x10 = papply(pair, x8, x9)
    x11 = apply(x7, x10)
    x12 = partition(x11)
    x13 = mapply(outbox, x12)
    O = fill(x11, ONE, x13)
    return O


def solve_447fd412(I):
    x1 = objects(I, F, T, T)
    x2 = product(x1, x1)
    x3 = fork(manhattan, first, last)
    x4 = order(x2, x3)
    x5 = fork(gravitate, first, last)
    x6 = apply(x5, x4)
    x7 = apply(first, x4)
    x8 = mpapply(shift, x7, x6)
    x9 = rbind(upscale, THREE)
    x10 = mapply(x9, x1)
    x11 = paint(I, x10)
    O = paint(x11, x8)
    return O


def solve_484b58aa(I):
    x1 = interval(ZERO, NINE, ONE)
    x2 = product(x1, x1)
    x3 = product(x2, x2)
    x4 = lbind(crop, I)
    x5 = fork(x4, first, last)
    x6 = fork(multiply, height, width)
    x7 = compose(x6, x5)
    x8 = compose(numcolors, x5)
    x9 = matcher(x8, ONE)
    x10 = sfilter(x3, x9)
    x11 = argmax(x10, x7)
    x12 = x5(x11)
    O = vconcat(I, x12)
    return O


def solve_5daaa586(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = rbind(shoot, UP)
    x4 = rbind(shoot, UNITY)
    x5 = fork(combine, x3, x4)
    x6 = rbind(shoot, LEFT)
    x7 = rbind(shoot, UP_RIGHT)
    x8 = fork(combine, x6, x7)
    x9 = fork(combine, x5, x8)
    x10 = mapply(x9, x2)
    x11 = asindices(I)
    x12 = mapply(x9, x11)
    x13 = intersection(x10, x12)
    O = underfill(I, x1, x13)
    return O


def solve_6d0160f0(I):
    x1 = asindices(I)
    x2 = lbind(contained, ZERO)
    x3 = rbind(toobject, I)
    x4 = chain(palette, x3, neighbors)
    x5 = compose(x2, x4)
    x6 = sfilter(x1, x5)
    x7 = fork(combine, hfrontier, vfrontier)
    x8 = mapply(x7, x6)
    x9 = rbind(adjacent, x6)
    x10 = compose(x9, initset)
    x11 = sfilter(x8, x10)
    O = fill(I, TWO, x11)
    return O


def solve_72322fa7(I):
    x1 = objects(I, F, T, T)
    x2 = totuple(x1)
    x3 = apply(normalize, x2)
    x4 = mostcommon(x3)
    x5 = asindices(I)
    x6 = lbind(shift, x4)
    x7 = apply(x6, x5)
    x8 = asobject(I)
    x9 = lbind(intersection, x8)
    x10 = compose(size, x9)
    x11 = valmax(x7, x10)
    x12 = matcher(x10, x11)
    x13 = mfilter(x7, x12)
    O = paint(I, x13)
    return O


def solve_b527c5c6(I):
    x1 = objects(I, F, F, T)
    x2 = apply(backdrop, x1)
    x3 = merge(x2)
    x4 = mapply(neighbors, x3)
    x5 = rbind(bordering, I)
    x6 = compose(x5, initset)
    x7 = sfilter(x4, x6)
    x8 = corners(x7)
    x9 = prapply(connect, x7, x8)
    x10 = chain(positive, decrement, size)
    x11 = mfilter(x9, x10)
    x12 = underfill(I, SEVEN, x11)
    x13 = objects(x12, T, F, F)
    x14 = order(x13, size)
    x15 = last(x14)
    O = fill(x12, TWO, x15)
    return O
