// Comparison of strategies: summary sentences and tables.

const meanOf = (part, digits) => fixed(part?.mean, digits);

function spread(part, digits) {
  return known(part?.sd) ? make("span", { class: "sub" }, `± ${fixed(part.sd, digits)}`) : null;
}

/** "better", "worse" or "same", according to the metric. */
function kindOf(difference, significant, metric) {
  if (!significant) return "same";
  return difference > 0 === metric.higher_is_better ? "better" : "worse";
}

const MARKS = { better: "▲", worse: "▼" }; // readable without colours

function comparisonContent(comparison, redraw) {
  const keys = Object.keys(comparison.metrics);
  if (!keys.includes(state.metric)) state.metric = comparison.primary;
  const metric = comparison.metrics[state.metric];
  const choice =
    keys.length > 1 &&
    make(
      "fieldset",
      { class: "choice", id: "metric" },
      make("legend", {}, "Metric"),
      keys.map((key) =>
        make(
          "label",
          {},
          make("input", {
            type: "radio",
            name: "metric",
            id: `metric-${key}`,
            value: key,
            checked: key === state.metric,
            onchange: () => {
              state.metric = key;
              redraw();
            },
          }),
          comparison.metrics[key].label,
        ),
      ),
    );
  return [
    make(
      "div",
      { class: "lead", id: "comparison-words" },
      comparison.summary[state.metric].map((sentence) => make("p", {}, written(sentence))),
      comparison.warnings.map(({ kind, message }) =>
        make("p", { class: "warning", "data-kind": kind }, written(`Warning: ${message}.`)),
      ),
    ),
    make("div", { class: "controls" }, choice),
    strategyTable(comparison, metric),
    make(
      "p",
      { class: "note" },
      `Reference: ${comparison.reference}. 95 % confidence intervals, paired bootstrap with ` +
        `${whole(comparison.samples)} samples; wins and losses are directions with a significant difference (p < .05 ` +
        "after Holm correction), ties the others. ▲ better, ▼ worse. Worst: the direction with the " +
        (comparison.worst_by === "validation"
          ? "highest validation loss. "
          : "worst test score, as there are no validation losses. "),
      metric.higher_is_better ? "Higher is better." : "Lower is better.",
      comparison.rows.some((row) => row.freedom > 0 && row.freedom < 4) &&
        " With so few runs only large differences are significant.",
    ),
    scoresByLanguage(comparison, metric),
    validationByLanguage(comparison),
    groupDifferences(comparison, metric),
    differences(comparison, metric),
    tradeOff(comparison, metric),
    ...keys
      .filter((key) => comparison.signature[key])
      .map((key) => signatureLine(comparison.metrics[key].label, comparison.signature[key])),
  ].filter(Boolean);
}

function signatureLine(label, signature) {
  return make("p", { class: "small signature" }, `${label} `, make("code", {}, signature));
}

function strategyTable(comparison, metric) {
  const { digits } = metric;
  const key = state.metric;
  const part = (name, label, title) => ({
    key: name,
    label,
    title,
    value: (row) => row.scores[key][name]?.mean ?? null,
    show: (row) => [meanOf(row.scores[key][name], digits), spread(row.scores[key][name], digits)],
  });
  const seconds = (row) => row.cost.seconds + row.cost.reference_seconds;
  const columns = [
    {
      key: "name",
      label: "Strategy",
      value: (row) => row.name,
      show: (row) => [
        row.name,
        make("span", { class: "sub" }, `${row.seeds.length} seed${row.seeds.length > 1 ? "s" : ""}`),
      ],
    },
    part("mean", "Mean", "over all directions"),
    {
      key: "gain",
      label: "vs reference",
      title: "difference of the means with 95 % confidence interval",
      value: (row) => row.difference?.[key].mean.difference ?? null,
      show: (row) =>
        row.difference
          ? change(row.difference[key].mean, row.difference[key].mean.clear, metric)
          : "reference",
    },
    {
      ...part(
        "worst",
        `Worst (${comparison.worst_by})`,
        comparison.worst_by === "validation"
          ? "direction with the highest validation loss, which need not have the worst test score"
          : "direction with the worst test score",
      ),
      show: (row) => [
        meanOf(row.scores[key].worst, digits),
        make("span", { class: "sub" }, row.scores[key].worst.direction),
      ],
    },
    part("low_resource", "Small", "mean over the smaller half of the corpora"),
    part("high_resource", "Large", "mean over the larger half of the corpora"),
    {
      key: "wins",
      label: "Win / tie / loss",
      value: (row) => (row.difference ? row.difference[key].wins - row.difference[key].losses : null),
      show: (row) =>
        row.difference
          ? `${row.difference[key].wins} / ${row.difference[key].ties} / ${row.difference[key].losses}`
          : "–",
    },
    {
      key: "harmed",
      label: "Harmed",
      title: "significantly worse directions",
      value: (row) => row.difference?.[key].harmed.length ?? null,
      show: (row) => (!row.difference ? "–" : few(row.difference[key].harmed)),
    },
    {
      key: "cost",
      label: "Cost",
      title: "training, including the reference model that provides the baselines",
      value: seconds,
      show: (row) => [
        duration(seconds(row)),
        make("span", { class: "sub" }, whole(row.cost.updates + row.cost.reference_updates), " updates"),
      ],
    },
  ];
  return sortableTable({
    id: "strategies",
    caption: `${metric.label} on the ${comparison.split} set`,
    columns,
    rows: comparison.rows,
  });
}

const few = (names) => (!names.length ? "none" : names.length > 3 ? `${names.length} directions` : names.join(", "));

function change(part, significant, metric) {
  const [low, high] = part.interval;
  const kind = kindOf(part.difference, significant, metric);
  const mark = kind in MARKS && make("span", { role: "img", "aria-label": kind }, MARKS[kind]);
  return [
    make("span", { class: kind === "same" ? null : kind }, mark, mark && " ", signed(part.difference, metric.digits)),
    make("span", { class: "sub" }, `${fixed(low, metric.digits)} to ${fixed(high, metric.digits)}`),
  ];
}

/** As in the paper's figure: gains on the smaller corpora against losses on the larger ones. */
function groupDifferences(comparison, metric) {
  const rows = comparison.rows.filter((row) => row.difference);
  const groups = [
    ["low_resource", "Smaller corpora"],
    ["high_resource", "Larger corpora"],
    ["mean", "All directions"],
  ].map(([key, title]) => [
    title,
    rows
      .filter((row) => row.difference[state.metric][key])
      .map((row) => {
        const { difference, interval, clear } = row.difference[state.metric][key];
        return { name: row.name, difference, from: interval[0], to: interval[1], significant: clear, remark: "" };
      }),
  ]);
  const all = groups.flatMap(([, lines]) => lines);
  if (!all.length) return null;
  const reach = [Math.min(0, ...all.map((line) => line.from)), Math.max(0, ...all.map((line) => line.to))];
  return make(
    "div",
    { class: "block", id: "group-differences" },
    make("h3", {}, `Differences to ${comparison.reference}, smaller and larger corpora`),
    make(
      "p",
      { class: "note" },
      `Mean ${metric.label} with 95 % confidence intervals. Filled: the interval excludes 0; ▲ better, ▼ worse.`,
    ),
    make(
      "div",
      { class: "panels" },
      groups.filter(([, lines]) => lines.length).map(([title, lines]) => panel(title, lines, reach, metric)),
    ),
  );
}

/** One panel per strategy, on a common scale. */
function differences(comparison, metric) {
  const rows = comparison.rows.filter((row) => row.difference);
  if (!rows.length) return null;
  const ends = rows.flatMap((row) => row.difference[state.metric].directions.flatMap(([, low, high]) => [low, high]));
  const reach = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const names = comparison.directions.map((direction) => direction.name);
  const columns = [
    { key: "name", label: "Direction", value: (place) => names[place], show: (place) => names[place] },
    {
      key: "pairs",
      label: "Pairs",
      value: (place) => comparison.directions[place].pairs,
      show: (place) => whole(comparison.directions[place].pairs),
    },
    ...rows.map((row, number) => {
      const cell = (place) => row.difference[state.metric].directions[place];
      return {
        key: `row${number}`,
        label: row.name,
        value: (place) => cell(place)[0],
        show: (place) =>
          change({ difference: cell(place)[0], interval: cell(place).slice(1, 3) }, cell(place)[4], metric),
      };
    }),
  ];
  return make(
    "div",
    { class: "block", id: "direction-differences" },
    make("h3", {}, `Differences to ${comparison.reference} by direction`),
    make(
      "p",
      { class: "note" },
      `${metric.label} with 95 % confidence intervals, largest corpus first. `,
      "Filled: significant after Holm correction; ▲ better, ▼ worse.",
    ),
    make(
      "div",
      { class: "panels" },
      rows.map((row) => {
        const found = row.difference[state.metric].directions;
        const lines = found.map(([difference, from, to, p, significant], place) => ({
          ...{ name: names[place], difference, from, to, significant },
          remark: `, p ${fixed(p, 3)} after Holm`,
        }));
        return panel(row.name, lines, reach, metric);
      }),
    ),
    make(
      "details",
      { id: "differences-details" },
      make("summary", {}, "Show as table"),
      sortableTable({
        id: "differences",
        caption: `Differences in ${metric.label} to ${comparison.reference}`,
        columns,
        rows: names.map((_, place) => place),
        tall: names.length > 20,
      }),
    ),
  );
}
