// Compile a curve drawn by hand to a network whose last unit is on exactly above the curve.

// The curve as a function of x: a few knots [x, y] from left to right.
export function knotsOf(drawn, half) {
  const forward = drawn[drawn.length - 1][0] < drawn[0][0] ? drawn.slice().reverse() : drawn;
  const rising = [];
  for (const point of forward)
    if (rising.length === 0 || point[0] > rising[rising.length - 1][0] + half / 100)
      rising.push(point);
  let tolerance = half / 80,
    kept = simplify(rising, tolerance);
  while (kept.length > 30) kept = simplify(rising, (tolerance *= 1.5));
  const near = (z) => Math.round(256 * z) / 256;
  return kept
    .map(([x, y]) => [near(x), near(y)])
    .filter(([x], i, all) => i === 0 || x > all[i - 1][0]);
}

// The Ramer-Douglas-Peucker algorithm: drop points close to the chord between the points kept.
function simplify(points, tolerance) {
  if (points.length < 3) return points;
  const [x0, y0] = points[0],
    [x1, y1] = points[points.length - 1];
  let worst = 0,
    at = 0;
  points.forEach(([x, y], i) => {
    const distance = Math.abs(y - y0 - ((y1 - y0) * (x - x0)) / (x1 - x0));
    if (distance > worst) ((worst = distance), (at = i));
  });
  if (worst <= tolerance) return [points[0], points[points.length - 1]];
  return [
    ...simplify(points.slice(0, at + 1), tolerance).slice(0, -1),
    ...simplify(points.slice(at), tolerance),
  ];
}

const HIGH = 64;

// The network relu(y - f(x)), where f interpolates the knots and is constant outside them. Units relu(x - x_i)
// change its slope at the knots. A unit that is on wherever y > -64 passes y through.
export function curveNetwork(knots) {
  const slopes = knots.map(([x, y], i) =>
    i + 1 < knots.length ? (knots[i + 1][1] - y) / (knots[i + 1][0] - x) : 0,
  );
  const bends = slopes.map((slope, i) => slope - (i > 0 ? slopes[i - 1] : 0));
  return {
    kind: "ReluNetwork",
    weights: [
      [
        [...knots.map(() => 1), 0],
        [...knots.map(() => 0), 1],
      ],
      [...bends.map((bend) => [-bend]), [1]],
      [[1]],
    ],
    biases: [[...knots.map(([x]) => -x), HIGH], [-knots[0][1] - HIGH], [0]],
  };
}
