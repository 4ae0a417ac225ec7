// A line as small as a word: how something went, without axes.

import { svg } from "../lib/dom.js";
import { area, line } from "./chart-scale.js";

const WIDTH = 120;
const HEIGHT = 28;
//: Room for the thickness of the line.
const PAD = 2;

//: Return {node, update(...series)}; a series is {tone, values}, values may be null.
//:
//: All series share one scale.  label says what is shown; it becomes the text
//: alternative, with the last and the highest value of each series.
export function sparkline({ label, format = String, width = WIDTH, height = HEIGHT } = {}) {
  const node = svg("svg", {
    class: "spark",
    role: "img",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    "aria-label": label,
  });

  function update(...series) {
    const known = series.flatMap(({ values }) => values.filter((one) => one !== null));
    const top = Math.max(...known, 0) || 1;
    const place = (value, number, { length }) =>
      value === null
        ? null
        : {
            x: length > 1 ? (number / (length - 1)) * width : width / 2,
            y: height - PAD - (value / top) * (height - 2 * PAD),
          };
    node.setAttribute("aria-label", `${label}${told(series, format)}`);
    node.replaceChildren(
      ...series.flatMap(({ tone, values }, number) => {
        const points = values.map(place);
        const tint = svg("path", {
          class: `spark-area tone-${tone}`,
          d: area(points, height - PAD),
        });
        const d = line(points);
        const stroke = svg("path", { class: `spark-line tone-${tone}`, d });
        return number === 0 ? [tint, stroke] : [stroke];
      }),
    );
  }

  return { node, update };
}

function told(series, format) {
  const parts = series.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) {
      return null;
    }
    const of = name ? `${name} ` : "";
    return `${of}last ${format(known.at(-1))}, at most ${format(Math.max(...known))}`;
  });
  const said = parts.filter(Boolean).join("; ");
  return said ? `: ${said}` : "";
}
