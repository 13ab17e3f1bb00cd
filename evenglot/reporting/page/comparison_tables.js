// Tables of directions by strategies, with the best two of each direction marked.

const MOST_ACROSS = 10; // with more directions than this, directions are rows

/** Scores in the chosen metric. */
function scoresByLanguage(comparison, metric) {
  const found = comparison.rows.map((row) => row.scores[state.metric]);
  const spread = found.some((each) => known(each.mean.sd)) ? ", ± standard deviation over seeds" : "";
  return languageTable(comparison, {
    id: "scores-by-language",
    title: `${metric.label} by direction`,
    note: `On the ${comparison.split} set${spread}. `,
    higher: metric.higher_is_better,
    cell: (number, place) => found[number].directions[place],
    mean: (number) => [found[number].mean.mean, found[number].mean.sd],
    digits: metric.digits,
  });
}

/** Validation losses, which the worst direction is chosen by; null if there are none. */
function validationByLanguage(comparison) {
  const losses = comparison.rows.map((row) => row.validation);
  if (!losses.flat().some(known)) return null;
  const mean = (values) => (values.every(known) ? values.reduce((a, b) => a + b) / values.length : null);
  return make(
    "details",
    { id: "validation-details" },
    make("summary", {}, "Validation loss by direction"),
    languageTable(comparison, {
      id: "validation-by-language",
      title: "Validation loss per character",
      note: "Best checkpoint, with label smoothing as in training; lower is better. ",
      higher: false,
      cell: (number, place) => [losses[number][place], null],
      mean: (number) => [mean(losses[number]), null],
      digits: 4,
    }),
  );
}

/** `cell` and `mean` return [value, standard deviation] of a strategy, given its index. */
function languageTable(comparison, { id, title, note, higher, cell, mean, digits }) {
  const names = comparison.directions.map((direction) => direction.name);
  const columns = [...names, "Mean"];
  const of = (number, place) => (place < names.length ? cell(number, place) : mean(number));
  const marks = columns.map((_, place) =>
    ranks(
      comparison.rows.map((_, number) => of(number, place)[0]),
      higher,
    ),
  );
  const shown = (number, place) => {
    const [value, sd] = of(number, place);
    const mark = marks[place][number];
    return [
      make(mark === 0 ? "strong" : "span", { class: { 0: "best", 1: "second" }[mark] }, fixed(value, digits)),
      known(sd) && make("span", { class: "sub" }, `± ${fixed(sd, digits)}`),
    ];
  };
  const strategy = (number) => comparison.rows[number].name;
  const numbers = comparison.rows.map((_, number) => number);
  const across = names.length <= MOST_ACROSS;
  const table = across
    ? sortableTable({
        id,
        columns: [
          { key: "name", label: "Strategy", value: strategy, show: strategy },
          ...columns.map((label, place) => ({
            key: `of${place}`,
            label,
            title: place < names.length ? about(comparison.directions[place]) : "of all directions",
            value: (number) => of(number, place)[0],
            show: (number) => shown(number, place),
          })),
        ],
        rows: numbers,
        caption: title,
      })
    : sortableTable({
        id,
        columns: [
          { key: "name", label: "Direction", value: (place) => names[place], show: (place) => names[place] },
          {
            key: "pairs",
            label: "Pairs",
            value: (place) => comparison.directions[place].pairs,
            show: (place) => whole(comparison.directions[place].pairs),
          },
          ...numbers.map((number) => ({
            key: `of${number}`,
            label: strategy(number),
            value: (place) => of(number, place)[0],
            show: (place) => shown(number, place),
          })),
        ],
        rows: names.map((_, place) => place),
        foot: ["Mean", "", ...numbers.map((number) => shown(number, names.length))],
        tall: true,
        caption: title,
      });
  const marked = numbers.length > 2 ? "Bold: best; underlined: second best." : "Bold: better.";
  return make("div", { class: "by-language" }, table, make("p", { class: "note" }, note, marked));
}

/** Ranks: 0 for the best, 1 for the second best if there are more than two; equal values share a rank. */
function ranks(values, higher) {
  const order = [...new Set(values.filter(known))].sort((a, b) => (higher ? b - a : a - b));
  const count = values.filter(known).length;
  const marked = order.slice(0, count < 2 ? 0 : count < 3 ? 1 : 2);
  return values.map((value) => marked.indexOf(value));
}
