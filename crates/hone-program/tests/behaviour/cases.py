### arithmetic
print(7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3, 2 ** 10, 2 ** -1, 7 / 2, 6 / 3)
print(7.5 // 2, -7.5 // 2, 7.5 % 2, -7.5 % 2, 7.5 % -2, 0.1 + 0.2, 1e16, 1e-5, 123456789.123)
print(1 << 70, -1 << 70, (1 << 70) >> 68, -5 >> 1, 5 & 3, 5 | 3, 5 ^ 3, ~5)
print(divmod(17, 5), divmod(-17, 5), divmod(17.5, 5), pow(3, 4), pow(3, 4, 5), pow(3, -1, 7))
print(abs(-3), abs(3.5), abs(-2 ** 70), round(2.5), round(3.5), round(2.675, 2), round(1234, -2), round(-2.5))
print(9223372036854775807 + 1, -9223372036854775808 - 1, 9223372036854775807 * 2, -(-9223372036854775808))
print(10 ** 30, 10 ** 30 // 7, 10 ** 30 % 7, (10 ** 30) / 3, 10 ** 30 - 10 ** 30, (2 ** 64) ** 2)
print(int(3.99), int(-3.99), int("42"), int(" -17 "), int("ff", 16), int("0b101", 0), int("1_000"), int(True))
print(float("1.5"), float("inf"), float("-inf"), float("nan"), float(3), float("1e3"))
print(5 == 5.0, 5 is not None, True == 1, True + True, 1 == 1.0 == True, 2 ** 53 == 2.0 ** 53, 2 ** 53 + 1 == 2.0 ** 53)
print(1.0, 100.0, 1e22, 1e15, 123456789012345680.0, 0.0001, 0.00001, -0.0, 3.0e-10)
print(0.1 + 0.7, 1 / 3, 2 / 3, 10 / 4, 1e308 * 10, -1e308 * 10)
print(bin(10), hex(255), oct(8), bin(-5), (255).bit_length(), (2 ** 70).bit_length(), (0).bit_length(), (3.0).is_integer())
print(7 // 2.0, 7 % 2.5, 3 * "ab", [1] * 3, (1, 2) * 2, "ab" * 0, [1] * -1)
print(-9223372036854775808 // -1, -9223372036854775808 % -1, 9223372036854775807 // 3)
print(12345678901234567890 / 1234567890, 2 ** 200 / 2 ** 190, (2 ** 1000) // (2 ** 990), (3 ** 100) % (10 ** 9))
print(10 ** 20 > 1e20, 10 ** 20 == 1e20, 10 ** 20 + 1 > 1e20, 1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2 != 1)

### comparison and logic
print(1 < 2, "a" < "b", (1, 2) < (1, 3), [1, 2] < [1, 2, 0], (1,) < (1, 0), "" < "a")
print(1 and 0, 0 or 5, not 0, None or "x", [] and 1, 1 and 2 and 3, 0 or "" or None)
print({1, 2} < {1, 2, 3}, {1, 2} <= {1, 2}, {1} > {2}, {1} < {2}, frozenset([1]) == {1})
print(1 in [1, 2], 3 not in (1, 2), "b" in "abc", "" in "abc", 2 in {1: 2}, 1 in {1: 2}, 3 in range(0, 10, 3), 4 in range(0, 10, 3))
print(1 if 0 else 2, (1 if 1 else 2) + 1, "x" if [] else "y")
print([1, 2] == [1, 2], (1, 2) == [1, 2], {1: 2} == {1: 2}, {1: 2} != {1: 3}, "a" == 'a', None == 0, [] == ())
print(min(3, 1, 2), max([3, 1, 2]), min("hello"), max([1, 5, 3], key=lambda x: -x), min([], default=7), max((1, 2), (1, 3)))
print(min([(2, "b"), (1, "c"), (1, "a")]), sum([1, 2, 3]), sum([[1], [2]], []), sum([0.1] * 3), sum(range(10), 5))
print(any([0, 1]), all([]), any([]), all([1, 0]), any(x > 2 for x in [1, 2, 3]), all(x > 0 for x in (1, 2)))

### strings
s = "Hello, World"
print(s[0], s[-1], s[2:5], s[::-1], s[::2], s[10:2:-2], len(s), s[100:], s[-3:])
print(s.upper(), s.lower(), s.swapcase(), s.title(), "hELLO wORLD".capitalize(), s.count("l"), s.find("o"), s.rfind("o"), s.find("z"))
print(s.replace("l", "L"), s.replace("l", "L", 1), s.split(", "), "a b  c".split(), "a,b,,c".split(","), "a b c d".split(" ", 2))
print("-".join(["a", "b"]), "  x ".strip(), "xxaxx".strip("x"), "  x".lstrip() + "|", "x  ".rstrip() + "|", "abc".center(9, "*"), "ab".rjust(4), "ab".ljust(4) + "|")
print("42".zfill(5), "-42".zfill(5), s.startswith("He"), s.endswith(("x", "ld")), s.index("W"), "abc".isalpha(), "ab1".isalnum(), "12".isdigit(), " ".isspace())
print("Abc".islower(), "ABC".isupper(), "abc".islower(), "A1".isupper(), "1".isupper(), "a\tb".expandtabs() if False else "ok")
print("a-b-c".partition("-"), "a-b-c".rpartition("-"), "abc".partition("-"), "a\nb\nc".splitlines(), "x=1;y=2".rsplit(";", 1))
print(repr("it's"), repr('say "hi"'), repr("both ' and \""), repr("tab\tnew\nback\\"), str("x"), repr("é"), "é".upper(), len("héé"))
print(ord("a"), chr(98), chr(8364), "abc" < "abd", "a" + "b", "ab" * 2, "%d and %s and %.2f" % (3, "x", 2.5), "%5d|%-5d|%05d" % (42, 42, 42), "%x %X %o %e" % (255, 255, 8, 12345.678))
print("{} {}".format(1, 2), "{1} {0}".format("a", "b"), "{x}-{y:>4}".format(x=1, y=2), "{{}}".format(), "{:.3f} {:5d} {:<5}|".format(3.14159, 42, "ab"))
print("abc".removeprefix("a"), "abc".removesuffix("c"), "a" in "cat", "hello".encode if False else 1, "Hello".casefold(), "aXbX".rindex("X"))
print("%s" % "x", "%s %s" % ("a", [1]), "%%", "%r" % "q", "100%" + "", "%c%c" % ("a", 98))
print("abc"[1:1] == "", "abc"[5:] == "", "x".join("abc"), "".join(sorted("hello")), "".join(reversed("abc")), list("abc"))

### f-strings
x, y, name = 3.14159, 42, "bob"
print(f"{x:.2f} {y:5d}|{y:<5}|{y:^6}|{y:>6}|{y:05d}|{name!r}|{name:>6}|{name:*^9}|{y:,}|{1234567:,}|{1234567.891:,.2f}")
print(f"{y:b} {y:x} {y:X} {y:o} {y:#x} {y:+d} {-y:+d} {x:e} {x:g} {1e10:g} {0.00001:g} {50:%} {0.256:.1%} {True} {None} {[1, 'a']}")
print(f"{'nested ' + name} {x=} {y = } {{literal}} {y!s:>5} {x:{7}.{3}} {'a' if y else 'b'} {name[0]} {(lambda v: v + 1)(y)}")
print(f"{x:.0f} {2.5:.0f} {3.5:.0f} {1e100:.3g} {123456789:.3g} {0.1:.20f} {True:d} {7:c>3} {-7:=5} {x:10.3f}| {-3.7:.0f}")

### lists
a = [3, 1, 2]
a.append(4); a.extend([5, 6]); a.insert(0, 9); a.insert(-1, 8); print(a, a.pop(), a.pop(0), a)
a.remove(1); a.reverse(); print(a, a.index(2), a.count(2), sorted(a), sorted(a, reverse=True), a)
a.sort(); print(a); a.sort(key=lambda v: -v); print(a); a[1] = 10; a[-1] = 20; print(a, a[1:3], a[:], a[::-1], a[-2:], a[::2])
a[1:2] = [7, 7, 7]; print(a); del a[0]; print(a); del a[1:3]; print(a); a[:0] = [0]; print(a); a[::2] = [1] * len(a[::2]); print(a)
b = a; b.append(1); print(a is b, a == b[:], a is b[:]); c = a.copy(); c.clear(); print(a, c, [*a, *c, 5], [[0] * 2 for _ in range(2)])
a += [1]; a *= 2; print(a, [1, [2, [3]]], [], [None, True, 1.5, "s"], len([[]]), list(range(5)), list("ab"), list({3: 1}))
m = [[1, 2], [3, 4]]; print(list(zip(*m)), [list(r) for r in zip(*m)], [x for r in m for x in r], m[1][0], sum(m, []))
x, *y = [1, 2, 3]; *p, q = "abc"; (u, v), w = (1, 2), 3; print(x, y, p, q, u, v, w); f, *g, h = range(5); print(f, g, h)
i, j = 1, 2; i, j = j, i; print(i, j); [k, l] = (5, 6); print(k, l); n = o = 7; print(n, o)
z = [5, 3, 8]; z[0], z[2] = z[2], z[0]; print(z); z[z[1] - 3] += 5; print(z); t = (1, 2); t += (3,); print(t, t.index(2), t.count(9))
print([1, 2, 3][1:][0], [i for i in range(10) if i % 2 if i % 3], [(i, j) for i in range(3) for j in range(i)], [[j for j in range(i)] for i in range(3)])
print(sorted(["b", "A", "a"]), sorted(["b", "A", "a"], key=str.lower), sorted([(1, "b"), (1, "a"), (0, "z")]), sorted("hello", reverse=True), sorted([3, 1, 2], key=lambda v: v % 3))

### dicts
d = {"a": 1, "b": 2}
d["c"] = 3; d["a"] = 10; print(d, d["a"], d.get("z"), d.get("z", 0), len(d), "a" in d, list(d), list(d.keys()), list(d.values()), list(d.items()))
print(d.pop("a"), d.pop("q", None), d, d.setdefault("x", []), d.setdefault("b", 5), d); del d["b"]; print(d)
d.update({"n": 1}); d.update(m=2); print(d, {**d, "k": 1}, dict(a=1), dict([("p", 1), ("q", 2)]), dict(zip("ab", [1, 2])), {k: v for k, v in zip("xy", (1, 2))})
for k, v in sorted(d.items(), key=lambda kv: kv[0]): print(k, v, end=";")
print(); e = {1: "i", 1.0: "f", True: "b", (1, 2): "t", None: "n", frozenset([1]): "fs"}; print(e, e[(1, 2)], e[None], e[frozenset({1})])
print({} == dict(), {1: 2} | {3: 4}, dict.fromkeys("ab", 0), d.popitem(), max({"a": 3, "b": 5}, key={"a": 3, "b": 5}.get), {i: i * i for i in range(4)})
w = {}
for c in "hello": w[c] = w.get(c, 0) + 1
print(w, sorted(w, key=lambda c: (-w[c], c)), sorted(w.items(), key=lambda kv: (-kv[1], kv[0]))[0]); w.clear(); print(w, bool(w), {"a": {"b": [1]}}["a"]["b"][0])
for i in range(40): w[i * 7 % 40] = i
for i in range(0, 40, 3): del w[i]
print(list(w.items())[:12], len(w), 5 in w, 6 in w)

### sets
s = {3, 1, 2, 3}
print(sorted(s), len(s), 2 in s, sorted(s | {5}), sorted(s & {1, 2}), sorted(s - {1}), sorted(s ^ {1, 9}), s == {1, 2, 3}, set() == set([]))
s.add(10); s.discard(99); s.remove(3); s.update([7, 8]); print(sorted(s), sorted({x % 3 for x in range(10)}), s.issubset({1, 2, 7, 8, 10}), s.issuperset({1}), s.isdisjoint({5}))
print(sorted(s.union([1], [2])), sorted(s.intersection([1, 2])), sorted(s.difference([1])), sorted(s.symmetric_difference([1])), len(frozenset([1, 1])), sorted(set("hello")))
s |= {100}; s -= {1}; s &= {2, 7, 100}; print(sorted(s), {1, 2} == frozenset([1, 2]), len({(1, 2), (1, 2)}), len({1, True, 1.0}), {frozenset([1]): 2}[frozenset([1])])
print(set(), frozenset(), {1}, frozenset([2]), sorted([{1, 2}, {1}], key=len))

### control flow
for i in range(10):
    if i == 2: continue
    if i == 5: break
    print(i, end=" ")
else: print("no")
print()
for i in []: pass
else: print("else")
n = 0
while n < 5:
    n += 1
    if n == 3: continue
else: print("while else", n)
while True:
    n -= 1
    if n < 0: break
print(n, [i for i in range(5, 0, -2)], list(range(3, 3)), list(range(0, 10, 4)), list(enumerate("ab")), list(enumerate("ab", 1)), list(zip([1, 2, 3], "ab")), list(map(lambda a, b: a + b, [1, 2], [3, 4])), list(filter(None, [0, 1, 2])), list(reversed([1, 2])))
if 0: print(1)
elif 1: print(2)
else: print(3)
for i, (a, b) in enumerate([(1, 2), (3, 4)]): print(i, a + b, end=" ")
print([y := 3, y + 1], (z := 5) + z)
for x in range(3):
    for y in range(3):
        if y == x: break
    else: print("never" if x < 3 else "x")
it = iter([1, 2, 3]); print(next(it), next(it), next(it), next(it, "end"))

### functions
def f(a, b=2, *args, c=3, **kw): return (a, b, args, c, sorted(kw.items()))
print(f(1), f(1, 5), f(1, 2, 3, 4), f(1, c=9), f(b=1, a=0), f(1, z=5, y=4), f(*[1, 2, 3]), f(**{"a": 1, "q": 2}), f(1, *(2, 3), c=4, **{"w": 1}))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def outer():
    count = 0
    def inner():
        nonlocal count
        count += 1
        return count
    inner(); inner()
    return count, inner()
g = 1
def setg():
    global g
    g += 1
    return g
def default(x, acc=[]):
    acc.append(x)
    return acc
print(fib(15), outer(), setg(), g, default(1), default(2), (lambda x, y=2: x * y)(4), (lambda *a: a)(1, 2), (lambda: None)())
adders = [lambda x, i=i: x + i for i in range(3)]; late = [lambda: i for i in range(3)]
print([a(10) for a in adders], [a() for a in late])
def compose(*fs):
    def run(x):
        for fn in reversed(fs): x = fn(x)
        return x
    return run
print(compose(lambda x: x + 1, lambda x: x * 2)(5), f.__name__, callable(f), callable(3))
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
print(even(100), (lambda f: f(f, 5))(lambda f, n: 1 if n == 0 else n * f(f, n - 1)))
def kw_only(a, /, b, *, c): return a + b + c
print(kw_only(1, 2, c=3), kw_only(1, b=2, c=3))
def annotated(x: int, y: "str" = "q") -> bool: return x, y
print(annotated(1)); v: int = 5; print(v)
def counter():
    n = 0
    while True:
        n += 1
        yield n
        if n == 3: return
print(list(counter()), sum(counter()), [a + b for a, b in zip(counter(), counter())])
def walk(t):
    for x in t:
        if isinstance(x, list): yield from walk(x)
        else: yield x
print(list(walk([1, [2, [3, []], 4]])), list(x * 2 for x in range(3)), sum(x for x in range(4)), max((x, -x) for x in [1, 3, 2]))
def shadow(list): return len(list)
print(shadow([1, 2])); print((lambda x: (lambda y: x + y))(1)(2)); x = 10; print([x for x in range(3)], x)
def closure_loop():
    fs = []
    for i in range(3):
        def g(): return i
        fs.append(g)
    return [h() for h in fs]
print(closure_loop())

### exceptions
def attempt(f):
    try: return f()
    except ZeroDivisionError: return "zero"
    except (IndexError, KeyError) as e: return "lookup " + type(e).__name__
    except ValueError as e: return "value " + str(e)
    except Exception as e: return "other " + type(e).__name__
    finally: print("done", end=" ")
def raiser(): raise ValueError("bad", 1)
def reraise():
    try: raise KeyError("k")
    except KeyError as e:
        try: raise
        except KeyError as e2: return str(e2), e2.args
print(attempt(lambda: 1 / 0), attempt(lambda: [][1]), attempt(lambda: {}["x"]), attempt(lambda: int("x")), attempt(lambda: None + 1), attempt(raiser), attempt(lambda: "ok"), reraise())
def flow():
    for i in range(3):
        try:
            if i == 1: continue
            if i == 2: return "ret"
        finally: print("f", i, end=" ")
print(flow())
def nested():
    try:
        try: raise TypeError("t")
        finally: print("inner", end=" ")
    except TypeError as e: return e.args[0]
    else: return "none"
print(nested())
try: assert 1 == 2, "msg"
except AssertionError as e: print("assert", e)
try:
    try: 1 // 0
    except ZeroDivisionError: raise ValueError("from")
except ValueError as e: print(e)
def else_branch():
    try: x = 1
    except Exception: return "no"
    else: return "else"
    finally: print("fin", end=" ")
print(else_branch(), isinstance(ValueError(), Exception), repr(ValueError("x")), str(KeyError("q")))
def loop_break():
    while True:
        try: break
        finally: print("brk", end=" ")
    return "out"
print(loop_break())
for bad in ["1,2 = 3" and "x", 5]:
    try: int(bad); print("int", bad)
    except ValueError: print("nope")

### types and conversion
print(type(1) == int, type("a").__name__, isinstance(True, int), isinstance(1, (str, int)), isinstance([], list), isinstance((), tuple), isinstance({}, dict), isinstance(None, int), isinstance(1.0, float))
print(tuple([1, 2]), list((1, 2)), str([1, "a", None]), str((1,)), str({"a": (1, 2)}), bool([]), bool("a"), bool(0.0), str(1.5), str(True), int("7") + 1, tuple("ab"), dict([(1, 2)]))
print(repr(None), repr(1), repr([1.0, "x", (1,), {}, set()]), str(range(3)), range(1, 10, 2)[2], len(range(0, 10, 3)), range(10)[2:5], list(range(10)[::-3]), range(3) == range(0, 3))

### modules
import math, itertools, functools, collections, heapq, string, operator, bisect, copy
from collections import Counter, defaultdict
from math import sqrt, gcd
print(math.floor(2.7), math.ceil(2.1), math.sqrt(16), math.pi, gcd(12, 18), math.factorial(20), math.factorial(25), math.log(math.e), math.log(8, 2), math.log2(8), math.log10(1000), math.isqrt(17), math.comb(5, 2), math.perm(5, 2), math.hypot(3, 4), math.inf, math.trunc(-2.5), sqrt(2), math.lcm(4, 6), math.prod([1, 2, 3]))
c = Counter("abracadabra"); print(c["a"], c["z"], c.most_common(2), sorted(c.items()), sum(c.values()), Counter([1, 1, 2]) == {1: 2, 2: 1}, sorted((Counter("aab") - Counter("a")).items()), sorted((Counter("ab") + Counter("b")).items()), sorted(Counter("aab").elements()))
d = defaultdict(list); d["x"].append(1); d["y"]; print(dict(d), len(d)); e = defaultdict(int); e["q"] += 2; print(dict(e), defaultdict(lambda: 5)["k"])
print(list(itertools.combinations([1, 2, 3], 2)), list(itertools.permutations([1, 2, 3], 2)), list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2)), list(itertools.chain([1], [2, 3])), list(itertools.accumulate([1, 2, 3])), [(k, list(g)) for k, g in itertools.groupby("aabbc")], list(itertools.zip_longest([1, 2], [3])), list(itertools.islice(range(10), 2, 8, 3)), list(itertools.combinations_with_replacement("ab", 2)), list(itertools.takewhile(lambda x: x < 2, [1, 2, 1])), list(itertools.dropwhile(lambda x: x < 2, [1, 2, 1])))
print(functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]), functools.reduce(operator.add, [1, 2], 10), functools.partial(pow, 2)(5), sorted([(1, 2), (0, 3)], key=operator.itemgetter(1)), string.ascii_lowercase[:3], string.digits)
h = [5, 1, 4]; heapq.heapify(h); heapq.heappush(h, 0); print(heapq.heappop(h), heapq.heappop(h), sorted(h), heapq.nlargest(2, [3, 1, 2]), heapq.nsmallest(2, [3, 1, 2]))
a = [1, 3, 5]; print(bisect.bisect_left(a, 3), bisect.bisect_right(a, 3), bisect.bisect(a, 9)); bisect.insort(a, 4); print(a); q = collections.deque([1, 2]); q.append(3); q.appendleft(0); print(q.popleft(), q.pop(), len(q))
m = [[1], [2]]; n = copy.deepcopy(m); o = copy.copy(m); m[0].append(9); print(n, o)
@functools.lru_cache(maxsize=None)
def fibm(n): return n if n < 2 else fibm(n - 1) + fibm(n - 2)
print(fibm(80))
### letters, exact sums and delegation
import math
for text in ['7', '²', '½', '一', '٣', '𝟘', '①', '', '7²', 'x', 'Ⅷ', '၉', '〇']:
    print(text.isdecimal(), text.isdigit(), text.isnumeric())
for text in ['straße', 'STRAẞE', 'ΌΣΟΣ', 'ς', 'ŉ', 'ı', 'İ', 'ꭰᏰ', 'ﬁ', 'ᾳ', 'µ']:
    print(text.casefold(), [ord(letter) for letter in text.casefold()])
print(math.fsum([0.1] * 10), math.fsum([1e100, 1.0, -1e100]), math.fsum([]), math.fsum([1, 2, 0.5]))
print(math.fsum([1e16, 1.0, 1e-16]), math.fsum([1e16, 1.0]), math.fsum([-1e16, -1.0, -1e-16]), math.fsum([float('inf'), 1]))
print(math.fsum(1 / n for n in range(1, 1000)), math.fsum([2.0**53, 1.0, 2.0**-60, -2.0**-60]))
for terms in [[float('inf'), float('-inf')], [1e308, 1e308]]:
    try: print(math.fsum(terms))
    except (ValueError, OverflowError) as e: print(type(e).__name__)
try: print(1 / 0)
except ZeroDivisionError as e: print(e)
def inner(n):
    for i in range(n): yield i
    return [n, 'done']
def outer():
    first = yield from inner(2)
    second = yield from [7]
    third = yield from inner(0)
    yield (first, second, third)
    return (yield from inner(1))
def nested():
    print((yield from outer()))
print(list(nested()), list(inner(3)))
ended = inner(1)
print(next(ended), next(ended, None), next(ended, None))
def again():
    yield (yield from ended)
print(list(again()))
