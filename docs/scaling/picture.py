"""Draws scaling.svg and the tables of ../scaling.md from results.json. Usage, in the root of the repository: python3 docs/scaling/picture.py"""

import json
import math
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
COLORS = {"data": "#0b6bcb", "ZeRO-3": "#c2410c", "tensor": "#15803d", "mixed": "#7e22ce"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 60, 50, 80


def seconds(value):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.9995 * size or unit == "us":
            return f"{value / size:.3g} {unit}"
    return ""


def rate(row):
    return row["rows_per_second"]


def efficiency(rows, row):
    """Rows a second of a host, against the fewest hosts on which any layout of the network runs."""
    first = min((r for r in rows if r["model"] == row["model"] and r["kind"] == row["kind"] and r["fits"]), key=lambda r: (r["hosts"], -rate(r)))
    return rate(row) / row["hosts"] / (rate(first) / first["hosts"])


def table(rows, model, kind):
    """A line for each number of hosts, and a column for each layout."""
    chosen = [r for r in rows if r["model"] == model and r["kind"] == kind]
    lines = ["| hosts | " + " | ".join(COLORS) + " |", "|---" * (len(COLORS) + 1) + "|"]
    for hosts in sorted({r["hosts"] for r in chosen}):
        cells = []
        for layout in COLORS:
            row = next((r for r in chosen if r["hosts"] == hosts and r["layout"] == layout), None)
            if not row:
                cells.append("-")
            elif not row["fits"]:
                cells.append(f"needs {row['memory'] / 2**30:.0f} GiB")
            else:
                cells.append(f"{'~' if row['measured'] < 0.5 else ''}{seconds(row['step'])}, {100 * efficiency(rows, row):.0f}%, waits {100 * row['exposed'] / row['step']:.0f}%")
        lines.append(f"| {hosts} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def panel(rows, model, kind, x, y, hosts):
    at = lambda h, e: (x + WIDTH * math.log2(h) / math.log2(hosts), y + HEIGHT * (1 - min(e, 1.1) / 1.1))
    out = [f'<text x="{x}" y="{y - 10}" font-weight="bold">{model.split(",")[0]}: {kind}</text>', f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for e in (0, 0.25, 0.5, 0.75, 1):
        px, py = at(1, e)
        out.append(f'<line x1="{px}" y1="{py:.1f}" x2="{px + WIDTH}" y2="{py:.1f}" stroke="#ddd"/><text x="{px - 6}" y="{py + 4:.1f}" text-anchor="end">{100 * e:.0f}%</text>')
    for h in (1, 4, 16, 64, 256, 1024, 4096):
        px, py = at(h, 0)
        out.append(f'<text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{h}</text>')
    for layout, color in COLORS.items():
        points = [at(r["hosts"], efficiency(rows, r)) for r in rows if r["model"] == model and r["kind"] == kind and r["layout"] == layout and r["fits"]]
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        out.append(f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{color}"/>' for px, py in points]
    return out


def main():
    with open(f"{HERE}/results.json", encoding="utf-8") as file:
        results = json.load(file)
    rows = results["rows"]
    models = list(dict.fromkeys(r["model"] for r in rows))
    most = max(r["hosts"] for r in rows)
    width, height = LEFT + 2 * (WIDTH + GAP), TOP + len(models) * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, (layout, color) in enumerate(COLORS.items()):
        out.append(f'<rect x="{LEFT + 110 * i}" y="8" width="12" height="12" fill="{color}"/><text x="{LEFT + 110 * i + 18}" y="18">{layout}</text>')
    for i, model in enumerate(models):
        for j, kind in enumerate(("weak", "strong")):
            out += panel(rows, model, kind, LEFT + j * (WIDTH + GAP), TOP + i * (HEIGHT + GAP), most)
    with open(f"{HERE}/scaling.svg", "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n</svg>\n")
    page = f"{HERE}/../scaling.md"
    with open(page, encoding="utf-8") as file:
        text = file.read()
    tables = "".join(f"### {model}\n{kind.capitalize()} scaling, "
                     + (f"{min(r['batch'] // r['hosts'] for r in rows if r['model'] == model and r['kind'] == kind)} rows on each host" if kind == "weak" else
                        f"{next(r['batch'] for r in rows if r['model'] == model and r['kind'] == kind)} rows in all")
                     + f":\n\n{table(rows, model, kind)}\n\n" for model in models for kind in ("weak", "strong"))
    text = re.sub(r"(<!-- tables -->\n).*(<!-- end -->)", lambda m: m[1] + tables + m[2], text, flags=re.S)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
