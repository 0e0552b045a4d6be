"""What tests ask of a page, in its own language. In: nothing. Out: scripts for Browser.ask."""

from __future__ import annotations

STRANGERS = (
    "script, img, iframe, object, embed, link, base, form, audio, video, [onload], [onerror], [onclick], [style]"
)

# What stands in each heat map: {class: {"node:slot": [text, background, letters]}}
CELLS = """
const found = {};
for (const table of document.querySelectorAll('table.heat')) {
  const cls = table.caption.textContent.replace('Class ', '');
  found[cls] ??= {};
  for (const row of table.tBodies[0].rows)
    [...row.cells].slice(1).forEach((cell, slot) => {
      const look = getComputedStyle(cell);
      const place = row.cells[0].textContent.trim() + ':' + slot;
      found[cls][place] = [cell.textContent.trim(), look.backgroundColor, look.color];
    });
}
return found;
"""

# The least contrast of any text with what is behind it, as WCAG 2 reckons, and where it is
CONTRASTS = """
const parse = text => { const v = text.match(/[\\d.]+/g).map(Number); return [v[0], v[1], v[2], v[3] ?? 1]; };
const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
const light = c => { const [r, g, b] = c.map(linear);
  return .2126 * r + .7152 * g + .0722 * b; };
const behind = e => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
const worst = [];
for (const e of document.body.querySelectorAll('*')) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  if (e.closest('title') || !e.checkVisibility()) continue;
  const style = getComputedStyle(e);
  const ink = light(parse(e.closest('svg') ? style.fill : style.color)), paper = light(behind(e));
  const contrast = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  worst.push([contrast, e.textContent.trim().slice(0, 40), e.className]);
}
worst.sort((a, b) => a[0] - b[0]);
return worst.slice(0, 5);
"""

COLOURS = """
const style = getComputedStyle(document.documentElement);
return Object.fromEntries(['--page', '--text', ...[...Array(8).keys()].flatMap(n => ['--h' + n, '--t' + n])]
  .map(name => [name, style.getPropertyValue(name).trim()]));
"""

# What sticks out of the window to the right, but for what scrolls by itself
OVERFLOW = """
const wide = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= wide) return [];
return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > wide + 1
  && !e.closest('.scroll')).map(e => e.tagName + '.' + (e.className.baseVal ?? e.className));
"""
