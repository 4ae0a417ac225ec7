// How one queue went.

import { chart, inStep } from "../../components/chart.js";
import { panel } from "../../components/panel.js";
import { duration, short } from "../../lib/format.js";

const PLOTS = [
  { name: "flow", title: "Throughput", unit: "count", format: short },
  { name: "wait", title: "Wait time", unit: "ms", format: duration },
  { name: "run", title: "Run time", unit: "ms", format: duration },
];

//: Return {nodes, update(data), destroy()}; data is that of metrics/plots.js.
export function charts() {
  const plots = PLOTS.map(({ name, title, unit, format }) => {
    const made = chart({ title, unit, format, height: 190 });
    return { name, made, node: panel(title, {}, made.node) };
  });
  inStep(...plots.map(({ made }) => made));

  function update(data) {
    for (const { name, made } of plots) made.update(data[name]);
  }

  function destroy() {
    plots.forEach(({ made }) => made.destroy());
  }

  return { nodes: plots.map(({ node }) => node), update, destroy };
}
