// The page: sections are redrawn only when their data have changed, so that a refresh does not disturb reading.

const SECTIONS = [
  { id: "summary", of: (run) => [run.name, run.state, run.summary, run.figures, run.message], content: hero },
  { id: "warnings", title: "Warnings", of: (run) => run.warnings, content: warningList },
  {
    id: "comparison",
    title: "Comparison",
    of: () => state.data.comparison,
    content: () => comparisonContent(state.data.comparison, () => drawSections(true)),
  },
  { id: "languages-table", title: "Data", of: (run) => run.rows && [run.rows, run.scores], content: dataTable },
  {
    id: "curves",
    title: "Curves",
    of: (run) => hasCurves(run) && [run.name, namesOf(run), Object.keys(run.series)],
    content: study,
  },
  {
    id: "mixtures",
    title: "Mixtures",
    of: (run) => canTriangle(run) && [run.name, run.p, run.series.mixture],
    content: triangle,
  },
  { id: "scores", title: "Scores", of: (run) => run.scores, content: scoreTable },
  { id: "samples", title: "Translations", of: (run) => run.samples, content: sampleCards },
  { id: "details", title: "Details", of: (run) => run.facts && [run.facts, run.config], content: details },
];

const drawn = new Map(); // section: its data, as JSON

/** Several runs are compared first of all. */
const inOrder = () =>
  state.data.comparison
    ? [...SECTIONS].sort((a, b) => (b.id === "comparison") - (a.id === "comparison"))
    : SECTIONS;

function drawSections(anew = false) {
  const run = chosenRun();
  const main = at("main");
  let before = null;
  for (const { id, title, of, content } of inOrder()) {
    const shows = of(run);
    const absent = !shows || (Array.isArray(shows) && !shows.length);
    const text = absent ? "" : JSON.stringify(shows);
    let section = at(id);
    if (absent) {
      if (id === "curves") forgetCharts();
      section?.remove();
      drawn.delete(id);
      continue;
    }
    if (!section) {
      section = make("section", { id, class: id === "summary" ? "hero" : null, tabindex: -1 });
      if (before) before.after(section);
      else main.prepend(section);
    }
    if (drawn.get(id) !== text || (anew && id !== "curves")) {
      const keep = memory(section);
      section.replaceChildren(
        ...[title && make("h2", { id: `${id}-title` }, title), ...content(run)].flat().filter(Boolean),
      );
      if (title) section.setAttribute("aria-labelledby", `${id}-title`);
      keep();
      drawn.set(id, text);
    }
    before = section;
  }
  const links = inOrder().filter(({ id, title }) => title && at(id)).map(({ id, title }) =>
    make("li", {}, make("a", { href: `#${id}` }, title)),
  );
  if (at("nav").querySelectorAll("li").length !== links.length) at("nav").replaceChildren(make("ul", {}, links));
  drawCharts();
}

/** Record open details, scroll positions and focus of a section; returns a function that restores them. */
function memory(section) {
  const open = [...section.querySelectorAll("details[open][id]")].map((each) => each.id);
  const boxes = [...section.querySelectorAll(".scroll[id]")].map((box) => [box.id, box.scrollLeft, box.scrollTop]);
  const focused = section.contains(document.activeElement) ? document.activeElement.id : "";
  return () => {
    for (const id of open) at(id)?.setAttribute("open", "");
    for (const [id, left, top] of boxes) at(id)?.scrollTo({ left, top, behavior: "instant" });
    if (focused) at(focused)?.focus({ preventScroll: true });
  };
}

function chooseRun(place) {
  state.run = place;
  const names = namesOf(chosenRun());
  const kept = names.filter(isVisible);
  showOnly(kept.length ? kept : firstChoice(names));
  drawSections();
}

function takeData(data) {
  const first = !state.data || !namesOf(chosenRun()).length;
  state.data = data;
  state.run = Math.min(state.run, data.runs.length - 1);
  if (first) showOnly(firstChoice(namesOf(chosenRun())));
  drawSections();
  at("footer").textContent =
    `Written by evenglot ${data.evenglot}, ${data.written.replace("T", " ").replace("+00:00", " UTC")}.`;
}

// Light and dark

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  at("theme").textContent = isDark() ? "Light" : "Dark";
  at("theme").setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
  if (state.data) drawCharts({ anew: true });
}

at("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  remember("evenglot-theme", theme);
  setTheme(theme);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(null));
small.addEventListener("change", () => drawSections(true));
matchMedia("print").addEventListener("change", () => drawCharts({ anew: true })); // print is always light

// Live: the server that delivered the page also serves its data.

const EVERY = 4000; // milliseconds
const AFTERWARDS = 30000; // after training has ended, as scores may follow
const PATIENCE = 3; // consecutive failures
const over = (data) => data.runs.every((run) => run.state === "done" || run.state === "stopped");

function say(text, on) {
  at("live").hidden = false;
  at("live").setAttribute("aria-live", on ? "off" : "polite"); // screen readers should not announce progress every few seconds
  if (at("live").textContent !== text) at("live").textContent = text;
  at("live").dataset.state = on ? "on" : "off";
}

/** Estimated from the mean speed so far. */
function secondsLeft({ state: phase, progress }) {
  if (phase !== "running" || !progress?.step || !progress.seconds) return 0;
  return (Math.max(0, progress.updates - progress.step) * progress.seconds) / progress.step;
}

async function follow() {
  let failures = 0,
    tag = "";
  while (failures < PATIENCE) {
    const ended = over(state.data);
    const steps = state.data.runs.map((run) =>
      run.progress ? `update ${whole(run.progress.step)} of ${whole(run.progress.updates)}` : run.state,
    );
    const left = Math.max(0, ...state.data.runs.map(secondsLeft));
    say(
      failures
        ? "The server does not respond; retrying."
        : ended
          ? "Training has ended."
          : `Live: ${steps.length > 1 ? `${steps.length} runs` : steps[0]}${left ? `, about ${duration(left)} left` : ""}`,
      !failures && !ended,
    );
    await new Promise((wake) => setTimeout(wake, ended && !failures ? AFTERWARDS : EVERY));
    try {
      const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(answer.status);
        const data = await answer.json();
        tag = answer.headers.get("ETag") ?? "";
        takeData(data);
      }
      failures = 0;
    } catch {
      failures += 1;
    }
  }
  say("The server has stopped; this page no longer refreshes. Reload it when the server is running again.", false);
}

setTheme(["light", "dark"].includes(recall("evenglot-theme")) ? recall("evenglot-theme") : null);
takeData(JSON.parse(at("data").textContent));
if (state.data.live) follow();
