// The simplex of three directions: every point is a mixture, and a corner is one direction alone. It shows the
// mixtures of the run, the chi-square ball of radius ρ around the data, and the path of temperature sampling.

const TAUS = [1.5, 2, 3, 5, 100];
const RADII = { least: 0.01, most: 10, usual: 0.1 };
const LEAST_LOOK = 0.002; // smaller balls are not visible
const BEFORE = ["ArrowLeft", "ArrowDown"];
const AFTER = ["ArrowRight", "ArrowUp"];

/** Shares that sum to 1. */
function shared(values) {
  const sum = values.reduce((a, b) => a + b, 0);
  return values.map((value) => value / sum);
}

const tempered = (p, tau) => shared(p.map((share) => share ** (1 / tau)));

/** Chi-square divergence of q from p: the radius of the ball around p with q on its surface. */
const divergence = (p, q) => p.reduce((sum, share, place) => sum + (q[place] - share) ** 2 / share, 0) / 2;

/** Mixtures at divergence rho: p + √(2ρp) u for unit vectors u orthogonal to √p. They may lie outside the triangle. */
function outline(p, rho, points = 180) {
  const root = p.map(Math.sqrt);
  const length = Math.hypot(root[0], root[1]);
  const one = [root[1] / length, -root[0] / length, 0];
  const other = [0, 1, 2].map((i) => root[(i + 1) % 3] * one[(i + 2) % 3] - root[(i + 2) % 3] * one[(i + 1) % 3]);
  return Array.from({ length: points }, (_, step) => {
    const angle = (2 * Math.PI * step) / points;
    const way = p.map((_, i) => Math.cos(angle) * one[i] + Math.sin(angle) * other[i]);
    return p.map((share, i) => share + Math.sqrt(2 * rho) * root[i] * way[i]);
  });
}

const canTriangle = (run) => run.rows?.length > 2 && run.series?.mixture;

/** The corners: those chosen by the reader, or the largest, the median and the smallest corpus. */
function corners(run) {
  const names = namesOf(run);
  if (!state.corners?.every((name) => names.includes(name))) {
    state.corners = [names[0], names[names.length >> 1], names.at(-1)];
  }
  return state.corners;
}

/** The run's mixtures of these three directions, each with its first update. */
function course(run, names) {
  const { steps, values } = run.series.mixture;
  const found = steps.map((step, place) => ({ step, q: names.map((name) => values[name][place]) }));
  return found
    .filter(({ q }) => q.some((share) => share > 0))
    .map(({ step, q }) => ({ name: `From update ${whole(step)}`, q: shared(q) }))
    .filter((here, place, all) => !place || here.q.some((share, i) => share !== all[place - 1].q[i]));
}

function triangle(run) {
  const names = corners(run);
  const p = shared(names.map((name) => run.p[name]));
  const way = course(run, names);
  const farthest = Math.max(...way.map(({ q }) => divergence(p, q)));
  const usual = farthest > LEAST_LOOK ? farthest : RADII.usual;
  let rho = Math.min(Math.max(state.rho ?? usual, LEAST_LOOK), RADII.most);

  const read = make("p", { class: "small", id: "mixture-read", role: "status" });
  const radius = make("span", { id: "radius-read" });
  const holds = make("span", {}, ", here the smallest that contains all mixtures of this run");
  const { picture, ball, look } = trianglePicture(run, names, p, way, (name, q) => {
    const shares = names.map((each, place) => `${each} ${percent(q[place])}`).join(", ");
    const radius = +divergence(p, q).toPrecision(2);
    read.replaceChildren(...written(`${name}: ${shares}. On the ball of ρ = ${radius}.`));
  });
  const paint = () => {
    const least = p.indexOf(Math.min(...p));
    const times = Math.min(1 / p[least], 1 + Math.sqrt((2 * rho * (1 - p[least])) / p[least]));
    radius.textContent = `ρ = ${+rho.toPrecision(2)}: ${names[least]} up to ${fixed(times, 1)} ×`;
    holds.hidden = state.rho !== null || farthest <= LEAST_LOOK;
    ball(rho);
  };
  const slider = make("input", {
    type: "range",
    id: "radius",
    min: Math.log10(RADII.least),
    max: Math.log10(RADII.most),
    step: 0.01,
    value: Math.log10(rho),
    "aria-describedby": "radius-read",
    oninput: () => {
      rho = state.rho = 10 ** +slider.value;
      paint();
    },
  });
  const choosers = names.map((chosen, corner) => {
    const select = make(
      "select",
      {
        id: `corner-${corner}`,
        "aria-label": `${["Left", "Right", "Upper"][corner]} corner`,
        onchange: () => {
          const other = state.corners.indexOf(select.value);
          if (other >= 0) state.corners[other] = state.corners[corner]; // swap the two
          state.corners[corner] = select.value;
          state.rho = null;
          drawSections(true);
        },
      },
      namesOf(run).map((name) => make("option", { value: name, selected: name === chosen }, name)),
    );
    return select;
  });
  paint();
  look(Math.max(0, way.length - 1)); // if there are none: the data
  return [
    make(
      "p",
      { class: "lead" },
      "Every point is a mixture of three directions, normalised to sum to 1; a corner is one direction alone. ",
      toRead("mixtures"),
    ),
    make(
      "div",
      { class: "controls" },
      make("span", { class: "field" }, make("span", {}, "Corners"), choosers),
      make("label", { class: "field" }, make("span", {}, "Radius"), slider, radius),
    ),
    make(
      "figure",
      { class: "trade" },
      picture,
      read,
      make(
        "figcaption",
        {},
        make(
          "p",
          {},
          "Square: the data. Filled, joined: the mixtures of this run (largest dot: the last). ",
          "Hollow, dashed: temperature sampling, from the data to uniform (diamond). ",
          "Shaded: the chi-square ball of radius ρ around the data",
          holds,
          ".",
        ),
      ),
    ),
  ];
}

/** The figure; `ball` draws the ball of a radius, `look` selects a mixture, `tell` is called with the selected one. */
function trianglePicture(run, names, p, way, tell) {
  const [width, top, bottom] = small.matches ? [350, 34, 34] : [640, 30, 32];
  const side = width - 2 * (small.matches ? 24 : 60);
  const left = (width - side) / 2;
  const base = top + (side * Math.sqrt(3)) / 2;
  const spot = ([one, two, three]) => ({
    x: left + side * (two + three / 2) / (one + two + three),
    y: base - ((base - top) * three) / (one + two + three),
  });
  const points = (mixtures) => mixtures.map(spot).map(({ x, y }) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" ");
  const edges = points([
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ]);
  const taus = TAUS.map((tau) => ({ name: `τ = ${tau}`, q: tempered(p, tau) }));
  const even = { name: "Uniform", q: [1 / 3, 1 / 3, 1 / 3] };
  const data = { name: "Data", q: p };
  const marks = [...way, data, ...taus, even];
  const shade = draw("polygon", { class: "ball", "clip-path": "url(#triangle-edges)" });
  const ring = draw("circle", { class: "ring", r: 9 });

  const look = (place) => {
    picture.dataset.place = place;
    show(marks[place].name, marks[place].q);
  };
  const show = (name, q) => {
    ring.setAttribute("cx", spot(q).x);
    ring.setAttribute("cy", spot(q).y);
    tell(name, q);
  };
  const point = (event) => {
    const box = picture.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) * (width / box.width), (event.clientY - box.top) * (width / box.width)];
    const gaps = marks.map(({ q }) => Math.hypot(spot(q).x - x, spot(q).y - y));
    const near = gaps.indexOf(Math.min(...gaps));
    if (gaps[near] < 9) return look(near);
    const three = (base - y) / (base - top);
    const two = (x - left) / side - three / 2;
    const q = [1 - two - three, two, three];
    if (q.every((share) => share >= 0)) show("Here", q);
  };
  const step = (event) => {
    const by = AFTER.includes(event.key) ? 1 : BEFORE.includes(event.key) ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    look((+picture.dataset.place + by + marks.length) % marks.length);
  };
  const corner = (place, x, y, anchor) =>
    draw("text", { class: "name", x, y, "text-anchor": anchor }, `${names[place]} (${percent(p[place])})`);
  const labels = labelled([data, ...taus, even].map(({ name, q }) => ({ row: { name }, ...spot(q) })));
  const [x, y] = [spot(p).x, spot(p).y];
  const fine = Array.from({ length: 60 }, (_, i) => tempered(p, 1000 ** (i / 59)));
  const picture = draw(
    "svg",
    {
      class: "picture triangle",
      id: "triangle",
      viewBox: `0 0 ${width} ${base + bottom}`,
      role: "application",
      tabindex: 0,
      "aria-label": `Mixtures of ${names.join(", ")}; use the arrow keys to step through the mixtures of the run and of temperatures`,
      onpointermove: point,
      onpointerdown: point,
      onkeydown: step,
    },
    draw("defs", {}, draw("clipPath", { id: "triangle-edges" }, draw("polygon", { points: edges }))),
    draw("polygon", { class: "edges", points: edges }),
    shade,
    draw("polyline", { class: "path", points: points([...fine, even.q]) }),
    draw("polyline", { class: "course", points: points(way.map(({ q }) => q)) }),
    taus.map(({ q }) => draw("circle", { class: "dot static", cx: spot(q).x, cy: spot(q).y, r: 3.5 })),
    draw("path", { class: "dot same", d: `M${spot(even.q).x},${spot(even.q).y - 6}l6,6l-6,6l-6,-6z` }),
    draw("rect", { class: "dot reference", x: x - 4.5, y: y - 4.5, width: 9, height: 9 }),
    way.map(({ q }, place) =>
      draw("circle", { class: "dot driven", cx: spot(q).x, cy: spot(q).y, r: place === way.length - 1 ? 5 : 3 }),
    ),
    ring,
    labels.map(({ row, x, label }) => draw("text", { class: "name", x: x + 10, y: label + 4 }, row.name)),
    corner(0, small.matches ? 0 : left, base + 22, small.matches ? "start" : "middle"),
    corner(1, small.matches ? width : left + side, base + 22, small.matches ? "end" : "middle"),
    corner(2, width / 2, top - 12, "middle"),
  );
  const ball = (rho) => shade.setAttribute("points", points(outline(p, rho)));
  return { picture, ball, look };
}
