// Sparkline: a small line chart without axes.

import { svg } from "../lib/dom.js";
import { area, line } from "./chart-scale.js";

const WIDTH = 120;
const HEIGHT = 28;
//: Padding for the thickness of the line.
const PAD = 2;

//: Return {node, update(...series)}; a series is {tone, values}, values may be null.
//:
//: All series share one scale.  label becomes the text alternative, with the latest and
//: the highest value of each series.
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
    const position = (value, number, { length }) =>
      value === null
        ? null
        : {
            x: length > 1 ? (number / (length - 1)) * width : width / 2,
            y: height - PAD - (value / top) * (height - 2 * PAD),
          };
    node.setAttribute("aria-label", `${label}${description(series, format)}`);
    node.replaceChildren(
      ...series.flatMap(({ tone, values }, number) => {
        const points = values.map(position);
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

function description(series, format) {
  const parts = series.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) {
      return null;
    }
    const of = name ? `${name} ` : "";
    return `${of}latest ${format(known.at(-1))}, max ${format(Math.max(...known))}`;
  });
  const text = parts.filter(Boolean).join("; ");
  return text ? `: ${text}` : "";
}
