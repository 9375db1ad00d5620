// A short tour, from one key to an exponential number of regions.
import { button, element } from "./controls.js";

const ring = (n, radius, turn = 0) =>
  Array.from({ length: n }, (_, i) => {
    const angle = turn + (2 * Math.PI * i) / n,
      near = (z) => Math.round(64 * z) / 64;
    return [near(radius * Math.cos(angle)), near(radius * Math.sin(angle)), 0];
  });

const view = (half) => ({ x: 0, y: 0, half });

const STEPS = [
  {
    title: "One key wins everywhere",
    words:
      "A head scores its keys, and at zero temperature the key with the highest score wins. With one key, there is one cell. Double-click to add a second key: a wall appears where the two scores are equal.",
    show: (state) =>
      Object.assign(state, { view: "head" }) &&
      Object.assign(state.head, { keys: [[0.5, 0.25, 0]], bias: "norm", tau: 0, window: view(3) }),
  },
  {
    title: "Keys form a power diagram",
    words:
      "Each key wins on a convex cell. Drag a key: the count stays exact. Set the bias to “none”: keys inside the convex hull of the others no longer win anywhere.",
    show: (state) =>
      Object.assign(state, { view: "head" }) &&
      Object.assign(state.head, {
        keys: [...ring(9, 2), ...ring(4, 0.9, 0.4)],
        bias: "norm",
        tau: 0,
        window: view(3),
      }),
  },
  {
    title: "Soft attention approaches the diagram",
    words:
      "Lower the temperature. Inside the dashed areas, all other keys together have at most 1 % of the attention. This is proven, not sampled.",
    show: (state) =>
      Object.assign(state, { view: "head" }) &&
      Object.assign(state.head, {
        keys: [...ring(7, 2), [0, 0, 0]],
        bias: "norm",
        tau: 0.25,
        band: true,
        window: view(3),
      }),
  },
  {
    title: "Heads multiply the cells",
    words:
      "Two heads divide the plane together. Their joint cells correspond to points of a Minkowski sum, and their number never exceeds the bound.",
    show: (state) =>
      Object.assign(state, { view: "heads" }) &&
      Object.assign(state.heads, {
        heads: [
          { keys: ring(5, 1.6), bias: "norm" },
          { keys: ring(5, 1.6, 0.5), bias: "norm" },
        ],
        window: view(3),
      }),
  },
  {
    title: "Depth multiplies them again",
    words:
      "Every block of this transformer folds the square onto itself: 16 regions, then 256, then 4 096. Move the slider of the layers: every cell is found, and nothing is sampled.",
    show: (state) =>
      Object.assign(state, { view: "regions" }) &&
      Object.assign(state.regions, {
        source: { kind: "shattering", level: 3 },
        model: null,
        depth: 99,
        window: { x: 0.5, y: 0.5, half: 0.54 },
      }),
  },
];

export class Tour {
  constructor(app) {
    this.app = app;
    this.card = document.getElementById("tour");
  }

  begin() {
    this.step(0);
  }

  step(index) {
    const { app, card } = this,
      { title, words, show } = STEPS[index];
    show(app.state);
    app.show();
    app.commit();
    const last = index === STEPS.length - 1;
    const next = button(last ? "done" : "next", () => (last ? this.end() : this.step(index + 1)), {
      class: "main",
    });
    card.replaceChildren(
      element("h3", {}, title),
      element("p", {}, words),
      element(
        "div",
        { class: "row" },
        element("span", {}, `${index + 1} of ${STEPS.length}`),
        button("close", () => this.end()),
        index > 0 ? button("back", () => this.step(index - 1)) : null,
        next,
      ),
    );
    card.hidden = false;
    card.setAttribute("role", "region");
    card.setAttribute("aria-label", "tour");
    next.focus();
  }

  end() {
    this.card.hidden = true;
  }
}
