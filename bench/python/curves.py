"""Draws what runs reached over their steps as one SVG, which stands alone and reads on light and dark pages."""

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 48, 16, 16, 40
COLOURS = ["#2f6fbb", "#c8651b", "#3f8f4f", "#8a4fa3", "#777777"]


def picture(curves_of_runs, goal=0.9, across="step of training", up="solved of held-out tasks"):
    """One line per run of `[step, share]` pairs, and a dashed one at the goal."""
    last = max(step for curve in curves_of_runs for step, _ in curve) or 1
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / last
    y = lambda share: TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#777777">']
    for tenth in range(0, 11, 2):
        at = y(tenth / 10)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#777777" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tenth * 10} %</text>')
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(goal):.1f}" y2="{y(goal):.1f}" stroke="#777777" stroke-dasharray="4 4"/>')
    for step in sorted({round(last * quarter / 4) for quarter in range(5)}):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{across}</text>')
    parts.append(f'<text transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)" text-anchor="middle">{up}</text>')
    for run, curve in enumerate(curves_of_runs):
        points = " ".join(f"{x(step):.1f},{y(share):.1f}" for step, share in curve)
        colour = COLOURS[run % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - RIGHT - 60}" y="{y(0.1) - 16 * (len(curves_of_runs) - 1 - run):.1f}" fill="{colour}">seed {run + 1}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
