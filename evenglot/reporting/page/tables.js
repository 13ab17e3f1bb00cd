// Tables sortable by any column.
// A column: {key, label, title?, value(row), show(row)}; unknown values always come last.

function sortedRows(rows, columns, order) {
  if (!order) return rows;
  const { value } = columns.find((column) => column.key === order.key) ?? columns[0];
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, EN) : a - b);
  return [...rows].sort((first, second) => {
    const [a, b] = [value(first), value(second)];
    if (!known(a) || !known(b)) return known(b) - known(a);
    return order.up ? compare(a, b) : compare(b, a);
  });
}

function sortableTable({ id, caption, columns, rows, foot = null, tall = false }) {
  const body = make("tbody");
  const headings = columns.map((column) => {
    const button = make(
      "button",
      { type: "button", id: `${id}-by-${column.key}`, title: column.title },
      column.label,
    );
    const heading = make("th", { scope: "col" }, button);
    button.addEventListener("click", () => {
      const before = state.sorts.get(id);
      const up = before?.key === column.key ? !before.up : typeof column.value(rows[0]) === "string";
      state.sorts.set(id, { key: column.key, up });
      order();
    });
    return heading;
  });

  function order() {
    const by = state.sorts.get(id);
    columns.forEach((column, place) => {
      if (by?.key === column.key) headings[place].setAttribute("aria-sort", by.up ? "ascending" : "descending");
      else headings[place].removeAttribute("aria-sort");
    });
    body.replaceChildren(
      ...sortedRows(rows, columns, by).map((row) =>
        make(
          "tr",
          {},
          ...columns.map((column, place) =>
            make(place ? "td" : "th", { scope: place ? null : "row" }, column.show(row)),
          ),
        ),
      ),
    );
  }

  order();
  const footer =
    foot &&
    make(
      "tfoot",
      {},
      make("tr", {}, ...foot.map((cell, place) => make(place ? "td" : "th", { scope: place ? null : "row" }, cell))),
    );
  const made = make(
    "table",
    { id },
    caption && make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headings)),
    body,
    footer,
  );
  return scrolling(made, caption ?? "Table", tall);
}

/** A scrollable box for a table, focusable with the keyboard. */
function scrolling(content, label, tall = false) {
  const box = make(
    "div",
    {
      class: tall ? "scroll tall" : "scroll",
      tabindex: 0,
      role: "region",
      "aria-label": label,
      id: content.id ? `${content.id}-box` : null,
    },
    content,
  );
  const cue = () => {
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.classList.toggle("more-below", box.scrollTop + box.clientHeight < box.scrollHeight - 1);
  };
  box.addEventListener("scroll", cue, { passive: true });
  const watcher = new ResizeObserver(cue);
  watcher.observe(box);
  watcher.observe(content);
  return box;
}
