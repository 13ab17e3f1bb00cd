"use strict";
// Small things that everything else uses. Text enters the page through textContent only.

const at = (id) => document.getElementById(id);

/** An element: attributes by name, `on...` are listeners; children are elements or text, null is left out. */
function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same inside a picture. */
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

const EN = "en-US"; // the language of the page, whatever that of the browser
const known = (value) => value !== null && value !== undefined;
const whole = (value) => (known(value) ? Math.round(value).toLocaleString(EN) : "–");
const minus = (text) => text.replace("-", "−");

function fixed(value, digits) {
  const style = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return known(value) ? minus(value.toLocaleString(EN, style)) : "–";
}

/** With a sign. */
const signed = (value, digits) => (known(value) ? (value > 0 ? "+" : "") + fixed(value, digits) : "–");

/** A share of 1, in percent; small ones get more digits. */
function percent(share) {
  if (!known(share)) return "–";
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.005) return "< 0.01 %";
  return `${fixed(value, value >= 10 ? 1 : 2)} %`;
}

/** A sentence in which names such as por-en stay on one line, and `commands` look like commands. */
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

/** A number that must be short: 1.2k, 30k, 4.5M. */
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

/** The colour that a CSS variable stands for now; canvases cannot read variables. */
function colour(variable) {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  probe.style.color = `var(${variable})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** What a reader has chosen; it outlives every refresh of the data. */
const state = {
  data: null,
  run: 0,
  slots: new Map(), // directions in the charts: their looks
  filter: "",
  metric: null,
  sample: null,
  corners: null, // of the triangle: three directions
  rho: null,
  sorts: new Map(),
};
const chosenRun = () => state.data.runs[state.run];

/** The metrics that some of these rows of scores have; runs scored by an older version lack newer metrics. */
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
    /* a file may have no storage */
  }
}

function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
