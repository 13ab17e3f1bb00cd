// Contents of the sections: each function builds one section from the data of a run.

function hero(run) {
  const runs = state.data.runs;
  const tag = { running: "training", waiting: "waiting", stopped: "stopped", broken: "unreadable" }[run.state];
  const chooser =
    runs.length > 1 &&
    make(
      "div",
      { class: "controls" },
      make(
        "label",
        { class: "field" },
        make("span", {}, "Run"),
        make(
          "select",
          {
            id: "run",
            onchange: (event) => {
              chooseRun(+event.target.value);
            },
          },
          runs.map((each, place) => make("option", { value: place, selected: place === state.run }, each.name)),
        ),
      ),
    );
  return [
    chooser,
    make("div", { class: "heading" }, make("h1", {}, run.name), tag && make("span", { class: "tag" }, tag)),
    make(
      "div",
      { class: "words" },
      (run.summary ?? [run.message]).map((sentence) => make("p", {}, written(sentence))),
    ),
    run.figures &&
      make(
        "dl",
        { class: "figures" },
        run.figures.map(([label, number, remark]) =>
          make(
            "div",
            {},
            make("dt", {}, label),
            make("dd", {}, make("div", { class: "number" }, number), make("div", { class: "remark" }, remark)),
          ),
        ),
      ),
  ];
}

function warningList(run) {
  const kinds = new Map();
  for (const warning of run.warnings) kinds.set(warning.kind, [...(kinds.get(warning.kind) ?? []), warning]);
  const line = (warning) =>
    make(
      "p",
      {},
      written(warning.text),
      known(warning.step) && make("span", { class: "when" }, `  update ${whole(warning.step)}`),
    );
  return [
    make(
      "ul",
      { class: "warnings" },
      [...kinds].map(([kind, found]) =>
        make(
          "li",
          {},
          make("span", { class: "kind" }, kind),
          make(
            "div",
            {},
            found.slice(0, 4).map(line),
            found.length > 4 &&
              make(
                "details",
                { id: `warnings-${kind}` },
                make("summary", {}, `${found.length - 4} more`),
                found.slice(4).map(line),
              ),
          ),
        ),
      ),
    ),
  ];
}

function dataTable(run) {
  const { rows } = run;
  const has = (key) => rows.some((row) => known(row[key]));
  const column = (key, label, show, title) => ({
    key,
    label,
    title,
    value: (row) => row[key],
    show: (row) => show(row[key]),
  });
  const columns = [
    column("name", "Direction", namedDirection),
    column("pairs", "Pairs", whole, "number of training pairs"),
    column("p", "Data p", percent, "share of the data"),
    run.reweights
      ? column("share", "Weight q", percent, "weight in the loss, mean over the run; sampling is proportional")
      : column("share", "Sampled q", percent, "share of the sampled pairs, mean over the run"),
    {
      key: "ratio",
      label: "q ÷ p",
      title: `${run.reweights ? "weight" : "sampled share"} relative to the share of the data`,
      value: (row) => row.share / row.p,
      show: (row) => (known(row.share) ? `${fixed(row.share / row.p, 2)} ×` : "–"),
    },
    column("passes", "Passes", (value) => fixed(value, 1), "number of passes over the corpus"),
    column("train", "Train loss", (value) => fixed(value, 3), "last training loss, per token"),
    column("valid", "Valid loss", (value) => fixed(value, 3), "last validation loss, per token"),
    ...metricsOf(rows).map(({ scores_key, heading, label, digits }) =>
      column(scores_key, heading, (value) => fixed(value, digits - 1), label),
    ),
  ].filter(({ key }) => key === "ratio" || has(key));
  const mean = (key) => {
    const found = rows.map((row) => row[key]).filter(known);
    return found.length ? found.reduce((a, b) => a + b) / found.length : null;
  };
  const sum = (key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);
  const foot = columns.map(
    ({ key, show }) =>
      ({ name: "sum or mean", pairs: whole(sum("pairs")), p: "100 %", share: "100 %", ratio: "" })[key] ??
      (key === "passes" ? "" : show({ [key]: mean(key) })),
  );
  return [
    make(
      "p",
      { class: "lead" },
      `Corpus sizes, sampling and results per direction. ${hovers.matches ? "Click" : "Touch"} a heading to sort.`,
    ),
    sortableTable({
      id: "data-table",
      caption: `${rows.length} direction${rows.length > 1 ? "s" : ""}, largest corpus first`,
      columns,
      rows,
      foot: rows.length > 1 ? foot : null,
      tall: rows.length > 20,
    }),
  ];
}

function study(run) {
  const thin = Object.values(run.series).find((series) => series.of > series.steps.length);
  return [
    make(
      "p",
      { class: "lead" },
      toRead("values"),
      hovers.matches && " Drag to zoom in, double-click to zoom out.",
      thin && ` Long curves are thinned (${whole(thin.steps.length)} of ${whole(thin.of)} points).`,
    ),
    overlayChooser(),
    make(
      "div",
      { class: "study" },
      languageChooser(run, () => drawCharts()),
      overlayLegend(),
      make("div", { class: "charts" }, chartFigures(run)),
    ),
  ];
}

function scoreTable(run) {
  const { scores } = run;
  const parts = [
    ["Mean of all directions", scores.macro],
    ["Smaller corpora", scores.low_resource],
    ["Larger corpora", scores.high_resource],
    [`Worst: ${scores.worst.direction}`, scores.worst],
  ].filter(([, part]) => part);
  const metrics = metricsOf(parts.map(([, part]) => part));
  const off = run.rows.some((row) => known(row.off_target)),
    comet = run.rows.some((row) => known(row.comet));
  const extra =
    (off || comet) &&
    sortableTable({
      id: "more-scores",
      tall: run.rows.length > 20,
      rows: run.rows.filter((row) => known(row.lines)),
      columns: [
        { key: "name", label: "Direction", value: (row) => row.name, show: (row) => row.name },
        { key: "lines", label: "Sentences", value: (row) => row.lines, show: (row) => whole(row.lines) },
        ...metricsOf(run.rows).map(({ scores_key: key, heading: label, digits }) => ({
          ...{ key, label, value: (row) => row[key], show: (row) => fixed(row[key], digits) },
        })),
        off && {
          key: "off",
          label: "Off-target",
          title: "share of translations identified as another language",
          value: (row) => row.off_target,
          show: (row) => make("span", { class: row.off_target - (row.off_target_references ?? 0) > 0.1 && "low" }, percent(row.off_target)),
        },
        comet && { key: "comet", label: "COMET", value: (row) => row.comet, show: (row) => fixed(row.comet, 4) },
      ].filter(Boolean),
    });
  return [
    make("p", { class: "lead" }, `Scores on the ${scores.split} set, against untokenised references.`),
    scrolling(
      make(
        "table",
        { id: "score-means", class: "narrow" },
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ["", ...metrics.map((metric) => metric.label)].map((label) => make("th", { scope: "col" }, label)),
          ),
        ),
        make(
          "tbody",
          {},
          parts.map(([label, part]) =>
            make(
              "tr",
              {},
              make("th", { scope: "row" }, label),
              metrics.map(({ scores_key, digits }) => make("td", {}, fixed(part[scores_key], digits))),
            ),
          ),
        ),
      ),
      "Mean scores",
    ),
    make(
      "details",
      { id: "scores-details" },
      make("summary", {}, "All directions"),
      extra || make("p", { class: "note" }, "See the table above."),
    ),
    ...Object.entries(scores.signature).map(([key, signature]) =>
      signatureLine(metricBy(key)?.label ?? key, signature),
    ),
  ];
}

function sampleCards(run) {
  const { directions, split, note } = run.samples;
  if (!directions) return [make("p", { class: "lead" }, written(note))];
  const names = namesOf(run).filter((name) => directions[name]);
  const { label } = metricBy(state.data.primary);
  if (!names.includes(state.sample))
    state.sample = names.includes(run.scores?.worst.direction) ? run.scores.worst.direction : names[0];
  const cards = make("div", { class: "samples", id: "sample-cards", "aria-live": "polite" });
  const lead = make("p", { class: "lead" });
  const show = () => {
    const found = directions[state.sample];
    const [source, target] = state.sample.split("-");
    const among = `${whole(found.looked_at)} sentences of the ${split} set`;
    lead.textContent = `Best, median and worst of ${among}, by sentence-level ${label}.`;
    cards.replaceChildren(
      ...[
        ["Best", found.best],
        ["Median", found.median],
        ["Worst", found.worst],
      ].map(([title, sample]) =>
        make(
          "article",
          { class: "sample" },
          make("header", {}, make("h3", {}, title), make("span", {}, `${label} ${fixed(sample.score, 1)}`)),
          make(
            "dl",
            {},
            make("dt", {}, "Source"),
            make("dd", { dir: "auto", lang: source }, sample.source),
            make("dt", {}, "Translation"),
            make("dd", { dir: "auto", lang: target, class: "translation" }, sample.translation || "(empty)"),
            make("dt", {}, "Reference"),
            make("dd", { dir: "auto", lang: target }, sample.reference),
          ),
        ),
      ),
    );
  };
  const select = make(
    "select",
    {
      id: "sample-direction",
      onchange: () => {
        state.sample = select.value;
        show();
      },
    },
    names.map((name) =>
      make(
        "option",
        { value: name, selected: name === state.sample },
        directionName(name) ? `${name} (${directionName(name)})` : name,
      ),
    ),
  );
  const turn = (by) => () => {
    select.selectedIndex = (select.selectedIndex + by + names.length) % names.length;
    state.sample = select.value;
    show();
  };
  show();
  return [
    lead,
    make(
      "div",
      { class: "controls" },
      make("label", { class: "field" }, make("span", {}, "Direction"), select),
      names.length > 1 &&
        make(
          "span",
          {},
          make("button", { type: "button", class: "quiet", id: "sample-before", onclick: turn(-1) }, "Previous"),
          " ",
          make("button", { type: "button", class: "quiet", id: "sample-after", onclick: turn(1) }, "Next"),
        ),
    ),
    cards,
  ];
}

function details(run) {
  return [
    make(
      "dl",
      { class: "facts" },
      run.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    ),
    run.config &&
      make(
        "details",
        { id: "config" },
        make("summary", {}, "Complete configuration (YAML)"),
        make("pre", { tabindex: 0, "aria-label": "Configuration" }, run.config),
      ),
  ];
}
