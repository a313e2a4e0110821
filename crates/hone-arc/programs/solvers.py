from dsl import *
from constants import *


def solve_007bbfb7(I):
    x1 = upscale(I, THREE)
    x2 = repeat(I, THREE)
    x3 = merge(x2)
    x4 = hconcat(x3, x3)
    x5 = hconcat(x4, x3)
    O = cellwise(x1, x5, ZERO)
    return O


def solve_00d62c1b(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = compose(flip, x3)
    x5 = mfilter(x2, x4)
    O = fill(I, FOUR, x5)
    return O


def solve_017c7c7b(I):
    x1 = asobject(I)
    x2 = vperiod(x1)
    x3 = width(I)
    x4 = astuple(x2, x3)
    x5 = crop(I, ORIGIN, x4)
    x6 = repeat(x5, NINE)
    x7 = merge(x6)
    x8 = astuple(NINE, x3)
    x9 = crop(x7, ORIGIN, x8)
    O = replace(x9, ONE, TWO)
    return O


def solve_0520fde7(I):
    x1 = lefthalf(I)
    x2 = righthalf(I)
    x3 = cellwise(x1, x2, ZERO)
    O = replace(x3, ONE, TWO)
    return O


def solve_05f2a901(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, EIGHT)
    x3 = gravitate(x1, x2)
    x4 = toobject(x1, I)
    O = move(I, x4, x3)
    return O


def solve_08ed6ac7(I):
    x1 = objects(I, T, F, T)
    x2 = compose(invert, height)
    x3 = order(x1, x2)
    x4 = size(x3)
    x5 = increment(x4)
    x6 = interval(ONE, x5, ONE)
    x7 = pair(x6, x3)
    x8 = fork(recolor, first, last)
    x9 = mapply(x8, x7)
    O = paint(I, x9)
    return O


def solve_0ca9ddb6(I):
    x1 = ofcolor(I, ONE)
    x2 = ofcolor(I, TWO)
    x3 = mapply(dneighbors, x1)
    x4 = mapply(ineighbors, x2)
    x5 = fill(I, SEVEN, x3)
    O = fill(x5, FOUR, x4)
    return O


def solve_0d3d703e(I):
    x1 = switch(I, ONE, FIVE)
    x2 = switch(x1, TWO, SIX)
    x3 = switch(x2, THREE, FOUR)
    O = switch(x3, EIGHT, NINE)
    return O


def solve_10fcaaa3(I):
    x1 = hconcat(I, I)
    x2 = vconcat(x1, x1)
    x3 = asindices(x2)
    x4 = ofcolor(x2, ZERO)
    x5 = difference(x3, x4)
    x6 = mapply(ineighbors, x5)
    O = underfill(x2, EIGHT, x6)
    return O


def solve_178fcbfb(I):
    x1 = ofcolor(I, TWO)
    x2 = mapply(vfrontier, x1)
    x3 = fill(I, TWO, x2)
    x4 = objects(I, T, F, T)
    x5 = matcher(color, ONE)
    x6 = matcher(color, THREE)
    x7 = fork(either, x5, x6)
    x8 = sfilter(x4, x7)
    x9 = compose(hfrontier, center)
    x10 = fork(recolor, color, x9)
    x11 = mapply(x10, x8)
    O = paint(x3, x11)
    return O


def solve_1caeab9d(I):
    x1 = objects(I, T, T, T)
    x2 = ofcolor(I, ONE)
    x3 = lowermost(x2)
    x4 = lbind(subtract, x3)
    x5 = chain(toivec, x4, lowermost)
    x6 = fork(shift, identity, x5)
    x7 = mapply(x6, x1)
    x8 = merge(x1)
    x9 = cover(I, x8)
    O = paint(x9, x7)
    return O


def solve_1cf80156(I):
    x1 = objects(I, T, T, T)
    x2 = first(x1)
    O = subgrid(x2, I)
    return O


def solve_1e0a9b12(I):
    x1 = rot270(I)
    x2 = rbind(order, sign)
    x3 = apply(x2, x1)
    O = rot90(x3)
    return O


def solve_1f85a75f(I):
    x1 = objects(I, T, T, T)
    x2 = argmax(x1, size)
    O = subgrid(x2, I)
    return O


def solve_1fad071e(I):
    x1 = objects(I, T, F, T)
    x2 = matcher(color, ONE)
    x3 = matcher(size, FOUR)
    x4 = fork(both, x2, x3)
    x5 = sfilter(x1, x4)
    x6 = size(x5)
    x7 = astuple(ONE, x6)
    x8 = canvas(ONE, x7)
    x9 = subtract(FIVE, x6)
    x10 = astuple(ONE, x9)
    x11 = canvas(ZERO, x10)
    O = hconcat(x8, x11)
    return O


def solve_2281f1f4(I):
    x1 = ofcolor(I, FIVE)
    x2 = matcher(first, ZERO)
    x3 = sfilter(x1, x2)
    x4 = difference(x1, x3)
    x5 = apply(first, x4)
    x6 = apply(last, x3)
    x7 = product(x5, x6)
    O = underfill(I, TWO, x7)
    return O


def solve_22eb0ac0(I):
    x1 = objects(I, T, F, T)
    x2 = prapply(combine, x1, x1)
    x3 = matcher(numcolors, ONE)
    x4 = sfilter(x2, x3)
    x5 = matcher(height, ONE)
    x6 = sfilter(x4, x5)
    x7 = fork(recolor, color, backdrop)
    x8 = mapply(x7, x6)
    O = paint(I, x8)
    return O


def solve_23581191(I):
    x1 = fgpartition(I)
    x2 = compose(vfrontier, center)
    x3 = compose(hfrontier, center)
    x4 = fork(combine, x2, x3)
    x5 = fork(recolor, color, x4)
    x6 = mapply(x5, x1)
    x7 = paint(I, x6)
    x8 = apply(x4, x1)
    x9 = first(x8)
    x10 = last(x8)
    x11 = intersection(x9, x10)
    O = fill(x7, TWO, x11)
    return O


def solve_23b5c85d(I):
    x1 = fgpartition(I)
    x2 = apply(size, x1)
    x3 = minimum(x2)
    x4 = matcher(size, x3)
    x5 = extract(x1, x4)
    O = subgrid(x5, I)
    return O


def solve_25d8a9c8(I):
    x1 = asindices(I)
    x2 = fill(I, ZERO, x1)
    x3 = frontiers(I)
    x4 = sfilter(x3, hline)
    x5 = merge(x4)
    O = fill(x2, FIVE, x5)
    return O


def solve_25ff71a9(I):
    x1 = shape(I)
    x2 = add(x1, UP)
    x3 = crop(I, ORIGIN, x2)
    x4 = width(I)
    x5 = astuple(ONE, x4)
    x6 = canvas(ZERO, x5)
    O = vconcat(x6, x3)
    return O


def solve_28bf18c6(I):
    x1 = objects(I, T, T, T)
    x2 = first(x1)
    x3 = subgrid(x2, I)
    O = hconcat(x3, x3)
    return O


def solve_29c11459(I):
    x1 = width(I)
    x2 = halve(x1)
    x3 = rbind(repeat, x2)
    x4 = compose(x3, first)
    x5 = compose(x3, last)
    x6 = apply(x4, I)
    x7 = apply(x5, I)
    x8 = height(I)
    x9 = astuple(x8, ONE)
    x10 = canvas(FIVE, x9)
    x11 = hconcat(x6, x10)
    x12 = hconcat(x11, x7)
    x13 = ofcolor(x12, ZERO)
    x14 = apply(first, x13)
    x15 = apply(toivec, x14)
    x16 = mapply(hfrontier, x15)
    O = fill(x12, ZERO, x16)
    return O


def solve_2dee498d(I):
    x1 = hsplit(I, THREE)
    O = first(x1)
    return O


def solve_3618c87e(I):
    x1 = ofcolor(I, ONE)
    x2 = fill(I, ZERO, x1)
    x3 = crement(DOWN)
    x4 = shift(x1, x3)
    O = fill(x2, ONE, x4)
    return O


def solve_39a8645d(I):
    x1 = objects(I, T, T, T)
    x2 = totuple(x1)
    x3 = apply(normalize, x2)
    x4 = mostcommon(x3)
    x5 = shape(x4)
    x6 = canvas(ZERO, x5)
    O = paint(x6, x4)
    return O


def solve_3aa6fb7a(I):
    x1 = objects(I, T, F, T)
    x2 = mapply(corners, x1)
    O = underfill(I, ONE, x2)
    return O


def solve_3af2c5a8(I):
    x1 = vmirror(I)
    x2 = papply(combine, I, x1)
    x3 = hmirror(x2)
    O = combine(x2, x3)
    return O


def solve_3bd67248(I):
    x1 = height(I)
    x2 = decrement(x1)
    x3 = toivec(x2)
    x4 = shoot(x3, UP_RIGHT)
    x5 = hfrontier(x3)
    x6 = underfill(I, TWO, x4)
    O = underfill(x6, FOUR, x5)
    return O


def solve_3c9b0459(I):
    O = rot180(I)
    return O


def solve_40853293(I):
    x1 = fgpartition(I)
    x2 = fork(recolor, color, backdrop)
    x3 = apply(x2, x1)
    x4 = sfilter(x3, vline)
    x5 = difference(x3, x4)
    x6 = merge(x5)
    x7 = merge(x4)
    x8 = paint(I, x6)
    O = paint(x8, x7)
    return O


def solve_4258a5f9(I):
    x1 = objects(I, T, T, T)
    x2 = mapply(outbox, x1)
    O = fill(I, ONE, x2)
    return O


def solve_4347f46a(I):
    x1 = objects(I, T, F, T)
    x2 = fork(difference, toindices, box)
    x3 = mapply(x2, x1)
    O = fill(I, ZERO, x3)
    return O


def solve_445eab21(I):
    x1 = objects(I, T, F, T)
    x2 = fork(multiply, height, width)
    x3 = argmax(x1, x2)
    x4 = color(x3)
    O = canvas(x4, TWO_BY_TWO)
    return O


def solve_44f52bb0(I):
    x1 = vmirror(I)
    x2 = equality(I, x1)
    x3 = branch(x2, ONE, SEVEN)
    O = canvas(x3, UNITY)
    return O


def solve_46442a0e(I):
    x1 = power(rot90, THREE)
    x2 = x1(I)
    x3 = vconcat(I, x2)
    x4 = rot90(I)
    x5 = rot180(I)
    x6 = vconcat(x4, x5)
    O = hconcat(x3, x6)
    return O


def solve_496994bd(I):
    x1 = asobject(I)
    x2 = hmirror(x1)
    O = underpaint(I, x2)
    return O


def solve_49d1d64f(I):
    x1 = shape(I)
    x2 = add(x1, TWO)
    x3 = canvas(ZERO, x2)
    x4 = asobject(I)
    x5 = lbind(shift, x4)
    x6 = dneighbors(UNITY)
    x7 = mapply(x5, x6)
    x8 = paint(x3, x7)
    x9 = shift(x4, UNITY)
    O = paint(x8, x9)
    return O


def solve_4c4377d9(I):
    x1 = astuple(hmirror, identity)
    x2 = rapply(x1, I)
    O = merge(x2)
    return O


def solve_50cb2852(I):
    x1 = objects(I, T, F, T)
    x2 = compose(backdrop, inbox)
    x3 = mapply(x2, x1)
    O = fill(I, EIGHT, x3)
    return O


def solve_5117e062(I):
    x1 = objects(I, F, T, T)
    x2 = lbind(contained, EIGHT)
    x3 = compose(x2, palette)
    x4 = extract(x1, x3)
    x5 = subgrid(x4, I)
    x6 = mostcolor(x4)
    O = replace(x5, EIGHT, x6)
    return O


def solve_54d82841(I):
    x1 = objects(I, T, F, T)
    x2 = height(I)
    x3 = decrement(x2)
    x4 = lbind(astuple, x3)
    x5 = chain(x4, last, center)
    x6 = apply(x5, x1)
    O = fill(I, FOUR, x6)
    return O


def solve_5521c0d9(I):
    x1 = objects(I, T, F, T)
    x2 = chain(toivec, invert, height)
    x3 = fork(shift, identity, x2)
    x4 = mapply(x3, x1)
    x5 = merge(x1)
    x6 = cover(I, x5)
    O = paint(x6, x4)
    return O


def solve_5582e5ca(I):
    x1 = partition(I)
    x2 = argmax(x1, size)
    x3 = color(x2)
    O = canvas(x3, THREE_BY_THREE)
    return O


def solve_56ff96f3(I):
    x1 = fgpartition(I)
    x2 = fork(recolor, color, backdrop)
    x3 = mapply(x2, x1)
    O = paint(I, x3)
    return O


def solve_60b61512(I):
    x1 = objects(I, T, T, T)
    x2 = mapply(delta, x1)
    O = fill(I, SEVEN, x2)
    return O


def solve_6150a2bd(I):
    x1 = dmirror(I)
    O = cmirror(x1)
    return O


def solve_62c24649(I):
    x1 = fork(hconcat, identity, vmirror)
    x2 = fork(vconcat, identity, hmirror)
    x3 = compose(x1, x2)
    O = x3(I)
    return O


def solve_662c240a(I):
    x1 = height(I)
    x2 = divide(x1, THREE)
    x3 = vsplit(I, x2)
    x4 = fork(equality, identity, dmirror)
    x5 = compose(flip, x4)
    O = extract(x3, x5)
    return O


def solve_67385a82(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, THREE)
    x3 = rbind(greater, TWO)
    x4 = compose(x3, size)
    x5 = mfilter(x2, x4)
    O = fill(I, EIGHT, x5)
    return O


def solve_67a3c6ac(I):
    O = vmirror(I)
    return O


def solve_67e8384a(I):
    x1 = vmirror(I)
    x2 = hconcat(I, x1)
    x3 = hmirror(x2)
    O = vconcat(x2, x3)
    return O


def solve_68b16354(I):
    O = hmirror(I)
    return O


def solve_6d0aefbc(I):
    x1 = vmirror(I)
    O = hconcat(I, x1)
    return O


def solve_6d75e8bb(I):
    x1 = ofcolor(I, EIGHT)
    x2 = delta(x1)
    O = fill(I, TWO, x2)
    return O


def solve_6e02f1e3(I):
    x1 = numcolors(I)
    x2 = equality(x1, ONE)
    x3 = equality(x1, TWO)
    x4 = connect(ORIGIN, TWO_BY_TWO)
    x5 = connect(ORIGIN, ZERO_BY_TWO)
    x6 = connect(TWO_BY_ZERO, ZERO_BY_TWO)
    x7 = branch(x3, x4, x6)
    x8 = branch(x2, x5, x7)
    x9 = canvas(ZERO, THREE_BY_THREE)
    O = fill(x9, FIVE, x8)
    return O


def solve_6e82a1ae(I):
    x1 = objects(I, T, F, T)
    x2 = apply(size, x1)
    x3 = order(x2, invert)
    x4 = lbind(sizefilter, x1)
    x5 = compose(merge, x4)
    x6 = apply(x5, x3)
    x7 = interval(ONE, FOUR, ONE)
    x8 = mpapply(recolor, x7, x6)
    O = paint(I, x8)
    return O


def solve_6f8cd79b(I):
    x1 = asindices(I)
    x2 = box(x1)
    O = fill(I, EIGHT, x2)
    return O


def solve_6fa7a44f(I):
    x1 = hmirror(I)
    O = combine(I, x1)
    return O


def solve_72ca375d(I):
    x1 = objects(I, T, T, T)
    x2 = fork(equality, identity, vmirror)
    x3 = compose(x2, normalize)
    x4 = extract(x1, x3)
    O = subgrid(x4, I)
    return O


def solve_74dd1130(I):
    O = dmirror(I)
    return O


def solve_77fdfe62(I):
    x1 = trim(I)
    x2 = trim(x1)
    x3 = height(I)
    x4 = decrement(x3)
    x5 = downscale(I, x4)
    x6 = height(x2)
    x7 = halve(x6)
    x8 = upscale(x5, x7)
    x9 = ofcolor(x2, ZERO)
    O = fill(x8, ZERO, x9)
    return O


def solve_7b7f7511(I):
    x1 = portrait(I)
    x2 = branch(x1, tophalf, lefthalf)
    O = x2(I)
    return O


def solve_7c008303(I):
    x1 = ofcolor(I, THREE)
    x2 = subgrid(x1, I)
    x3 = cover(I, x1)
    x4 = replace(x3, EIGHT, ZERO)
    x5 = objects(x4, F, T, T)
    x6 = merge(x5)
    x7 = subgrid(x6, I)
    x8 = upscale(x7, THREE)
    x9 = ofcolor(x2, ZERO)
    O = fill(x8, ZERO, x9)
    return O


def solve_7fe24cdd(I):
    x1 = rot90(I)
    x2 = hconcat(I, x1)
    x3 = rot180(x2)
    O = vconcat(x2, x3)
    return O


def solve_810b9b61(I):
    x1 = objects(I, T, F, T)
    x2 = fork(equality, toindices, box)
    x3 = compose(positive, size)
    x4 = compose(x3, delta)
    x5 = fork(both, x2, x4)
    x6 = mfilter(x1, x5)
    O = fill(I, THREE, x6)
    return O


def solve_8be77c9e(I):
    x1 = hmirror(I)
    O = vconcat(I, x1)
    return O


def solve_90c28cc7(I):
    x1 = ofcolor(I, ZERO)
    x2 = asindices(I)
    x3 = difference(x2, x1)
    x4 = subgrid(x3, I)
    x5 = chain(dmirror, dedupe, dmirror)
    x6 = dedupe(x4)
    O = x5(x6)
    return O


def solve_9172f3a0(I):
    x1 = hupscale(I, THREE)
    O = vupscale(x1, THREE)
    return O


def solve_963e52fc(I):
    x1 = asobject(I)
    x2 = hperiod(x1)
    x3 = width(I)
    x4 = height(I)
    x5 = astuple(x4, x2)
    x6 = crop(I, ORIGIN, x5)
    x7 = repeat(x6, TEN)
    x8 = apply(dmirror, x7)
    x9 = merge(x8)
    x10 = dmirror(x9)
    x11 = double(x3)
    x12 = astuple(x4, x11)
    O = crop(x10, ORIGIN, x12)
    return O


def solve_97999447(I):
    x1 = objects(I, T, F, T)
    x2 = rbind(shoot, RIGHT)
    x3 = compose(x2, center)
    x4 = fork(recolor, color, x3)
    x5 = mapply(x4, x1)
    x6 = paint(I, x5)
    x7 = interval(ONE, TEN, TWO)
    x8 = apply(tojvec, x7)
    x9 = ofcolor(I, ZERO)
    x10 = asindices(I)
    x11 = difference(x10, x9)
    x12 = prapply(add, x11, x8)
    O = fill(x6, FIVE, x12)
    return O


def solve_99b1bc43(I):
    x1 = vsplit(I, TWO)
    x2 = first(x1)
    x3 = last(x1)
    x4 = ofcolor(x2, ONE)
    x5 = ofcolor(x3, TWO)
    x6 = difference(x4, x5)
    x7 = difference(x5, x4)
    x8 = combine(x6, x7)
    x9 = shape(x2)
    x10 = canvas(ZERO, x9)
    O = fill(x10, THREE, x8)
    return O


def solve_99fa7670(I):
    x1 = objects(I, T, F, T)
    x2 = rbind(shoot, RIGHT)
    x3 = compose(x2, center)
    x4 = fork(recolor, color, x3)
    x5 = mapply(x4, x1)
    x6 = paint(I, x5)
    x7 = asindices(I)
    x8 = rightmost(x7)
    x9 = rbind(astuple, x8)
    x10 = compose(x9, uppermost)
    x11 = rbind(shoot, DOWN)
    x12 = compose(x11, x10)
    x13 = fork(recolor, color, x12)
    x14 = order(x1, uppermost)
    x15 = mapply(x13, x14)
    O = paint(x6, x15)
    return O


def solve_9dfd6313(I):
    x1 = rot90(I)
    O = vmirror(x1)
    return O


def solve_9f236235(I):
    x1 = compress(I)
    x2 = objects(I, T, F, F)
    x3 = valmin(x2, width)
    x4 = downscale(x1, x3)
    O = vmirror(x4)
    return O


def solve_a3325580(I):
    x1 = objects(I, T, F, T)
    x2 = valmax(x1, size)
    x3 = sizefilter(x1, x2)
    x4 = order(x3, leftmost)
    x5 = apply(color, x4)
    O = repeat(x5, x2)
    return O


def solve_a416b8f3(I):
    O = hconcat(I, I)
    return O


def solve_a48eeaf7(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, FIVE)
    x3 = outbox(x1)
    x4 = apply(initset, x3)
    x5 = apply(initset, x2)
    x6 = lbind(rbind, manhattan)
    x7 = lbind(argmin, x4)
    x8 = compose(x7, x6)
    x9 = mapply(x8, x5)
    x10 = cover(I, x2)
    O = fill(x10, FIVE, x9)
    return O


def solve_a5313dff(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = sfilter(x2, x3)
    x5 = difference(x2, x4)
    x6 = merge(x5)
    O = fill(I, ONE, x6)
    return O


def solve_a5f85a15(I):
    x1 = ofcolor(I, ZERO)
    x2 = asindices(I)
    x3 = difference(x2, x1)
    x4 = chain(flip, even, last)
    x5 = sfilter(x3, x4)
    O = fill(I, FOUR, x5)
    return O


def solve_a61ba2ce(I):
    x1 = objects(I, T, F, T)
    x2 = lbind(index, I)
    x3 = compose(x2, lrcorner)
    x4 = compose(x2, llcorner)
    x5 = compose(x2, urcorner)
    x6 = compose(x2, ulcorner)
    x7 = matcher(x3, ZERO)
    x8 = matcher(x4, ZERO)
    x9 = matcher(x5, ZERO)
    x10 = matcher(x6, ZERO)
    x11 = extract(x1, x7)
    x12 = extract(x1, x8)
    x13 = extract(x1, x9)
    x14 = extract(x1, x10)
    x15 = subgrid(x11, I)
    x16 = subgrid(x12, I)
    x17 = subgrid(x13, I)
    x18 = subgrid(x14, I)
    x19 = hconcat(x15, x16)
    x20 = hconcat(x17, x18)
    O = vconcat(x19, x20)
    return O


def solve_a61f2674(I):
    x1 = objects(I, T, F, T)
    x2 = argmax(x1, size)
    x3 = argmin(x1, size)
    x4 = replace(I, FIVE, ZERO)
    x5 = fill(x4, ONE, x2)
    O = fill(x5, TWO, x3)
    return O


def solve_a699fb00(I):
    x1 = ofcolor(I, ONE)
    x2 = shift(x1, RIGHT)
    x3 = shift(x1, LEFT)
    x4 = intersection(x2, x3)
    O = fill(I, TWO, x4)
    return O


def solve_a740d043(I):
    x1 = objects(I, F, T, T)
    x2 = merge(x1)
    x3 = subgrid(x2, I)
    O = replace(x3, ONE, ZERO)
    return O


def solve_a79310a0(I):
    x1 = ofcolor(I, EIGHT)
    x2 = cover(I, x1)
    x3 = shift(x1, DOWN)
    O = fill(x2, TWO, x3)
    return O


def solve_a87f7484(I):
    x1 = height(I)
    x2 = width(I)
    x3 = divide(x1, THREE)
    x4 = divide(x2, THREE)
    x5 = vsplit(I, x3)
    x6 = hsplit(I, x4)
    x7 = portrait(I)
    x8 = branch(x7, x5, x6)
    x9 = rbind(ofcolor, ZERO)
    x10 = apply(x9, x8)
    x11 = leastcommon(x10)
    x12 = matcher(x9, x11)
    O = extract(x8, x12)
    return O


def solve_aabf363d(I):
    x1 = height(I)
    x2 = decrement(x1)
    x3 = toivec(x2)
    x4 = index(I, x3)
    x5 = initset(x3)
    x6 = fill(I, ZERO, x5)
    x7 = leastcolor(x6)
    O = replace(x6, x7, x4)
    return O


def solve_ac0a08a4(I):
    x1 = fgpartition(I)
    x2 = size(x1)
    O = upscale(I, x2)
    return O


def solve_ae3edfdc(I):
    x1 = ofcolor(I, ONE)
    x2 = ofcolor(I, TWO)
    x3 = ofcolor(I, SEVEN)
    x4 = ofcolor(I, THREE)
    x5 = apply(initset, x3)
    x6 = apply(initset, x4)
    x7 = rbind(gravitate, x1)
    x8 = rbind(gravitate, x2)
    x9 = fork(shift, identity, x7)
    x10 = fork(shift, identity, x8)
    x11 = mapply(x9, x5)
    x12 = mapply(x10, x6)
    x13 = replace(I, SEVEN, ZERO)
    x14 = replace(x13, THREE, ZERO)
    x15 = fill(x14, SEVEN, x11)
    O = fill(x15, THREE, x12)
    return O


def solve_aedd82e4(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, TWO)
    x3 = sizefilter(x2, ONE)
    x4 = merge(x3)
    O = fill(I, ONE, x4)
    return O


def solve_b60334d2(I):
    x1 = ofcolor(I, FIVE)
    x2 = mapply(dneighbors, x1)
    x3 = mapply(ineighbors, x1)
    x4 = fill(I, ONE, x2)
    x5 = fill(x4, FIVE, x3)
    O = fill(x5, ZERO, x1)
    return O


def solve_b91ae062(I):
    x1 = palette(I)
    x2 = remove(ZERO, x1)
    x3 = size(x2)
    O = upscale(I, x3)
    return O


def solve_b94a9452(I):
    x1 = objects(I, F, F, T)
    x2 = first(x1)
    x3 = subgrid(x2, I)
    x4 = mostcolor(x3)
    x5 = leastcolor(x3)
    O = switch(x3, x4, x5)
    return O


def solve_ba97ae07(I):
    x1 = objects(I, T, F, T)
    x2 = totuple(x1)
    x3 = apply(color, x2)
    x4 = mostcommon(x3)
    x5 = ofcolor(I, x4)
    x6 = backdrop(x5)
    O = fill(I, x4, x6)
    return O


def solve_bb43febb(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, FIVE)
    x3 = fork(difference, toindices, box)
    x4 = mapply(x3, x2)
    O = fill(I, TWO, x4)
    return O


def solve_bdad9b1f(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, EIGHT)
    x3 = center(x1)
    x4 = center(x2)
    x5 = hfrontier(x3)
    x6 = vfrontier(x4)
    x7 = intersection(x5, x6)
    x8 = fill(I, TWO, x5)
    x9 = fill(x8, EIGHT, x6)
    O = fill(x9, FOUR, x7)
    return O


def solve_be94b721(I):
    x1 = objects(I, T, F, T)
    x2 = apply(size, x1)
    x3 = maximum(x2)
    x4 = sizefilter(x1, x3)
    x5 = first(x4)
    O = subgrid(x5, I)
    return O


def solve_c3e719e8(I):
    x1 = mostcolor(I)
    x2 = hconcat(I, I)
    x3 = hconcat(x2, I)
    x4 = vconcat(x3, x3)
    x5 = vconcat(x4, x3)
    x6 = upscale(I, THREE)
    x7 = ofcolor(x6, x1)
    x8 = asindices(x6)
    x9 = difference(x8, x7)
    O = fill(x5, ZERO, x9)
    return O


def solve_c59eb873(I):
    O = upscale(I, TWO)
    return O


def solve_c8f0f002(I):
    O = replace(I, SEVEN, FIVE)
    return O


def solve_c9e6f938(I):
    x1 = fork(hconcat, identity, vmirror)
    O = x1(I)
    return O


def solve_ce22a75a(I):
    x1 = ofcolor(I, FIVE)
    x2 = fork(insert, identity, neighbors)
    x3 = mapply(x2, x1)
    O = fill(I, ONE, x3)
    return O


def solve_cf98881b(I):
    x1 = hsplit(I, THREE)
    x2 = compose(positive, first)
    x3 = first(x1)
    x4 = last(x1)
    x5 = remove(x3, x1)
    x6 = first(x5)
    x7 = asobject(x6)
    x8 = sfilter(x7, x2)
    x9 = paint(x4, x8)
    x10 = asobject(x3)
    x11 = sfilter(x10, x2)
    O = paint(x9, x11)
    return O


def solve_d037b0a7(I):
    x1 = objects(I, T, F, T)
    x2 = rbind(shoot, DOWN)
    x3 = compose(x2, centerofmass)
    x4 = fork(recolor, color, x3)
    x5 = order(x1, uppermost)
    x6 = apply(x4, x5)
    x7 = merge(x6)
    O = paint(I, x7)
    return O


def solve_d0f5fe59(I):
    x1 = objects(I, T, F, T)
    x2 = size(x1)
    x3 = astuple(x2, x2)
    x4 = canvas(ZERO, x3)
    x5 = shoot(ORIGIN, UNITY)
    O = fill(x4, EIGHT, x5)
    return O


def solve_d10ecb37(I):
    O = crop(I, ORIGIN, TWO_BY_TWO)
    return O


def solve_d13f3404(I):
    x1 = objects(I, T, F, T)
    x2 = rbind(shoot, UNITY)
    x3 = compose(x2, center)
    x4 = fork(recolor, color, x3)
    x5 = mapply(x4, x1)
    x6 = astuple(SIX, SIX)
    x7 = canvas(ZERO, x6)
    O = paint(x7, x5)
    return O


def solve_d23f8c26(I):
    x1 = width(I)
    x2 = halve(x1)
    x3 = tojvec(x2)
    x4 = vfrontier(x3)
    x5 = asindices(I)
    x6 = difference(x5, x4)
    O = fill(I, ZERO, x6)
    return O


def solve_d2abd087(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, SIX)
    x3 = difference(x1, x2)
    x4 = merge(x2)
    x5 = merge(x3)
    x6 = fill(I, TWO, x4)
    O = fill(x6, ONE, x5)
    return O


def solve_d406998b(I):
    x1 = ofcolor(I, FIVE)
    x2 = width(I)
    x3 = lbind(subtract, x2)
    x4 = chain(even, x3, last)
    x5 = compose(flip, x4)
    x6 = sfilter(x1, x5)
    O = fill(I, THREE, x6)
    return O


def solve_d43fd935(I):
    x1 = ofcolor(I, THREE)
    x2 = objects(I, T, F, T)
    x3 = rbind(hmatching, x1)
    x4 = rbind(vmatching, x1)
    x5 = fork(either, x3, x4)
    x6 = sizefilter(x2, ONE)
    x7 = sfilter(x6, x5)
    x8 = rbind(gravitate, x1)
    x9 = fork(add, center, x8)
    x10 = fork(connect, center, x9)
    x11 = fork(recolor, color, x10)
    x12 = rbind(manhattan, x1)
    x13 = compose(invert, x12)
    x14 = order(x7, x13)
    x15 = mapply(x11, x14)
    O = paint(I, x15)
    return O


def solve_d4469b4b(I):
    x1 = palette(I)
    x2 = other(x1, ZERO)
    x3 = equality(x2, ONE)
    x4 = equality(x2, TWO)
    x5 = branch(x3, UNITY, TWO_BY_TWO)
    x6 = branch(x4, RIGHT, x5)
    x7 = vfrontier(x6)
    x8 = hfrontier(x6)
    x9 = combine(x7, x8)
    x10 = canvas(ZERO, THREE_BY_THREE)
    O = fill(x10, FIVE, x9)
    return O


def solve_d511f180(I):
    O = switch(I, FIVE, EIGHT)
    return O


def solve_d5d6de2d(I):
    x1 = objects(I, T, F, T)
    x2 = sfilter(x1, square)
    x3 = difference(x1, x2)
    x4 = compose(backdrop, inbox)
    x5 = mapply(x4, x3)
    x6 = replace(I, TWO, ZERO)
    O = fill(x6, THREE, x5)
    return O


def solve_d631b094(I):
    x1 = palette(I)
    x2 = other(x1, ZERO)
    x3 = colorcount(I, x2)
    x4 = astuple(ONE, x3)
    O = canvas(x2, x4)
    return O


def solve_d89b689b(I):
    x1 = ofcolor(I, EIGHT)
    x2 = replace(I, EIGHT, ZERO)
    x3 = objects(x2, T, F, T)
    x4 = apply(initset, x1)
    x5 = lbind(rbind, manhattan)
    x6 = lbind(argmin, x4)
    x7 = compose(x6, x5)
    x8 = fork(recolor, color, x7)
    x9 = mapply(x8, x3)
    x10 = merge(x3)
    x11 = cover(I, x10)
    O = paint(x11, x9)
    return O


def solve_d90796e8(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, THREE)
    x3 = apply(initset, x1)
    x4 = apply(initset, x2)
    x5 = rbind(adjacent, x2)
    x6 = rbind(adjacent, x1)
    x7 = mfilter(x3, x5)
    x8 = mfilter(x4, x6)
    x9 = fill(I, ZERO, x7)
    O = fill(x9, EIGHT, x8)
    return O


def solve_d9fac9be(I):
    x1 = palette(I)
    x2 = remove(ZERO, x1)
    x3 = neighbors(UNITY)
    x4 = rbind(recolor, x3)
    x5 = lbind(occurrences, I)
    x6 = chain(size, x5, x4)
    x7 = argmax(x2, x6)
    x8 = other(x2, x7)
    O = canvas(x8, UNITY)
    return O


def solve_dc1df850(I):
    x1 = ofcolor(I, TWO)
    x2 = mapply(neighbors, x1)
    O = underfill(I, ONE, x2)
    return O


def solve_dc433765(I):
    x1 = ofcolor(I, THREE)
    x2 = ofcolor(I, FOUR)
    x3 = position(x1, x2)
    x4 = recolor(THREE, x1)
    O = move(I, x4, x3)
    return O


def solve_e9afcf9a(I):
    x1 = asindices(I)
    x2 = fork(add, first, last)
    x3 = compose(even, x2)
    x4 = sfilter(x1, x3)
    x5 = difference(x1, x4)
    x6 = index(I, ORIGIN)
    x7 = index(I, DOWN)
    x8 = fill(I, x6, x4)
    O = fill(x8, x7, x5)
    return O


def solve_ea786f4a(I):
    x1 = width(I)
    x2 = decrement(x1)
    x3 = tojvec(x2)
    x4 = shoot(x3, DOWN_LEFT)
    x5 = shoot(ORIGIN, UNITY)
    x6 = combine(x4, x5)
    O = fill(I, ZERO, x6)
    return O


def solve_ed36ccf7(I):
    O = rot270(I)
    return O


def solve_f25ffba3(I):
    x1 = bottomhalf(I)
    x2 = hmirror(x1)
    O = vconcat(x2, x1)
    return O


def solve_f2829549(I):
    x1 = lefthalf(I)
    x2 = righthalf(I)
    x3 = ofcolor(x1, ZERO)
    x4 = ofcolor(x2, ZERO)
    x5 = intersection(x3, x4)
    x6 = shape(x1)
    x7 = canvas(ZERO, x6)
    O = fill(x7, THREE, x5)
    return O


def solve_f5b8619d(I):
    x1 = asobject(I)
    x2 = compose(positive, first)
    x3 = sfilter(x1, x2)
    x4 = toindices(x3)
    x5 = mapply(vfrontier, x4)
    x6 = underfill(I, EIGHT, x5)
    x7 = hconcat(x6, x6)
    O = vconcat(x7, x7)
    return O


def solve_f76d97a5(I):
    x1 = palette(I)
    x2 = other(x1, FIVE)
    x3 = ofcolor(I, FIVE)
    x4 = replace(I, x2, ZERO)
    O = fill(x4, x2, x3)
    return O


def solve_fafffa47(I):
    x1 = tophalf(I)
    x2 = bottomhalf(I)
    x3 = ofcolor(x1, ZERO)
    x4 = ofcolor(x2, ZERO)
    x5 = intersection(x3, x4)
    x6 = shape(x1)
    x7 = canvas(ZERO, x6)
    O = fill(x7, TWO, x5)
    return O
