// Choice of the directions shown in the charts, and their line styles.

const COLOURS = 8; // --c0 to --c7
const DASHES = [[], [9, 4], [2, 3], [9, 3, 2, 3], [14, 5]];
const FEW = 12; // up to this number, all directions are shown at first

const namesOf = (run) => (run.rows ?? []).map((row) => row.name); // largest corpus first
const isVisible = (name) => state.slots.has(name);

/** A direction keeps its line style while it is visible; a new one gets the first free style. */
function setVisible(name, visible) {
  if (!visible) state.slots.delete(name);
  else if (!isVisible(name)) {
    const taken = new Set(state.slots.values());
    let slot = 0;
    while (taken.has(slot)) slot += 1;
    state.slots.set(name, slot);
  }
}

function showOnly(names) {
  const wanted = new Set(names);
  for (const name of [...state.slots.keys()]) if (!wanted.has(name)) setVisible(name, false);
  for (const name of names) setVisible(name, true);
}

function firstChoice(names) {
  return names.length <= FEW ? names : [...names.slice(0, 5), ...names.slice(-5)];
}

function look(name) {
  return lookOf(state.slots.get(name) ?? 0);
}

function lookOf(slot) {
  return { variable: `--c${slot % COLOURS}`, dash: DASHES[Math.floor(slot / COLOURS) % DASHES.length] };
}

function swatch(name, style = isVisible(name) && look(name)) {
  const picture = draw("svg", { class: "swatch", viewBox: "0 0 20 10", "aria-hidden": "true" });
  if (style) {
    const line = draw("line", {
      x1: 0,
      y1: 5,
      x2: 20,
      y2: 5,
      "stroke-width": 3,
      "stroke-dasharray": style.dash.join(" "),
    });
    line.style.stroke = `var(${style.variable})`;
    picture.append(line);
  } else {
    const ring = draw("circle", { cx: 10, cy: 5, r: 3.5, fill: "none", "stroke-width": 1.25 });
    ring.style.stroke = "var(--strong-line)";
    picture.append(ring);
  }
  return picture;
}

/** With several runs: a direction whose curves in all of them are drawn over one another. */
function overlayChooser() {
  const { runs } = state.data;
  const names = [...new Set(runs.flatMap(namesOf))].filter((name) => runs.filter((run) => namesOf(run).includes(name)).length > 1);
  if (runs.length < 2 || !names.length) return null;
  if (!names.includes(state.overlay)) state.overlay = "";
  const select = make(
    "select",
    {
      id: "overlay",
      onchange: () => {
        state.overlay = select.value;
        at("languages").hidden = Boolean(state.overlay);
        at("overlaid").hidden = !state.overlay;
        drawCharts();
      },
    },
    make("option", { value: "" }, "directions of this run"),
    names.map((name) => make("option", { value: name, selected: name === state.overlay }, `${name} in all runs`)),
  );
  return make("div", { class: "controls" }, make("label", { class: "field" }, make("span", {}, "Show"), select));
}

/** The runs whose curves are drawn over one another, with their line styles. */
function overlayLegend() {
  return make(
    "div",
    { class: "languages", id: "overlaid", hidden: !state.overlay },
    make("p", { class: "legend" }, "Runs in the charts"),
    make(
      "div",
      { class: "chips" },
      state.data.runs.map((run, place) => make("span", { class: "chip named" }, swatch(run.name, lookOf(place)), run.name)),
    ),
  );
}

/** Checkboxes to choose directions; `changed` is called after every change. */
function languageChooser(run, changed) {
  const names = namesOf(run);
  const chips = new Map();

  const paint = () => {
    for (const [name, chip] of chips) {
      chip.querySelector("input").checked = isVisible(name);
      chip.querySelector("svg").replaceWith(swatch(name));
      chip.hidden = !`${name} ${directionName(name)}`.toLowerCase().includes(state.filter.toLowerCase());
    }
    status.textContent = `${names.filter(isVisible).length} of ${names.length} shown`;
  };
  const choose = (chosen) => {
    showOnly(chosen);
    paint();
    changed();
  };

  run.rows.forEach((row, place) => {
    const box = make("input", {
      type: "checkbox",
      id: `language-${place}`,
      value: row.name,
      onchange: () => {
        setVisible(row.name, box.checked);
        paint();
        changed();
      },
    });
    chips.set(
      row.name,
      make(
        "label",
        { class: "chip", title: about(row) },
        box,
        swatch(row.name),
        make("span", {}, row.name),
        make("span", { class: "pairs", "aria-hidden": "true" }, short(row.pairs)),
      ),
    );
  });
  const quick = [
    ["all", "All", names],
    ["none", "None", []],
  ];
  if (names.length > 5) {
    quick.push(["smallest", "5 smallest", names.slice(-5)], ["largest", "5 largest", names.slice(0, 5)]);
  }
  const search =
    names.length > FEW &&
    make("input", {
      type: "search",
      id: "language-filter",
      placeholder: "Filter",
      "aria-label": "Filter the directions",
      value: state.filter,
      oninput: (event) => {
        state.filter = event.target.value;
        paint();
      },
    });
  const status = make("p", { class: "small", id: "language-count", "aria-live": "polite" });
  const made = make(
    "fieldset",
    { class: "languages", id: "languages", hidden: Boolean(state.overlay) },
    make("legend", {}, "Directions in the charts"),
    make(
      "div",
      { class: "quick" },
      quick.map(([key, label, chosen]) =>
        make("button", { type: "button", class: "quiet", id: `show-${key}`, onclick: () => choose(chosen) }, label),
      ),
    ),
    search,
    make("div", { class: "chips" }, ...chips.values()),
    status,
  );
  paint();
  return made;
}
