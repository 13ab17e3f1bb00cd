// Curves over updates, drawn with uPlot: hover, arrow keys, drag to zoom, and an alternative table.

const CHARTS = [
  {
    key: "mixture",
    title: "Mixture (q)",
    logarithmic: true,
    stepped: true,
    show: percent,
    reference: "p",
    note: (run) => `Share of ${run.reweights ? "the loss" : "the sampled pairs"}, log scale. Dotted: share of the data (p).`,
  },
  {
    key: "train",
    title: "Training loss",
    show: (value) => fixed(value, 3),
    note: "Per target token, mean since the previous point.",
  },
  {
    key: "running",
    title: "Loss estimate used by the strategy",
    show: (value) => fixed(value, 3),
    reference: "baseline",
    note: (run) =>
      Object.keys(run.baseline).length
        ? "At the end of each interval. Dotted: baseline, the loss of a reference model."
        : "At the end of each interval; there is no baseline.",
  },
  {
    key: "valid",
    title: "Validation loss",
    show: (value) => fixed(value, 3),
    note: "Per target token, on held-out text.",
  },
  { key: "chrf", title: "Validation chrF", show: (value) => fixed(value, 1), note: "On a small sample, greedy decoding." },
];
const MOST_IN_TIP = 12;
const MOST_IN_TABLE = 40;
const FEW_POINTS = 12; // up to this number, points are marked
const plots = new Map(); // key: chart currently on the page

const hasCurves = (run) => CHARTS.some((chart) => run.series?.[chart.key]);

/** Empty figures for all series of the run; `drawCharts` fills them. */
function chartFigures(run) {
  forgetCharts();
  return CHARTS.filter((chart) => run.series[chart.key]).map((chart) => {
    const place = make("div", { class: "plot", id: `plot-${chart.key}` });
    const table = make(
      "details",
      { id: `table-${chart.key}`, ontoggle: () => fillTable(chart, table) },
      make("summary", {}, "Show as table"),
    );
    const spoken = make("p", { class: "unseen", role: "status" });
    plots.set(chart.key, { chart, place, table, spoken, plot: null, shape: "" });
    return make(
      "figure",
      { class: chart.stepped ? "chart wide" : "chart" },
      make("figcaption", {}, make("h3", {}, chart.title), make("p", {}, typeof chart.note === "string" ? chart.note : chart.note(run))),
      place,
      spoken,
      table,
    );
  });
}

function forgetCharts() {
  for (const each of plots.values()) {
    each.watcher?.disconnect();
    each.plot?.destroy();
  }
  plots.clear();
}

/** What a chart shows: the visible directions of the run, or one direction of all runs, named by these. */
function shownIn(chart) {
  const run = chosenRun();
  if (!state.overlay) {
    const reference = (chart.reference && run[chart.reference]) || {};
    return { ...run.series[chart.key], names: namesOf(run).filter(isVisible), reference, look };
  }
  const all = state.data.runs;
  const runs = all.filter((each) => each.series?.[chart.key]?.values[state.overlay]);
  const steps = [...new Set(runs.flatMap((each) => each.series[chart.key].steps))].sort((a, b) => a - b);
  const values = Object.fromEntries(
    runs.map((each) => {
      const own = each.series[chart.key];
      const at = new Map(own.steps.map((step, place) => [step, own.values[state.overlay][place]]));
      return [each.name, steps.map((step) => at.get(step) ?? null)];
    }),
  );
  const places = new Map(all.map((each, place) => [each.name, place]));
  const reference = Object.fromEntries(
    runs.map((each) => [each.name, (chart.reference && each[chart.reference]?.[state.overlay]) ?? null]),
  );
  return { steps, values, names: runs.map((each) => each.name), reference, look: (name) => lookOf(places.get(name)) };
}

/** The value at a point; of several runs, whose points differ, the last one before it, unless the run has ended. */
function valueAt(values, place) {
  if (state.overlay && !values.slice(place).some(known)) return null;
  while (state.overlay && place > 0 && !known(values[place])) place -= 1;
  return values[place];
}

/** Update all charts; a chart with the same curves keeps its zoom. */
function drawCharts({ anew = false } = {}) {
  const run = chosenRun();
  for (const each of plots.values()) {
    const shown = shownIn(each.chart);
    const { names } = shown;
    const shape = JSON.stringify([state.run, state.overlay, names]);
    const content = curves(each.chart, run, shown);
    each.place.setAttribute("aria-label", description(each.chart, shown));
    if (each.plot && each.shape === shape && !anew) {
      const { min, max } = each.plot.scales.x;
      const zoomed = each.steps[0] < min || each.steps.at(-1) > max;
      each.steps = content.data[0];
      each.plot.setData(content.data, !zoomed);
      if (zoomed) each.plot.redraw();
    } else {
      each.shape = shape;
      each.steps = content.data[0];
      build(each, content, names);
    }
    fillTable(each.chart, each.table);
  }
}

/** Columns for uPlot: updates, then the directions, then their reference lines. */
function curves(chart, run, { steps, values, names, reference, look: style }) {
  const compared = names.filter((name) => known(reference[name]));
  const lowest = chart.logarithmic ? Math.min(...Object.values(run.p).filter((p) => p > 0)) / 30 : -Infinity;
  const drawable = (value) => (known(value) ? Math.max(value, lowest) : null); // a log scale has no 0
  return {
    reference,
    compared,
    values,
    style,
    data: [
      steps,
      ...names.map((name) => values[name].map(drawable)),
      ...compared.map((name) => steps.map(() => reference[name])),
    ],
  };
}

function build(each, content, names) {
  each.watcher?.disconnect();
  each.plot?.destroy();
  each.plot = null;
  if (!names.length) {
    each.place.replaceChildren(make("p", { class: "empty" }, "Choose a direction to see its curve."));
    each.place.removeAttribute("tabindex");
    return;
  }
  const { chart, place } = each;
  place.replaceChildren();
  place.setAttribute("tabindex", 0);
  place.setAttribute("role", "group");
  const tip = make("div", { class: "tip", hidden: true });
  const grid = colour("--grid"),
    text = colour("--muted");
  const axis = {
    stroke: text,
    font: "12px system-ui, sans-serif",
    grid: { stroke: grid, width: 1 },
    ticks: { show: false },
  };
  const stepped = chart.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const ink = new Map(names.map((name) => [name, colour(content.style(name).variable)]));
  const series = names.map((name) => ({
    label: name,
    stroke: ink.get(name),
    dash: content.style(name).dash,
    width: 1.75,
    spanGaps: true,
    paths: stepped,
    points: { show: content.data[0].length <= FEW_POINTS && !chart.stepped, size: 5 },
  }));
  const references = content.compared.map((name) => ({
    label: `${name} reference`,
    stroke: faded(ink.get(name)),
    dash: [1.5, 4],
    width: 1.5,
    points: { show: false },
  }));
  const isReference = (place) => place > names.length;
  const size = () => ({ width: Math.max(200, place.clientWidth), height: place.clientWidth < 480 ? 240 : 290 });
  each.plot = new uPlot(
    {
      ...size(),
      legend: { show: false },
      padding: [8, 18, 0, 0],
      cursor: {
        y: false,
        sync: { key: "updates", setSeries: false, scales: ["x", null] },
        focus: { prox: 20, dist: (_, place, __, curve, mouse) => (isReference(place) ? Infinity : curve - mouse) },
        points: { size: (_, place) => (isReference(place) ? 0 : 7) },
        drag: { x: true, y: false },
      },
      focus: { alpha: 0.3 },
      scales: {
        x: { time: false, range: (plot, low, high) => wholeRun(plot, low, high) },
        y: chart.logarithmic ? { distr: 3, range: (_, low, high) => [low / 1.4, Math.min(1, high * 1.4)] } : {},
      },
      axes: [
        { ...axis, size: 34, values: (_, ticks) => ticks.map(short) },
        {
          ...axis,
          size: 58,
          values: (_, ticks) =>
            ticks.map((tick) => (!known(tick) ? "" : chart.logarithmic ? percentTick(tick) : short(tick))),
        },
      ],
      series: [{}, ...series, ...references],
      hooks: {
        setCursor: [(plot) => showTip(plot, tip, chart, content, names)],
        setSeries: [
          (plot, place) => {
            plot.near = place;
            showTip(plot, tip, chart, content, names);
          },
        ],
      },
    },
    content.data,
    place,
  );
  each.plot.over.append(tip);
  place.onkeydown = (event) => walk(event, each);
  place.onblur = () => each.plot?.setCursor({ left: -10, top: -10 });
  each.watcher = new ResizeObserver(() => each.plot?.setSize(size()));
  each.watcher.observe(place);
}

const faded = (rgb) => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, .75)");

/** Unless zoomed, all charts have the same x axis: from 0 to the last update. */
function wholeRun(plot, low, high) {
  const steps = plot.data[0];
  if (low !== steps[0] || high !== steps.at(-1)) return [low, high];
  const runs = state.overlay ? state.data.runs : [chosenRun()];
  return [0, Math.max(1, ...runs.map((run) => run.progress?.step ?? 0))];
}

/** Label of a tick on a log scale: only 1, 2 and 5 of each decade have one. */
function percentTick(share) {
  const value = +(100 * share).toPrecision(3);
  return ["1", "2", "5"].includes(String(value).replace(/[0.]/g, "")) ? `${value} %` : "";
}

/** Move the cursor from point to point with the arrow keys. */
function walk(event, { plot, chart, spoken }) {
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const steps = plot.data[0];
  const now =
    known(plot.cursor.idx) && plot.cursor.left >= 0 ? plot.cursor.idx : moves[event.key] > 0 ? -1 : steps.length;
  const next = Math.min(steps.length - 1, Math.max(0, now + moves[event.key]));
  plot.byKeyboard = true;
  plot.setCursor({ left: plot.valToPos(steps[next], "x"), top: plot.over.clientHeight / 3 });
  plot.byKeyboard = false;
  const { values, names } = shownIn(chart);
  const said = names.slice(0, MOST_IN_TIP).map((name) => `${name} ${chart.show(valueAt(values[name], next))}`);
  spoken.textContent = `Update ${whole(steps[next])}: ${said.join(", ")}`;
}

/** Tooltip with the values of the curves: largest first, those around the cursor if there are many, the nearest in bold. */
function showTip(plot, tip, chart, content, names) {
  const { left, idx } = plot.cursor;
  const here = plot.byKeyboard || plot.over.matches(":hover");
  tip.hidden = !here || !known(idx) || left < 0;
  if (tip.hidden) return;
  const rows = names
    .map((name, place) => ({ name, value: valueAt(content.values[name], idx), near: plot.near === place + 1 }))
    .filter((row) => known(row.value))
    .sort((a, b) => b.value - a.value);
  const nearest = rows.findIndex((row) => row.near);
  const height = plot.posToVal(plot.cursor.top, "y");
  const below = rows.findIndex((row) => row.value <= height);
  const near = nearest >= 0 ? nearest : below >= 0 ? below : rows.length;
  const first = Math.max(0, Math.min(rows.length - MOST_IN_TIP, near - MOST_IN_TIP / 2));
  const shown = rows.slice(first, first + MOST_IN_TIP);
  tip.replaceChildren(
    make("strong", {}, `Update ${whole(plot.data[0][idx])}`),
    ...shown.map((row) =>
      make(
        "div",
        { class: row.near && "near" },
        swatch(row.name, content.style(row.name)),
        make("span", {}, row.name),
        make(
          "span",
          {},
          chart.show(row.value),
          known(content.reference[row.name]) &&
            make("span", { class: "ref" }, ` / ${chart.show(content.reference[row.name])}`),
        ),
      ),
    ),
  );
  if (rows.length > shown.length)
    tip.append(make("span", { class: "ref" }, `and ${rows.length - shown.length} more`));
  const point = plot.valToPos(plot.data[0][idx], "x"); // neither it nor the cursor may be hidden
  const [before, after] = [Math.min(left, point) - tip.offsetWidth - 14, Math.max(left, point) + 14];
  tip.style.left = `${after + tip.offsetWidth > plot.over.clientWidth ? Math.max(-50, before) : after}px`;
  tip.style.top = `${Math.max(-20, Math.min(plot.cursor.top - 20, plot.over.clientHeight - tip.offsetHeight + 20))}px`;
}

/** Description of a chart for screen readers: first and last value of each curve. */
function description(chart, { steps, values, names }) {
  const ends = names.slice(0, 10).map((name) => {
    const numbers = values[name].filter(known);
    return numbers.length
      ? `${name} from ${chart.show(numbers[0])} to ${chart.show(numbers.at(-1))}`
      : `${name} unknown`;
  });
  const more = names.length > ends.length ? `, and ${names.length - ends.length} more` : "";
  const keys = "Use the arrow keys to move between points; a table follows.";
  return `${chart.title} over ${whole(steps.at(-1))} updates: ${ends.join(", ")}${more}. ${keys}`;
}

function fillTable(chart, details) {
  details.querySelector(".scroll")?.remove();
  if (!details.open) return;
  const { steps, values, names } = shownIn(chart);
  const every = Math.ceil(steps.length / MOST_IN_TABLE);
  const rows = steps.map((_, place) => place).filter((place) => place % every === 0 || place === steps.length - 1);
  const made = make(
    "table",
    { id: `numbers-${chart.key}` },
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        make("th", { scope: "col" }, "Updates"),
        names.map((name) => make("th", { scope: "col" }, name)),
      ),
    ),
    make(
      "tbody",
      {},
      rows.map((place) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, whole(steps[place])),
          names.map((name) => make("td", {}, chart.show(values[name][place]))),
        ),
      ),
    ),
  );
  details.append(scrolling(made, `${chart.title}, as a table`, true));
}
