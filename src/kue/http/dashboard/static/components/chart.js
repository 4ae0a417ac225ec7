// Chart over time: lines, areas and stacked bars on one scale.
//
// It can be read by pointer, by keyboard (arrows, Home, End) and as a table.

import { fill, h, svg } from "../lib/dom.js";
import { area, bars, line, stepLabel, ticks, timeLabel, timeTicks } from "./chart-scale.js";

//: Pixels around the plot; the width of the labels on the left is added.
const EDGE = { top: 10, right: 12, bottom: 24, left: 16 };
//: Width of a letter of a label, in pixels.
const LETTER = 6.4;
//: Width of a label below the plot, in pixels.
const LABEL = 60;
//: Bars thinner than this blur; an area of the same shape is drawn instead.
const THINNEST = 3;
//: Steps that Page Up and Page Down move.
const STRIDE = 10;
const HOUR = 3_600_000;

//: Return {node, update(data), point(index), onPoint, destroy()}.
//:
//: data is {times, step, isOpen, series}: when each step begins (Unix ms), how long it
//: is, whether the last is in progress, and series of {name, tone, kind, values}, with as
//: many values as times; null is a gap.  kind is "line", "area" or "bars"; bars are
//: stacked in the order given.  tone names a colour of the style sheet.  unit is "count",
//: "number" or "ms", and selects the ticks.
export function chart({ title, unit = "count", format = String, height = 220 }) {
  const hidden = new Set();
  let data = { times: [], step: 60_000, series: [] };
  let pointed = null;
  let width = 0;
  let plot = null;

  const picture = svg("svg", { class: "chart-picture", "aria-hidden": "true" });
  const tip = h("div", { class: "chart-tip", hidden: true, "aria-hidden": "true" });
  const surface = h(
    "div",
    {
      class: "chart-surface",
      tabindex: 0,
      role: "slider",
      "aria-label": `${title}, step by step`,
      "aria-valuemin": 0,
      "aria-valuemax": 0,
      "aria-valuenow": 0,
      onpointermove: (event) => choose(indexAt(event)),
      onpointerdown: (event) => choose(indexAt(event)),
      onpointerleave: () => choose(null),
      onblur: () => choose(null),
      onkeydown: onKeydown,
    },
    picture,
    tip,
  );
  const legend = h("div", { class: "chart-legend" });
  const table = h("div", { class: "chart-table-scroll" });
  const details = h(
    "details",
    { class: "chart-table", ontoggle: fillTable },
    h("summary", {}, "As a table"),
    table,
  );
  const node = h("figure", { class: "chart" }, legend, surface, details);
  node.setAttribute("aria-label", title);
  const self = { node, update, point, onPoint: null, destroy };

  const observer = new ResizeObserver(([entry]) => {
    const newWidth = Math.floor(entry.contentRect.width);
    if (newWidth !== width) {
      width = newWidth;
      draw();
    }
  });
  observer.observe(surface);

  function update(next) {
    data = next;
    if (pointed !== null && pointed >= data.times.length) {
      pointed = null;
    }
    fillLegend();
    draw();
    fillTable();
  }

  function destroy() {
    observer.disconnect();
  }

  function shown() {
    return data.series.filter(({ name }) => !hidden.has(name));
  }

  function draw() {
    if (width > 0) {
      plot = layout(data, shown(), { width, height, unit, format });
      picture.setAttribute("width", width);
      picture.setAttribute("height", height);
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      fill(picture, axes(plot, data, format), plot.marks, emptyNote(plot, height));
    }
    point(pointed);
  }

  // -- one step ---------------------------------------------------------------

  function choose(index) {
    if (index !== pointed) {
      point(index);
      self.onPoint?.(index);
    }
  }

  //: Show the values of one step; null shows none.
  function point(index) {
    pointed = index !== null && index < data.times.length ? index : null;
    picture.querySelector(".chart-cross")?.remove();
    tip.hidden = pointed === null;
    describe();
    if (pointed === null || plot === null) {
      return;
    }
    picture.append(cross(plot, pointed));
    fill(
      tip,
      h("strong", {}, stepName(pointed)),
      shown().map(({ name, tone, values }) =>
        h(
          "div",
          { class: "chart-tip-row" },
          h("span", { class: `swatch tone-${tone}` }),
          h("span", {}, name),
          h("span", { class: "chart-tip-value" }, formatted(values[pointed])),
        ),
      ),
    );
    const { x } = plot.places[pointed];
    const isRight = x > width / 2;
    tip.style.left = isRight ? "" : `${x + 12}px`;
    tip.style.right = isRight ? `${width - x + 12}px` : "";
  }

  function describe() {
    const last = Math.max(0, data.times.length - 1);
    const index = pointed ?? last;
    surface.setAttribute("aria-valuemax", last);
    surface.setAttribute("aria-valuenow", index);
    const values = shown().map(({ name, values: of }) => `${name} ${formatted(of[index])}`);
    surface.setAttribute(
      "aria-valuetext",
      data.times.length
        ? [stepName(index), ...values].join(", ")
        : "no data",
    );
  }

  function stepName(index) {
    const isNow = data.isOpen && index === data.times.length - 1;
    return `${stepLabel(data.times[index], data.step)}${isNow ? ", so far" : ""}`;
  }

  function formatted(value) {
    return value === null || value === undefined ? "none" : format(value);
  }

  function indexAt(event) {
    if (plot === null || data.times.length === 0) {
      return null;
    }
    const { left } = surface.getBoundingClientRect();
    const index = Math.floor((event.clientX - left - plot.left) / plot.band);
    return Math.min(data.times.length - 1, Math.max(0, index));
  }

  function onKeydown(event) {
    const last = data.times.length - 1;
    const from = pointed ?? last;
    const to = {
      ArrowLeft: pointed === null ? last : from - 1,
      ArrowDown: pointed === null ? last : from - 1,
      ArrowRight: pointed === null ? last : from + 1,
      ArrowUp: pointed === null ? last : from + 1,
      PageDown: from - STRIDE,
      PageUp: from + STRIDE,
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape" && pointed !== null) {
      choose(null);
    } else if (to !== undefined && last >= 0) {
      choose(Math.min(last, Math.max(0, to)));
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // -- legend and table -------------------------------------------------------

  function fillLegend() {
    // Kept while the names are the same: a replaced button loses the focus.
    const key = JSON.stringify(data.series.map(({ name, tone }) => [name, tone]));
    if (legend.dataset.key === key) {
      return;
    }
    legend.dataset.key = key;
    fill(
      legend,
      data.series.map(({ name, tone, kind }) =>
        h(
          "button",
          {
            type: "button",
            class: "chart-key",
            title: `Show or hide ${name}`,
            "aria-pressed": String(!hidden.has(name)),
            onclick: (event) => toggle(name, event.currentTarget),
          },
          h("span", { class: `swatch swatch-${kind ?? "line"} tone-${tone}` }),
          name,
        ),
      ),
    );
  }

  function toggle(name, button) {
    if (!hidden.delete(name)) {
      hidden.add(name);
    }
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    draw();
  }

  function fillTable() {
    if (!details.open) {
      return;
    }
    const rows = data.times.map((_, index) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, stepName(index)),
        data.series.map(({ values }) => h("td", {}, formatted(values[index]))),
      ),
    );
    fill(
      table,
      h(
        "table",
        {},
        h("caption", { class: "offscreen" }, title),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Time"),
            data.series.map(({ name }) => h("th", { scope: "col" }, name)),
          ),
        ),
        // Newest first.
        h("tbody", {}, rows.reverse()),
      ),
    );
    table.tabIndex = 0;
    table.setAttribute("role", "region");
    table.setAttribute("aria-label", `${title} as a table`);
  }

  return self;
}

//: Make several charts over the same times show the same step.
export function inStep(...charts) {
  for (const one of charts) {
    one.onPoint = (index) => {
      charts.filter((other) => other !== one).forEach((other) => other.point(index));
    };
  }
}

// -- drawing --------------------------------------------------------------------

//: Return the layout: scales, the positions of all steps, and the drawn shapes.
function layout(data, series, { width, height, unit, format }) {
  const { times, step, isOpen } = data;
  const stacked = series.filter(({ kind }) => kind === "bars");
  const drawn = series.filter(({ kind }) => kind !== "bars");
  const max = highest(times, stacked, drawn);
  const steps = ticks(max, { unit });
  const longest = Math.max(...steps.map((value) => format(value).length));
  const left = EDGE.left + longest * LETTER;
  const inner = Math.max(1, width - left - EDGE.right);
  const floor = height - EDGE.bottom;
  const band = inner / Math.max(1, times.length);
  const yOf = (value) => floor - (value / steps.at(-1)) * (floor - EDGE.top);
  const places = times.map((_, index) => ({ x: left + (index + 0.5) * band, y: floor }));
  // A short step that has just begun would look like a drop.
  const isShort = isOpen && unit === "count" && step < HOUR;
  const plot = { band, floor, inner, isEmpty: max === 0, isShort, left, places, steps, yOf };
  const parts = [...stack(stacked, plot), ...drawn.map((one) => stroke(one, plot))];
  return { ...plot, marks: parts.map(({ marks }) => marks), tops: parts };
}

function highest(times, stacked, drawn) {
  const sums = times.map((_, index) =>
    stacked.reduce((sum, { values }) => sum + (values[index] ?? 0), 0),
  );
  const known = drawn.flatMap(({ values }) => values);
  // Not Math.max(...all): there may be more values than a call takes arguments.
  return [...sums, ...known].reduce((most, one) => Math.max(most, one ?? 0), 0);
}

//: Stacked bars.
function stack(series, { places, floor, band, yOf }) {
  let floors = places;
  return series.map(({ tone, values }) => {
    const points = floors.map(({ x, y }, index) => ({
      x,
      y: y - (floor - yOf(values[index] ?? 0)),
    }));
    const d = band < THINNEST ? area(points, floors) : bars(points, floors, band * 0.72);
    floors = points;
    return { tone, points, marks: [svg("path", { class: `chart-bars tone-${tone}`, d })] };
  });
}

//: A line, with a filled area below it if the kind is "area".
function stroke({ tone, kind, values }, { places, floor, isShort, yOf }) {
  const end = isShort ? places.length - 1 : places.length;
  const points = places.map(({ x }, index) => {
    const value = index < end ? (values[index] ?? null) : null;
    return value === null ? null : { x, y: yOf(value) };
  });
  const below =
    kind === "area" &&
    svg("path", { class: `chart-area tone-${tone}`, d: area(points, floor) });
  const along = svg("path", { class: `chart-line tone-${tone}`, d: line(points) });
  return { tone, points, marks: [below, along] };
}

function axes(plot, { times, step }, format) {
  const right = plot.left + plot.inner;
  const levels = plot.steps.map((value) => {
    const y = plot.yOf(value);
    return [
      svg("line", { class: "chart-grid", x1: plot.left, x2: right, y1: y, y2: y }),
      svg(
        "text",
        { class: "chart-label", x: plot.left - 8, y: y + 4, "text-anchor": "end" },
        format(value),
      ),
    ];
  });
  if (times.length === 0) {
    return levels.flat();
  }
  const from = times[0];
  const to = times.at(-1);
  const count = Math.max(1, Math.floor(plot.inner / LABEL));
  const wanted = timeTicks(from, to, count);
  const moments = wanted.moments.map((at) => {
    const x = plot.left + ((at - from) / step + 0.5) * plot.band;
    return svg(
      "text",
      { class: "chart-label", x, y: plot.floor + 17, "text-anchor": "middle" },
      timeLabel(at, wanted.step),
    );
  });
  return [...levels.flat(), ...moments];
}

function cross(plot, index) {
  const { x } = plot.places[index];
  const dots = plot.tops
    .filter(({ points }) => points[index])
    .map(({ tone, points }) =>
      svg("circle", {
        class: `chart-dot tone-${tone}`,
        cx: x,
        cy: points[index].y,
        r: 3.5,
      }),
    );
  const rule = svg("line", {
    class: "chart-rule",
    x1: x,
    x2: x,
    y1: EDGE.top,
    y2: plot.floor,
  });
  return svg("g", { class: "chart-cross" }, rule, dots);
}

function emptyNote(plot, height) {
  return plot.isEmpty
    ? svg(
        "text",
        {
          class: "chart-nothing",
          x: plot.left + plot.inner / 2,
          y: (height - EDGE.bottom + EDGE.top) / 2,
          "text-anchor": "middle",
        },
        "No data in this period",
      )
    : null;
}
