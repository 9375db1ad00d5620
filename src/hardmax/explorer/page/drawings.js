// The data needed to draw cells: a bounding box of each, every wall once, and colours.
import { cellColours } from "./colours.js";
import { startOf } from "./exact.js";

// Boxes are x0, y0, x1, y1. Walls are rows of five numbers: cell, the vertices at the two ends, block, and the
// number of the head, or -1 for units. Colours are r, g, b.
export function drawingOf(found, network, isDark) {
  return {
    boxes: boxesOf(found),
    walls: wallsOf(found, network),
    colours: cellColours(
      found,
      network.layers.map((layer) => layer.nGroups),
      isDark,
    ),
    isDark,
  };
}

function boxesOf(found) {
  const boxes = new Float64Array(4 * found.n);
  for (let cell = 0; cell < found.n; cell++) {
    let x0 = Infinity,
      y0 = Infinity,
      x1 = -Infinity,
      y1 = -Infinity;
    for (let i = found.starts[cell]; i < found.starts[cell + 1]; i++) {
      const x = found.points[2 * i],
        y = found.points[2 * i + 1];
      if (found.directions) {
        const dx = found.directions[2 * i],
          dy = found.directions[2 * i + 1];
        if (dx > 0) x1 = Infinity;
        if (dx < 0) x0 = -Infinity;
        if (dy > 0) y1 = Infinity;
        if (dy < 0) y0 = -Infinity;
      }
      if (x < x0) x0 = x;
      if (x > x1) x1 = x;
      if (y < y0) y0 = y;
      if (y > y1) y1 = y;
    }
    ((boxes[4 * cell] = x0), (boxes[4 * cell + 1] = y0));
    ((boxes[4 * cell + 2] = x1), (boxes[4 * cell + 3] = y1));
  }
  return boxes;
}

// The number of entries per wall.
export const WALL = 5;

const isAttention = (layer) => !layer.isRelu && layer.gains.every((gain) => gain === 0);

// Each wall once, from the side with the smaller winner.
function wallsOf(found, network) {
  const groupOf = [],
    starts = [],
    places = [];
  let group = 0,
    before = 0,
    block = -1;
  network.layers.forEach((layer, i) => {
    const hasHeads = isAttention(layer);
    if (network.words[i][0] !== network.words[i - 1]?.[0]) block++;
    for (let g = 0; g < layer.nGroups; g++, group++) {
      starts.push(before + startOf(layer, g));
      places.push([block, hasHeads ? g : -1]);
      for (let j = startOf(layer, g); j < startOf(layer, g + 1); j++) groupOf.push(group);
    }
    before += layer.nForms;
  });
  const walls = new Int32Array(WALL * found.walls.length);
  let n = 0;
  for (let cell = 0; cell < found.n; cell++) {
    const first = found.starts[cell],
      end = found.starts[cell + 1];
    for (let edge = first; edge < end; edge++) {
      const code = found.walls[edge];
      if (code < 0) continue;
      const group = groupOf[code];
      if (starts[group] + found.signatures[cell * found.nGroups + group] > code) continue;
      walls[n++] = cell;
      walls[n++] = edge;
      walls[n++] = edge + 1 < end ? edge + 1 : first;
      walls[n++] = places[group][0];
      walls[n++] = places[group][1];
    }
  }
  return walls.slice(0, n);
}
