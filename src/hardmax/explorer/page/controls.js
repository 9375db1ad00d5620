// Elements of the panel: labelled, usable from the keyboard, with numbers of constant width.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const section = (title, ...children) =>
  element("section", {}, element("h2", {}, title), ...children);

// The section about the point under the pointer. On a phone, it is directly below the picture.
export const pointerSection = (info) =>
  Object.assign(section("At the pointer", info), { className: "pointer" });

// A slider with its value; `text` turns a position into the text shown.
export function slider({ label, min, max, step = 1, value, text = String, oninput, onchange }) {
  const shown = element("output", {}, text(value));
  const input = element("input", {
    type: "range",
    min: String(min),
    max: String(max),
    step: String(step),
    "aria-label": label,
    oninput: () => {
      shown.textContent = text(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
      oninput?.(Number(input.value));
    },
    onchange: () => onchange?.(Number(input.value)),
  });
  input.value = String(value);
  const row = element("label", { class: "slider" }, element("span", {}, label), input, shown);
  row.set = (next) => {
    input.value = String(next);
    shown.textContent = text(next);
  };
  return row;
}

// Arrow keys move to the next button of a row and press it; Tab moves to the selected button.
export function withArrows(row, attribute) {
  const buttons = () => [...row.children].filter((one) => !one.disabled);
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key],
      list = buttons(),
      at = list.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = list[(at + step + list.length) % list.length];
    next.click();
    next.focus();
  });
  row.mark = () =>
    [...row.children].forEach(
      (one) => (one.tabIndex = one.getAttribute(attribute) === "true" ? 0 : -1),
    );
  row.mark();
  return row;
}

// One of several choices, as a row of buttons.
export function choice({ label, options, value, onchange }) {
  const buttons = Object.entries(options).map(([name, title]) =>
    element(
      "button",
      {
        type: "button",
        role: "radio",
        "aria-checked": String(name === value),
        title: title.hint ?? "",
        onclick: () => {
          row.set(name);
          onchange(name);
        },
      },
      title.text ?? title,
    ),
  );
  const row = element(
    "div",
    {
      class: buttons.length > 4 ? "choice many" : "choice",
      role: "radiogroup",
      "aria-label": label,
    },
    ...buttons,
  );
  row.set = (next) => {
    Object.keys(options).forEach((name, i) =>
      buttons[i].setAttribute("aria-checked", String(name === next)),
    );
    row.mark();
  };
  return withArrows(row, "aria-checked");
}

export function toggle({ label, value, onchange }) {
  const input = element("input", { type: "checkbox", onchange: () => onchange(input.checked) });
  input.checked = value;
  const row = element("label", { class: "toggle" }, input, label);
  row.set = (next) => (input.checked = next);
  return row;
}

export const button = (label, onclick, properties = {}) =>
  element("button", { type: "button", onclick, ...properties }, label);

// A list of named numbers, from { name: hint }. The widths do not change with the values.
export function numbers(names) {
  const cells = {},
    row = element("dl", { class: "numbers" });
  for (const [name, hint] of Object.entries(names)) {
    cells[name] = element("dd", {}, "–");
    row.append(element("div", { title: hint }, cells[name], element("dt", {}, name)));
  }
  row.set = (values) => {
    for (const [name, value] of Object.entries(values))
      if (cells[name])
        cells[name].textContent = typeof value === "number" ? groupDigits(value) : value;
  };
  // Numbers that are out of date are shown paler.
  row.fade = (names) =>
    Object.entries(cells).forEach(([name, cell]) =>
      cell.classList.toggle("old", names.includes(name)),
    );
  return row;
}

// An integer with its digits in groups of three.
export const groupDigits = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

// A number with a fixed number of digits and a constant width.
export function formatFixed(x, digits = 3) {
  const text =
    Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 10 ** -digits)
      ? x.toExponential(digits - 1)
      : x.toFixed(digits);
  return (x < 0 ? text.replace("-", "\u2212") : `\u2007${text}`).replace("e-", "e\u2212");
}
