// The page: tabs, a state with undo and links, exports, and light and dark themes.
import { checkHeads, kindOfFile } from "./attention.js";
import { button, element, withArrows } from "./controls.js";
import { Engine } from "./engine.js";
import { HeadView, firstHead } from "./head.js";
import { HeadsView, firstHeads } from "./heads.js";
import { PdfPen, SvgPen } from "./pens.js";
import { RealView, firstReal } from "./real.js";
import { RegionsView, firstRegions } from "./regions.js";
import { Server } from "./server.js";
import { Tour } from "./tour.js";
import { serve } from "./worker.js";

const VIEWS = {
  head: ["Head", HeadView],
  heads: ["Heads together", HeadsView],
  regions: ["Regions", RegionsView],
  real: ["Real model", RealView],
};
const find = (id) => document.getElementById(id);

const firstState = () => ({
  view: "head",
  head: firstHead(),
  heads: firstHeads(),
  regions: firstRegions(),
  real: firstReal(),
});

const MOST_LINK = 24000;
const MOST_HISTORY = 2e7;

// --- Links -----------------------------------------------------------------------------------------

// The state encoded for the fragment of an address, or an empty text if it is too long.
function toLink(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  if (bytes.length > MOST_LINK) return "";
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

function fromLink(text) {
  const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) =>
    c.charCodeAt(0),
  );
  return JSON.parse(new TextDecoder().decode(bytes));
}

// The state of a link, as far as it is valid: known views, finite numbers, limited sizes.
function validState(given) {
  const state = firstState();
  if (typeof given !== "object" || given === null) return state;
  if (given.view in VIEWS) state.view = given.view;
  const isHead = (head) =>
    Array.isArray(head?.keys) &&
    head.keys.length > 0 &&
    head.keys.length <= 200 &&
    head.keys.every(
      (key) => Array.isArray(key) && key.length === 3 && key.every(Number.isFinite),
    ) &&
    ["none", "norm", "own"].includes(head.bias);
  const isWindow = (window) =>
    window && [window.x, window.y, window.half].every(Number.isFinite) && window.half > 0;
  if (
    isHead(given.head) &&
    Number.isFinite(given.head.tau) &&
    given.head.tau >= 0 &&
    isWindow(given.head.window)
  )
    Object.assign(state.head, given.head);
  if (
    Array.isArray(given.heads?.heads) &&
    given.heads.heads.length <= 3 &&
    given.heads.heads.every(isHead) &&
    isWindow(given.heads.window)
  )
    Object.assign(state.heads, given.heads);
  if (given.regions?.source?.kind && isWindow(given.regions.window))
    Object.assign(state.regions, given.regions);
  if (typeof given.real?.name === "string" && (!given.real.window || isWindow(given.real.window)))
    for (const name of Object.keys(state.real))
      state.real[name] = given.real[name] ?? state.real[name];
  return state;
}

class App {
  // `models` are the heads at work that the page contains, `offers` the names of the checkpoints that the
  // server can run.
  constructor(engineBytes, start, presets, { models, offers }, source) {
    Object.assign(this, { engineBytes, presets, models, offers, source, undone: [], history: [] });
    // Questions are numbered across all views, so that a late answer is recognized.
    this.asked = 0;
    this.state = this.stateOfLink() ?? validState(start ?? {});
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.theme = null;
    this.dark.addEventListener("change", () => this.recolour());
    this.live = find("live");
  }

  async begin() {
    this.server = new Server(document.querySelector("meta[name=server]").content, (answer) =>
      this.view?.receive?.(answer),
    );
    if (this.engineBytes.length > 0) await this.beginEngine();
    else if (!(await this.hasServer())) {
      find("panel").append(
        element(
          "p",
          { class: "info alarm" },
          "This page does not contain the engine. Run `make explorer` to build it, or `hardmax explore` to serve the page with the native engine.",
        ),
      );
      return;
    }
    this.makeBar();
    if (!this.engine) this.useServerAlone();
    await this.hasServer();
    this.show();
    this.last = JSON.stringify(this.state);
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.followLink());
    addEventListener("message", (event) => this.hear(event));
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => this.drop(event));
    document.documentElement.dataset.ready = "yes";
  }

  // Load one engine here and another in a worker thread.
  async beginEngine() {
    this.engine = await Engine.load(this.engineBytes);
    const program = new Blob([find("program").textContent], { type: "text/javascript" });
    this.program = URL.createObjectURL(program);
    this.worker = this.startThread((answer) => this.view?.receive?.(answer));
  }

  startThread(hear) {
    const thread = new Worker(this.program);
    thread.onmessage = ({ data }) => hear(data);
    thread.postMessage({ engine: this.engineBytes });
    return thread;
  }

  // Ask a separate thread. It ends when it has answered, or when the next question of this kind comes.
  askOnce(question, hear) {
    this.prover?.terminate();
    const thread = this.startThread((answer) => {
      if (answer.progress === undefined) thread.terminate();
      hear(answer);
    });
    this.prover = thread;
    thread.postMessage(question);
  }

  async hasServer() {
    await this.server.opening;
    return this.server.isOpen;
  }

  // Without its own engine, the page asks the server for everything and shows only regions.
  useServerAlone() {
    this.state.view = "regions";
    for (const name of ["head", "heads"])
      Object.assign(this.tabs[name], {
        disabled: true,
        title: "requires the engine in the page; `make explorer` builds it",
      });
  }

  get isDark() {
    return this.theme ? this.theme === "dark" : this.dark.matches;
  }

  // Announce counts to screen readers, but not at every step of a drag.
  announce(words) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.live.textContent = words), 500);
  }

  recolour() {
    document.documentElement.dataset.theme = this.isDark ? "dark" : "light";
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "paper", "wash"])
      this[name] = style.getPropertyValue(`--${name}`).trim();
    this.view?.recolour?.();
    this.view?.surface.request();
    this.view?.dual?.request();
    this.view?.mapView?.request();
    this.view?.strip?.request();
  }

  // --- Views ---------------------------------------------------------------------------------------

  show() {
    const stage = element("canvas", {
      id: "stage",
      role: "application",
      "aria-roledescription": "plane",
      "aria-label": STAGE_HELP[this.state.view],
    });
    find("stage").replaceWith(stage);
    find("panel").replaceChildren();
    for (const [name, tab] of Object.entries(this.tabs))
      tab.setAttribute("aria-selected", String(name === this.state.view));
    find("tabs").mark();
    this.view = null;
    this.recolour();
    this.view = new VIEWS[this.state.view][1](this, stage, find("panel"));
    this.recolour();
  }

  go(view) {
    this.state.view = view;
    this.show();
    this.commit();
  }

  makeBar() {
    this.tabs = Object.fromEntries(
      Object.entries(VIEWS).map(([name, [title]]) => [
        name,
        button(title, () => this.go(name), { role: "tab" }),
      ]),
    );
    find("tabs").append(...Object.values(this.tabs));
    withArrows(find("tabs"), "aria-selected");
    this.undoButton = button("↶", () => this.undo(), {
      title: "undo (Ctrl+Z)",
      "aria-label": "undo",
      class: "icon",
    });
    this.redoButton = button("↷", () => this.redo(), {
      title: "redo (Ctrl+Shift+Z)",
      "aria-label": "redo",
      class: "icon",
    });
    const menu = element(
      "div",
      { class: "menu", role: "menu", hidden: true },
      ...Object.entries(EXPORTS).map(([kind, title]) =>
        button(title, () => (close(), this.save(kind)), { role: "menuitem" }),
      ),
    );
    const open = button(
      "Save",
      () => {
        menu.hidden = !menu.hidden;
        open.setAttribute("aria-expanded", String(!menu.hidden));
      },
      { "aria-haspopup": "menu", "aria-expanded": "false" },
    );
    const close = () => ((menu.hidden = true), open.setAttribute("aria-expanded", "false"));
    addEventListener("pointerdown", (event) => !event.target.closest(".holder") && close());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !menu.hidden) (close(), open.focus());
    });
    const look = button(
      "◐",
      () => {
        this.theme = this.isDark ? "light" : "dark";
        this.recolour();
      },
      { title: "switch between light and dark", "aria-label": "light or dark", class: "icon" },
    );
    this.tour = new Tour(this);
    find("actions").append(
      button("Tour", () => this.tour.begin()),
      this.undoButton,
      this.redoButton,
      element("div", { class: "holder" }, open, menu),
      look,
    );
    this.marks();
  }

  marks() {
    this.undoButton.disabled = this.history.length === 0;
    this.redoButton.disabled = this.undone.length === 0;
  }

  // --- State ---------------------------------------------------------------------------------------

  // End a change: make it undoable, and update the link.
  commit() {
    const now = JSON.stringify(this.state);
    if (now === this.last) return;
    this.remember();
    this.undone.length = 0;
    this.last = now;
    this.marks();
    this.writeLink();
    this.tellAround();
  }

  // Keep earlier states, fewer of them if models are large.
  remember() {
    const { history } = this;
    history.push(this.last);
    const size = () => history.reduce((sum, text) => sum + text.length, 0);
    while (history.length > 200 || (history.length > 1 && size() > MOST_HISTORY)) history.shift();
  }

  // Inside another page, both sides share the state.
  tellAround() {
    if (parent !== globalThis) parent.postMessage({ hardmax: this.last }, "*");
  }

  hear({ source, data }) {
    if (source !== parent || parent === globalThis || typeof data?.hardmax !== "string") return;
    const state = JSON.stringify(validState(JSON.parse(data.hardmax)));
    if (state === this.last) return;
    this.history.push(this.last);
    this.restore(state);
  }

  writeLink() {
    // If the state is too long for an address, the link has only the current view, or nothing.
    const { view } = this.state,
      link = toLink(this.state) || toLink({ view, [view]: this.state[view] });
    this.link = link ? `#${link}` : "";
    // An embedded page has no address of its own, and so no link.
    try {
      history.replaceState(null, "", this.link || location.pathname);
    } catch {
      return;
    }
  }

  restore(text) {
    this.state = JSON.parse(text);
    this.last = text;
    this.show();
    this.marks();
    this.writeLink();
  }

  undo() {
    if (this.history.length === 0) return;
    this.undone.push(this.last);
    this.restore(this.history.pop());
  }

  redo() {
    if (this.undone.length === 0) return;
    this.history.push(this.last);
    this.restore(this.undone.pop());
  }

  stateOfLink() {
    const text = location.hash.slice(1);
    if (!text) return null;
    try {
      return validState(fromLink(text));
    } catch {
      return null;
    }
  }

  followLink() {
    const state = this.stateOfLink();
    if (!state || JSON.stringify(state) === this.last) return;
    this.history.push(this.last);
    this.restore(JSON.stringify(state));
  }

  key(event) {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.preventDefault();
    if (event.shiftKey) this.redo();
    else this.undo();
  }

  drop(event) {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) this.open(file);
  }

  // Open a file in the view that can show it. A certificate is checked against the model shown.
  async open(file) {
    const kind = kindOfFile(await file.arrayBuffer());
    if (kind === "certificate" && this.view.certify) {
      this.view.certify(await file.text());
      return;
    }
    const view = kind === "heads" ? "real" : "regions";
    if (this.state.view !== view) this.go(view);
    this.view.open(file);
  }

  // --- Exports -------------------------------------------------------------------------------------

  drawPicture(pen) {
    const { surface } = this.view,
      hovered = this.view.hovered;
    this.view.hovered = -1;
    this.view.paint(pen, surface);
    this.view.hovered = hovered;
    return pen.finish();
  }

  // The content of a file with what the page shows.
  async exportAs(kind) {
    const { surface } = this.view,
      size = [Math.round(surface.width), Math.round(surface.height)];
    if (kind === "svg")
      return new Blob([this.drawPicture(new SvgPen(...size, this.paper))], {
        type: "image/svg+xml",
      });
    if (kind === "pdf")
      return new Blob([this.drawPicture(new PdfPen(...size, this.paper))], {
        type: "application/pdf",
      });
    if (kind === "png") return new Promise((done) => surface.canvas.toBlob(done, "image/png"));
    if (kind === "json")
      return new Blob([JSON.stringify(this.view.json(), null, 1)], { type: "application/json" });
    if (kind === "py") return new Blob([this.view.python()], { type: "text/x-python" });
    const given = { start: this.state, heads: { models: this.models, offers: [] } };
    let file = this.source;
    for (const [name, value] of Object.entries(given)) {
      const text = JSON.stringify(value).replace(/</g, "\\u003c"),
        element = new RegExp(`(<script type="application/json" id="${name}">)[^<]*`);
      file = file.replace(element, (_, tag) => tag + text);
    }
    return new Blob([file], { type: "text/html" });
  }

  async save(kind) {
    if (kind === "link") {
      this.writeLink();
      if (!this.link)
        return this.view.warn?.(
          "This is too large for a link. Save it as a single HTML file instead.",
        );
      await navigator.clipboard?.writeText(location.href).catch(() => {});
      this.announce("link copied; it is also in the address bar");
      return;
    }
    this.download(await this.exportAs(kind), `hardmax-${this.state.view}.${kind}`);
  }

  download(content, name) {
    const address = URL.createObjectURL(content);
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
}

const EXPORTS = {
  svg: "SVG",
  png: "PNG",
  pdf: "PDF",
  json: "JSON",
  html: "single HTML file",
  py: "Python snippet",
  link: "copy link",
};
const STAGE_HELP = {
  head: "Diagram of the keys. Press ] and [ to select a key, the arrow keys to move it, N to add one, Delete to remove it, plus and minus to zoom.",
  heads:
    "Diagrams of several heads. Press the arrow keys to move the window, plus and minus to zoom.",
  regions:
    "Partition of the plane into cells. Press ] and [ to move from cell to cell, Enter to zoom into one, the arrow keys to move the window, plus and minus to zoom.",
  real: "Plane through three queries of a model, divided by the winning key. Press ] and [ to move from cell to cell, Enter to zoom into one, the arrow keys to move the window, plus and minus to zoom.",
};

function beginPage(source) {
  const read = (id) => find(id).textContent.trim();
  const engine = Uint8Array.from(atob(read("engine")), (c) => c.charCodeAt(0));
  const start = read("start") ? JSON.parse(read("start")) : null;
  const heads = JSON.parse(read("heads") || '{"models":[],"offers":[]}');
  heads.models.forEach(checkHeads);
  const app = new App(engine, start, JSON.parse(read("presets") || "{}"), heads, source);
  globalThis.hardmax = app;
  app.begin();
}

if (typeof document !== "undefined")
  beginPage(`<!doctype html>\n${document.documentElement.outerHTML}\n`);
else if (typeof WorkerGlobalScope !== "undefined") serve(globalThis);
