"""Charts as SVG: axes, lines with error bars, areas. Colours are classes of page.css, so that a chart follows the
reader's light or dark scheme."""

import html
import math

WIDTH, HEIGHT = 380, 268
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 26, 40

SAMPLERS = ("v-SGBD", "c-SGBD", "e-SGBD", "v-SGLD", "c-SGLD", "m-SGLD", "e-SGLD", "SGLRW")
MARKS = {"v": "circle", "c": "square", "e": "triangle", "m": "diamond", "S": "circle"}


def css(name):
    return "k-" + "".join(c if c.isalnum() else "-" for c in name)


def number(x):
    """Short, for axes and tables."""
    if x == 0:
        return "0"
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "–"
    size = abs(x)
    if size >= 1e5 or size < 1e-3:
        exponent = math.floor(math.log10(size) + 1e-9)
        factor = x / 10 ** exponent
        power = "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isdigit() else "⁻" for c in str(exponent))
        if abs(abs(factor) - 1) < 1e-9:
            return ("−" if x < 0 else "") + power
        return ("%.3g·%s" % (factor, power)).replace("-", "−")
    text = "%.4g" % x if size < 1e4 else "%.0f" % x
    return text.replace("-", "−")


def labels(ticks):
    """With so many digits that no two are the same."""
    short = [number(t) for t in ticks]
    digits = 3
    while len(set(short)) < len(ticks) and digits < 9:
        short = [("%.*f" % (digits, t)).replace("-", "−") for t in ticks]
        digits += 1
    return short


class Axis:
    def __init__(self, low, high, log=False, pixels=(0, 1)):
        self.log, self.pixels = log, pixels
        if log:
            low = max(low, 1e-300)
            high = max(high, low * 1.0001)
            room = (high / low) ** 0.04
            self.low, self.high = math.log10(low / room), math.log10(high * room)
        else:
            high = high if high > low else low + 1
            room = 0.04 * (high - low)
            self.low, self.high = low - room, high + room

    def __call__(self, value):
        v = math.log10(value) if self.log and value > 0 else -1e9 if self.log else value
        t = (v - self.low) / (self.high - self.low)
        return self.pixels[0] + min(max(t, 0.0), 1.0) * (self.pixels[1] - self.pixels[0])

    def inside(self, value):
        v = math.log10(value) if self.log and value > 0 else None if self.log else value
        return v is not None and self.low <= v <= self.high

    def ticks(self, wanted):
        if self.log:
            return self.log_ticks(wanted)
        raw = (self.high - self.low) / wanted
        step = 10 ** math.floor(math.log10(raw))
        step *= next(m for m in (1, 2, 5, 10) if step * m >= raw)
        first = math.ceil(self.low / step)
        return [round(k * step, 12) for k in range(first, math.floor(self.high / step) + 1)]

    def log_ticks(self, wanted):
        decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        if len(decades) >= 2:
            step = max(1, math.ceil(len(decades) / wanted))
            return [10.0 ** k for k in decades if k % step == 0]
        for digits in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
            found = [m * 10.0 ** k for k in range(math.floor(self.low), math.ceil(self.high) + 1) for m in digits]
            found = [t for t in found if self.low <= math.log10(t) <= self.high]
            if len(found) >= 3:
                return found
        return found or [10 ** ((self.low + self.high) / 2)]


class Chart:
    def __init__(self, title, x, y, xlabel="", ylabel="", xlog=False, ylog=False):
        """x, y: (low, high)."""
        self.title, self.xlabel, self.ylabel = title, xlabel, ylabel
        self.x = Axis(*x, xlog, (LEFT, WIDTH - RIGHT))
        self.y = Axis(*y, ylog, (HEIGHT - BOTTOM, TOP))
        self.below, self.parts = [], []

    def path(self, points, close=False):
        out, pen = [], "M"
        for x, y in points:
            if x is None or y is None or not (math.isfinite(x) and math.isfinite(y)):
                pen = "M"
                continue
            out.append("%s%.1f %.1f" % (pen, self.x(x), self.y(y)))
            pen = "L"
        return "".join(out) + ("Z" if close and out else "")

    def line(self, name, points, faint=False):
        self.parts.append('<path class="line %s%s" d="%s"/>' % (css(name), " faint" if faint else "", self.path(points)))

    def area(self, points, floor=0.0):
        """The shape of a density: what the curves should follow."""
        if points:
            closed = [(points[0][0], floor), *points, (points[-1][0], floor)]
            self.below.append('<path class="area" d="%s"/>' % self.path(closed, True))

    def level(self, y, label=""):
        if self.y.inside(y):
            at = self.y(y)
            self.below.append('<path class="level" d="M%d %.1fH%d"/>' % (LEFT, at, WIDTH - RIGHT))
            if label:
                up = at - 4 if at > TOP + 14 else at + 12
                self.parts.append('<text class="note" x="%d" y="%.1f">%s</text>' % (LEFT + 5, up, html.escape(label)))

    def points(self, name, rows, xerrors=False):
        """rows: (x, y, error of y[, error of x]); bars of two errors each way."""
        for row in rows:
            x, y, error = row[:3]
            if not (math.isfinite(x) and math.isfinite(y) and self.x.inside(x)):
                continue
            if not self.y.inside(y):
                self.outside(name, x, y)
                continue
            px, py = self.x(x), self.y(y)
            if error and error > 0:
                high, low = self.y(y + 2 * error), self.y(y - 2 * error) if not self.y.log or y > 2 * error else self.y.pixels[0]
                self.parts.append('<path class="bar %s" d="M%.1f %.1fV%.1f"/>' % (css(name), px, low, high))
            if xerrors and len(row) > 3 and row[3] and row[3] > 0:
                left = self.x(x - 2 * row[3]) if not self.x.log or x > 2 * row[3] else self.x.pixels[0]
                self.parts.append('<path class="bar %s" d="M%.1f %.1fH%.1f"/>' % (css(name), left, py, self.x(x + 2 * row[3])))
            tip = "%s: %s, %s%s" % (name, number(x), number(y), " ± " + number(error) if error else "")
            self.parts.append(mark(name, px, py, tip))

    def outside(self, name, x, y):
        """A value beyond the axis: an arrow at the edge, and its size in the tip."""
        up = self.y.pixels[1] + 3 if y > 0 and y >= self.bottom() else self.y.pixels[0] - 3
        way = -1 if up < HEIGHT / 2 else 1
        px = self.x(x)
        self.parts.append('<path class="beyond %s" d="M%.1f %.1fl-3.5 %d l7 0Z"><title>%s: %s, %s</title></path>' % (
            css(name), px, up + 2 * way, -6 * way, html.escape(name), number(x), number(y)))

    def bottom(self):
        return 10 ** self.y.low if self.y.log else self.y.low

    def curve(self, name, rows, xerrors=False):
        self.line(name, [r[:2] for r in rows])
        self.points(name, rows, xerrors)

    def axes(self):
        out = []
        marks = self.y.ticks(5)
        for t, label in zip(marks, labels(marks)):
            at = self.y(t)
            out.append('<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>' % (
                LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 3.8, label))
        for t in self.x.ticks(6):
            at = self.x(t)
            out.append('<path class="grid" d="M%.1f %dV%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (
                at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 14, number(t)))
        out.append('<text class="title" x="%d" y="15">%s</text>' % (LEFT, html.escape(self.title)))
        out.append('<text class="label" x="%.1f" y="%d" text-anchor="middle">%s</text>' % (
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, html.escape(self.xlabel)))
        out.append('<text class="label" transform="translate(13 %.1f) rotate(-90)" text-anchor="middle">%s</text>' % (
            (TOP + HEIGHT - BOTTOM) / 2, html.escape(self.ylabel)))
        return "".join(out)

    def __str__(self):
        frame = '<rect class="frame" x="%d" y="%d" width="%d" height="%d"/>' % (
            LEFT, TOP, WIDTH - RIGHT - LEFT, HEIGHT - BOTTOM - TOP)
        return '<svg viewBox="0 0 %d %d" role="img" aria-label="%s">%s%s<g>%s</g>%s</svg>' % (
            WIDTH, HEIGHT, html.escape(self.title, True), self.axes(), "".join(self.below), "".join(self.parts), frame)


def mark(name, x, y, tip=""):
    kind = MARKS.get(name[0], "circle")
    title = "<title>%s</title>" % html.escape(tip) if tip else ""
    shape = {
        "circle": '<circle cx="%.1f" cy="%.1f" r="3.1"' % (x, y),
        "square": '<rect x="%.1f" y="%.1f" width="5.6" height="5.6"' % (x - 2.8, y - 2.8),
        "triangle": '<path d="M%.1f %.1fl3.7 6.4h-7.4Z"' % (x, y - 3.9),
        "diamond": '<path d="M%.1f %.1fl3.8 3.8l-3.8 3.8l-3.8 -3.8Z"' % (x, y - 3.8),
    }[kind]
    tag = shape[1:].split(" ")[0]
    return '%s class="mark %s">%s</%s>' % (shape, css(name), title, tag)


def legend(names):
    items = ['<span><svg viewBox="0 0 30 12" width="30" height="12" aria-hidden="true"><path class="line %s" d="M1 6H29"/>%s</svg>%s</span>' % (
        css(n), mark(n, 15, 6) if n in SAMPLERS else "", html.escape(n)) for n in names]
    return '<p class="legend">%s</p>' % "".join(items)
