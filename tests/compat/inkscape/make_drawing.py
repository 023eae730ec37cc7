"""Writes an SVG drawing: gradients, paths, clones, groups, text, filters."""
import math
import sys

count = int(sys.argv[1])
print('<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
      'width="800" height="800" viewBox="0 0 800 800"><defs>')
for i in range(20):
    print(f'<linearGradient id="g{i}"><stop offset="0" stop-color="hsl({i * 18},80%,50%)"/>'
          f'<stop offset="1" stop-color="hsl({i * 18 + 90},60%,70%)"/></linearGradient>')
print('</defs>')
for i in range(count):
    x, y = i % 30 * 26 + 13, i // 30 * 26 % 780 + 13
    points = " ".join(f"{x + 12 * math.cos(k * 2.4):.2f},{y + 12 * math.sin(k * 2.4 + i):.2f}" for k in range(9))
    print(f'<g id="a{i}" transform="rotate({i * 7 % 360} {x} {y})"><polygon id="p{i}" points="{points}" '
          f'fill="url(#g{i % 20})"/><path id="q{i}" d="M{x},{y} q5,-9 10,0 t10,{i % 9} z" fill="none" stroke="#345"/></g>')
    if i % 10 == 0:
        print(f'<use id="u{i}" xlink:href="#a{i}" x="{i % 7}" y="3" opacity="0.5"/>')
print('</svg>')
