"use strict";
// Helpers shared by all scripts. Text is inserted through textContent only.

const at = (id) => document.getElementById(id);

/** Create an element. Attributes `on...` are event listeners; children are elements or text, null is skipped. */
function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Create an SVG element. */
function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const EN = "en-US"; // language of the page, independent of the browser's
const known = (value) => value !== null && value !== undefined;
const whole = (value) => (known(value) ? Math.round(value).toLocaleString(EN) : "–");
const minus = (text) => text.replace("-", "−");

function fixed(value, digits) {
  const style = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return known(value) ? minus(value.toLocaleString(EN, style)) : "–";
}

/** A number with its sign. */
const signed = (value, digits) => (known(value) ? (value > 0 ? "+" : "") + fixed(value, digits) : "–");

/** A share between 0 and 1 in percent; small ones get more digits. */
function percent(share) {
  if (!known(share)) return "–";
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.005) return "< 0.01 %";
  return `${fixed(value, value >= 10 ? 1 : 2)} %`;
}

/** A sentence as nodes: names such as por-en do not wrap, and text in backticks becomes code. */
function written(sentence) {
  return sentence
    .split(/(`[^`]+`|\w+-[\w-]+)/)
    .map((part, place) =>
      place % 2 === 0
        ? part
        : part.startsWith("`")
          ? make("code", {}, part.slice(1, -1))
          : make("span", { class: "whole-word" }, part),
    );
}

/** A number in short form: 1.2k, 30k, 4.5M. */
function short(value) {
  for (const [size, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)}${letter}`;
  }
  return `${+value.toPrecision(3)}`;
}

function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${fixed(minutes / 1440, 1)} days`;
}

/** Current value of a CSS colour variable, for canvases, which cannot use variables. */
function colour(variable) {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  probe.style.color = `var(${variable})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** The English name of a language, or "" if the browser knows none. */
function languageName(code) {
  try {
    const name = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" }).of(code.replaceAll("_", "-"));
    return name && name.toLowerCase() !== code.toLowerCase() ? name : "";
  } catch {
    return ""; // not a code at all
  }
}

/** "Portuguese → English" for por-en; codes where there is no name, and "" if there is none on either side. */
function directionName(direction) {
  const codes = direction.split("-");
  const names = codes.map(languageName);
  return codes.length === 2 && names.some(Boolean) ? codes.map((code, place) => names[place] || code).join(" → ") : "";
}

/** "Portuguese → English, 4,158 pairs": what is told of a direction whose code is shown. */
const about = ({ name, pairs }) =>
  [directionName(name), `${whole(pairs)} ${pairs === 1 ? "pair" : "pairs"}`].filter(Boolean).join(", ");

/** A direction with the names of its languages below. */
function namedDirection(direction) {
  const name = directionName(direction);
  return [direction, name && make("span", { class: "sub" }, name)].filter(Boolean);
}

const hovers = matchMedia("(hover: hover)");
const toRead = (what) =>
  hovers.matches ? `Hover, or use the arrow keys, to read ${what}.` : `Touch a place to read ${what}.`;

/** The reader's choices; kept when the data are refreshed. */
const state = {
  data: null,
  run: 0,
  overlay: "", // direction whose curves in all runs are drawn over one another
  slots: new Map(), // visible direction: number of its line style
  filter: "",
  metric: null,
  sample: null,
  corners: null, // of the triangle: three directions
  rho: null,
  sorts: new Map(),
};
const chosenRun = () => state.data.runs[state.run];

/** Metrics that occur in these rows of scores; runs scored by an older version lack newer metrics. */
const metricsOf = (rows) => state.data.metrics.filter((metric) => rows.some((row) => known(row?.[metric.scores_key])));
const metricBy = (key) => state.data.metrics.find((metric) => metric.key === key);

function isDark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    /* local files may have no storage */
  }
}

function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
