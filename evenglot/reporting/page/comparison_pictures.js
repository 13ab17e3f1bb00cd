// Figures of a comparison: intervals by direction, and smaller against larger corpora.

/** Differences, one per line: {name, difference, from, to, significant, remark}. The scale is on top, as lists scroll. */
function panel(title, lines, [low, high], metric) {
  const [width, line, top, left] = [
    320,
    20,
    22,
    Math.min(150, 14 + 7 * Math.max(...lines.map(({ name }) => name.length))),
  ];
  const span = high - low || 1;
  const x = (value) => left + 10 + ((value - low) / span) * (width - left - 22);
  const height = lines.length * line + top + 4;
  const ticks = niceTicks(low, high, 4);
  const picture = draw(
    "svg",
    {
      class: "picture",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}: ${spokenDifferences(lines, metric)}`,
    },
    ticks.map((tick) => [
      draw("line", { class: tick === 0 ? "zero" : "axis", x1: x(tick), x2: x(tick), y1: top, y2: height }),
      draw(
        "text",
        { x: x(tick), y: 12, "text-anchor": "middle" },
        tick === 0 ? "0" : `${tick > 0 ? "+" : ""}${minus(String(tick))}`,
      ),
    ]),
    lines.map(({ name, difference, from, to, significant, remark }, place) => {
      const kind = kindOf(difference, significant, metric);
      const y = top + place * line + line / 2;
      return draw(
        "g",
        {},
        draw(
          "title",
          {},
          `${name}: ${signed(difference, metric.digits)}`,
          ` (${fixed(from, metric.digits)} to ${fixed(to, metric.digits)})${remark}`,
        ),
        draw("text", { class: "name", x: 0, y: y + 4 }, name),
        draw("line", { class: `interval ${kind === "same" ? kind : `${kind}-mark`}`, x1: x(from), x2: x(to), y1: y, y2: y }),
        marker(kind, x(difference), y),
      );
    }),
  );
  return make(
    "div",
    { class: "panel" },
    make("h4", {}, title),
    make(
      "div",
      lines.length > 20
        ? { class: "tall", tabindex: 0, role: "region", "aria-label": `${title}, all lines` }
        : {},
      picture,
    ),
  );
}

/** A hollow dot if not significant, else a triangle: up is better, down is worse. */
function marker(kind, x, y) {
  if (kind === "same") return draw("circle", { class: "dot same", cx: x, cy: y, r: 4 });
  const way = kind === "better" ? -1 : 1;
  return draw("path", { class: `dot ${kind}-mark`, d: `M${x},${y + 5 * way}l5,${-9 * way}h-10z` });
}

/** Description for screen readers; long lists are cut, as a table follows. */
function spokenDifferences(lines, metric) {
  const told = lines
    .slice(0, 10)
    .map(({ name, difference, significant }) =>
      [name, signed(difference, metric.digits), significant && kindOf(difference, true, metric)]
        .filter(Boolean)
        .join(" "),
    );
  return told.join(", ") + (lines.length > told.length ? `, and ${lines.length - told.length} more` : "");
}

/** Round numbers between two limits. */
function niceTicks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; tick += 1) found.push(+(tick * step).toPrecision(6));
  return found;
}

const small = matchMedia("(max-width: 35rem)"); // text must not shrink with the figure

/** Scores of smaller against larger corpora; static temperatures are joined in the order of tau. */
function tradeOff(comparison, metric) {
  const key = state.metric;
  const points = comparison.rows
    .filter((row) => row.scores[key].low_resource && row.scores[key].high_resource)
    .map((row) => ({ row, high: row.scores[key].high_resource.mean, low: row.scores[key].low_resource.mean }));
  if (points.length < 2) return null;
  const [width, height, left, bottom, right] = small.matches ? [350, 320, 62, 44, 84] : [640, 400, 66, 44, 110];
  const scale = (values, from, to) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = (high - low || 1) * 0.12;
    return {
      ends: [low - margin, high + margin],
      at: (value) => from + ((value - low + margin) / (high - low + 2 * margin || 1)) * (to - from),
    };
  };
  const x = scale(
    points.map((point) => point.high),
    left,
    width - right,
  );
  const y = scale(
    points.map((point) => point.low),
    height - bottom,
    12,
  );
  const tau = (row) => (row.tau === "inf" ? Infinity : row.tau);
  const path = points.filter((point) => known(point.row.tau)).sort((a, b) => tau(a.row) - tau(b.row));
  const shown = (tick) => minus(String(tick));
  const picture = draw(
    "svg",
    {
      class: "picture",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${metric.label} of the smaller corpora against the larger ones; the table above has the numbers`,
    },
    niceTicks(...x.ends, 5).map((tick) => [
      draw("line", { class: "axis", x1: x.at(tick), x2: x.at(tick), y1: 12, y2: height - bottom }),
      draw("text", { x: x.at(tick), y: height - bottom + 16, "text-anchor": "middle" }, shown(tick)),
    ]),
    niceTicks(...y.ends, 5).map((tick) => [
      draw("line", { class: "axis", x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick) }),
      draw("text", { x: left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, shown(tick)),
    ]),
    draw(
      "text",
      { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" },
      `larger corpora, mean ${metric.label}`,
    ),
    draw(
      "text",
      {
        x: 14,
        y: (height - bottom) / 2,
        "text-anchor": "middle",
        transform: `rotate(-90 14 ${(height - bottom) / 2})`,
      },
      `smaller corpora, mean ${metric.label}`,
    ),
    path.length > 1 &&
      draw("polyline", {
        class: "path",
        points: path.map((point) => `${x.at(point.high)},${y.at(point.low)}`).join(" "),
      }),
    labelled(points.map((point) => ({ ...point, x: x.at(point.high), y: y.at(point.low) }))).map((point) => {
      const kind = point.row.name === comparison.reference ? "reference" : known(point.row.tau) ? "static" : "driven";
      return draw(
        "g",
        {},
        draw(
          "title",
          {},
          `${point.row.name}: larger ${fixed(point.high, metric.digits)}, smaller ${fixed(point.low, metric.digits)}`,
        ),
        draw("circle", { class: `dot ${kind}`, cx: point.x, cy: point.y, r: 5 }),
        draw("text", { class: "name", x: point.x + 10, y: point.label + 4 }, point.row.name),
      );
    }),
  );
  return make(
    "figure",
    { class: "trade" },
    make(
      "figcaption",
      {},
      make("h3", {}, "Smaller against larger corpora"),
      make(
        "p",
        {},
        `${metric.higher_is_better ? "Up and to the right" : "Down and to the left"} is better. ` +
          "Hollow, joined: static temperatures in order of τ. " +
          `Filled: the reference, ${comparison.reference}, and (blue) all other strategies.`,
      ),
    ),
    picture,
  );
}

/** Place labels to the right of their points, moved down where they would overlap. */
function labelled(points) {
  const placed = [];
  for (const point of [...points].sort((a, b) => a.y - b.y)) {
    let label = point.y;
    for (const other of placed) {
      const overlap = Math.abs(other.x - point.x) < 7 * Math.max(other.row.name.length, point.row.name.length) + 10;
      if (overlap && label < other.label + 14) label = other.label + 14;
    }
    placed.push({ ...point, label });
  }
  return placed;
}
