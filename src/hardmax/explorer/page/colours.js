// Colours: one palette for keys and cells, light and dark. Children of a cell are shades of it.

// OKLCH to sRGB, each 0 to 255; a colour that screens do not have is made paler.
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

const GOLDEN = 137.50776405003785;

// The colour of key number i: hues far apart one after the other, in three lightnesses.
export function keyColour(i, isDark) {
  const step = [0, 0.05, -0.045][i % 3];
  return isDark
    ? rgb(0.44 + step, 0.085, 250 + i * GOLDEN)
    : rgb(0.85 + step, 0.075, 250 + i * GOLDEN);
}

export function strongColour(i, isDark) {
  return isDark ? rgb(0.78, 0.13, 250 + i * GOLDEN) : rgb(0.52, 0.13, 250 + i * GOLDEN);
}

// The colour of walls, by layer: heads and units of the first layer stand out most.
export function wallColour(layer, isDark) {
  const hue = [255, 35, 150, 310, 85, 200][layer % 6];
  return isDark ? rgb(0.8, 0.11, hue) : rgb(0.45, 0.12, hue);
}

function hash(words, seed) {
  let h = seed | 0;
  for (const word of words) ((h = Math.imul(h ^ (word + 0x9e3779b9), 0x85ebca6b)), (h ^= h >>> 13));
  h = Math.imul(h ^ (h >>> 16), 0xc2b2ae35);
  return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32;
}

// A colour for each cell, as three bytes. The first layer that cuts sets the hue; each later one moves
// lightness and hue less. A cell that a layer does not cut keeps its colour.
export function cellColours(found, groupsOfLayers, isDark) {
  const n = found.n,
    size = found.nGroups;
  const hue = new Float64Array(n).fill(250),
    lightness = new Float64Array(n);
  let first = 0,
    parents = [[0, n]],
    nCuts = 0;
  for (const count of groupsOfLayers) {
    const children = [],
      strength = 0.62 ** nCuts;
    let isCut = false;
    for (const [begin, end] of parents) {
      let from = begin;
      const before = children.length;
      // Cells come in the order of their signatures: those that agree so far are neighbours in it.
      for (let i = begin + 1; i <= end; i++) {
        if (i < end && agrees(found.signatures, size, i - 1, i, first, count)) continue;
        children.push([from, i]);
        from = i;
      }
      if (children.length - before === 1) continue;
      isCut = true;
      for (const [start, stop] of children.slice(before)) {
        const words = found.signatures.subarray(start * size + first, start * size + first + count);
        const one = hash(words, 17 + first),
          other = hash(words, 91 + first);
        for (let i = start; i < stop; i++) {
          if (nCuts === 0) ((hue[i] = 360 * one), (lightness[i] = 0.06 * (other - 0.5)));
          else
            ((hue[i] += 70 * strength * (one - 0.5)),
              (lightness[i] += 0.26 * strength * (other - 0.5)));
        }
      }
    }
    if (isCut) nCuts++;
    parents = children;
    first += count;
  }
  const colours = new Uint8Array(3 * n);
  for (let i = 0; i < n; i++) {
    const l = isDark ? 0.44 + 0.75 * lightness[i] : 0.83 + 0.75 * lightness[i];
    colours.set(
      rgb(
        isDark ? Math.min(0.62, Math.max(0.29, l)) : Math.min(0.92, Math.max(0.66, l)),
        0.08,
        hue[i],
      ),
      3 * i,
    );
  }
  return colours;
}

function agrees(signatures, size, one, other, first, count) {
  for (let g = first; g < first + count; g++)
    if (signatures[one * size + g] !== signatures[other * size + g]) return false;
  return true;
}
