// Colours of cells, keys and walls in light and dark themes, the same as in all pictures of the library.
// Parts of a cell are shades of its colour.
import { PALETTE } from "./palette.js";

// Convert OKLCH to sRGB, 0 to 255 each. The chroma of a colour outside the gamut is reduced.
export function rgb(l, c, hue) {
  const h = (hue * Math.PI) / 180,
    a = c * Math.cos(h),
    b = c * Math.sin(h);
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ];
  if (c > 0.01 && linear.some((v) => v < -1e-3 || v > 1.001)) return rgb(l, 0.88 * c, hue);
  return linear.map((v) => {
    const u = Math.min(1, Math.max(0, v));
    return Math.round(255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055));
  });
}

export const css = ([r, g, b], alpha = 1) =>
  alpha === 1 ? `rgb(${r},${g},${b})` : `rgba(${r},${g},${b},${alpha})`;

const themeOf = (isDark) => PALETTE[isDark ? "dark" : "light"];

// Lightness, chroma and hue for label i: one of the colours of cells, in one of three tints.
function labelColour(i, isDark) {
  const { cells } = themeOf(isDark),
    [l, c, h] = cells[i % cells.length];
  return [l + PALETTE.tints[Math.floor(i / cells.length) % PALETTE.tints.length], c, h];
}

// Lightness beyond the theme's knee is compressed towards it, so that no cell is white or black.
function compressLightness([l, c, h], isDark) {
  const { knee } = themeOf(isDark),
    near = knee + PALETTE.bend * (l - knee);
  return rgb(isDark ? Math.max(l, near) : Math.min(l, near), c, h);
}

// The colour of key i.
export const keyColour = (i, isDark) => compressLightness(labelColour(i, isDark), isDark);

// The colour of lines and marks with number i.
export function strongColour(i, isDark) {
  const { strong } = themeOf(isDark);
  return rgb(...strong[i % strong.length]);
}

// The colour of the walls of a head, given by its number in its layer, or of units (-1).
export function wallColour(head, isDark) {
  if (head >= 0) return strongColour(head, isDark);
  return [1, 3, 5].map((i) => parseInt(themeOf(isDark).wall.slice(i, i + 2), 16));
}

// The winners of a layer on a cell, combined into one number.
function codeOf(found, cell, first, count) {
  const { steps } = PALETTE;
  let code = 0;
  for (let g = 0; g < count; g++)
    code += steps[g % steps.length] * found.signatures[cell * found.nGroups + first + g];
  return code;
}

// A colour for each cell, as three bytes. The first layer that cuts determines the hue. Each later layer
// shifts lightness and hue of the cells that it cuts, by decreasing amounts. A cell that a layer does not cut
// keeps its colour.
export function cellColours(found, groupsOfLayers, isDark) {
  const n = found.n,
    { shades, turns, shade, turn, falls } = PALETTE;
  const colours = Array.from({ length: n }, () => labelColour(0, isDark));
  let first = 0,
    parents = [[0, n]],
    nCuts = 0;
  for (const count of groupsOfLayers) {
    const children = [],
      strength = falls ** (nCuts - 1);
    let isCut = false;
    for (const [begin, end] of parents) {
      let from = begin;
      const before = children.length;
      // Cells are sorted by signature, so those that agree so far are consecutive.
      for (let i = begin + 1; i <= end; i++) {
        if (i < end && agrees(found.signatures, found.nGroups, i - 1, i, first, count)) continue;
        children.push([from, i]);
        from = i;
      }
      if (children.length - before === 1) continue;
      isCut = true;
      for (const [start, stop] of children.slice(before)) {
        const code = codeOf(found, start, first, count);
        for (let i = start; i < stop; i++) {
          if (nCuts === 0) colours[i] = labelColour(code, isDark);
          else {
            colours[i][0] += strength * shade * shades[code % shades.length];
            colours[i][2] += strength * turn * turns[code % turns.length];
          }
        }
      }
    }
    if (isCut) nCuts++;
    parents = children;
    first += count;
  }
  const bytes = new Uint8Array(3 * n);
  colours.forEach((colour, i) => bytes.set(compressLightness(colour, isDark), 3 * i));
  return bytes;
}

function agrees(signatures, size, one, other, first, count) {
  for (let g = first; g < first + count; g++)
    if (signatures[one * size + g] !== signatures[other * size + g]) return false;
  return true;
}
