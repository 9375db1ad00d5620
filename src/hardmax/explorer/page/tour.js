// A short tour: from one key to an exponential number of regions.
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
      "A head scores its keys, and at zero temperature the best key takes all. One key: one cell. Double-click to add a second, and a wall appears where both score the same.",
    show: (state) =>
      Object.assign(state, { view: "head" }) &&
      Object.assign(state.head, { keys: [[0.5, 0.25, 0]], bias: "norm", tau: 0, window: view(3) }),
  },
  {
    title: "Keys make a power diagram",
    words:
      "Each key owns a convex cell. Drag one: the count is exact at every moment. Choose bias “none”, and keys inside the hull die: they win nowhere.",
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
    title: "Soft attention freezes into it",
    words:
      "Lower the temperature. Inside the dashed parts all other keys together weigh at most one per cent: that is certain, not sampled.",
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
    title: "Heads multiply",
    words:
      "Two heads cut the plane together. Their joint cells are the points of a Minkowski sum, and there are never more than the bound says.",
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
    title: "Depth shatters",
    words:
      "This transformer folds the square onto itself in every block: 16 regions, then 256, then 4 096. Move the slider of its layers; every cell is found, and nothing is sampled.",
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
