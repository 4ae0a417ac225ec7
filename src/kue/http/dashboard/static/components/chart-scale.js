// Chart scales: ticks at round values, and SVG paths through points.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

//: Tick steps of an axis of durations, in ms: whole units of time.
const DURATIONS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((number) => number * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((number) => number * MINUTE),
  ...[1, 2, 3, 6, 12].map((number) => number * HOUR),
  ...[1, 2, 7, 14, 30].map((number) => number * DAY),
];

//: Tick steps of a time axis, in ms.
const MOMENTS = [
  ...[1, 2, 5, 10, 15, 30].map((number) => number * MINUTE),
  ...[1, 2, 3, 6, 12].map((number) => number * HOUR),
  ...[1, 2, 7, 14, 30].map((number) => number * DAY),
];

//: Return ticks from 0 to the first that is not below max.
//:
//: unit "ms" uses whole units of time, "count" only whole numbers.
export function ticks(max, { unit = "number", count = 4 } = {}) {
  const rough = Math.max(max, Number.MIN_VALUE) / count;
  const step = max > 0 ? stepOf(rough, unit) : 1;
  const found = [];
  for (let number = 0; ; number += 1) {
    found.push(Number((number * step).toPrecision(12)));
    if (number > 0 && number * step >= max) {
      return found;
    }
  }
}

function stepOf(rough, unit) {
  if (unit === "ms") {
    const known = DURATIONS.find((step) => step >= rough);
    return known ?? Math.ceil(rough / DAY) * DAY;
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const wanted = (step ?? 10) * power;
  return unit === "count" ? Math.max(1, Math.ceil(wanted)) : wanted;
}

//: Return at most count times between two, at full minutes, hours or days, local time.
export function timeTicks(from, to, count = 6) {
  const rough = (to - from) / Math.max(1, count);
  const step = MOMENTS.find((one) => one >= rough) ?? Math.ceil(rough / DAY) * DAY;
  // Midnight in local time, not in UTC.
  const shift = new Date(to).getTimezoneOffset() * MINUTE;
  const found = [];
  let at = Math.ceil((from - shift) / step) * step + shift;
  for (; at <= to; at += step) {
    found.push(at);
  }
  return { step, moments: found };
}

const CLOCK = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const DATE = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const BOTH = new Intl.DateTimeFormat("en", {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

//: Return the label of a tick of timeTicks: the time, or the date at midnight.
export function timeLabel(at, step) {
  const date = new Date(at);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
  return step >= DAY || isMidnight ? DATE.format(date) : CLOCK.format(date);
}

//: Return the name of the step that begins at a time.
export function stepLabel(at, step) {
  return step >= DAY ? DATE.format(new Date(at)) : BOTH.format(new Date(at));
}

//: Return the path of a line through points; null leaves a gap.
export function line(points) {
  let path = "";
  let isDown = false;
  points.forEach((point, number) => {
    if (point === null) {
      isDown = false;
      return;
    }
    const isAlone = !isDown && (points[number + 1] ?? null) === null;
    const [x, y] = [round(point.x), round(point.y)];
    // A single point has no line; it is shown as a dash.
    path += isAlone ? `M${x - 2} ${y}h4` : `${isDown ? "L" : "M"}${x} ${y}`;
    isDown = !isAlone;
  });
  return path;
}

//: Return the path around the area between points and floor, a y or points.
export function area(points, floor) {
  const runs = [];
  points.forEach((point, number) => {
    if (point === null) {
      runs.push([]);
      return;
    }
    if (runs.length === 0) {
      runs.push([]);
    }
    const below = typeof floor === "number" ? floor : floor[number].y;
    runs.at(-1).push({ ...point, below });
  });
  return runs
    .filter((run) => run.length > 0)
    .map((run) => {
      const above = run.map(({ x, y }) => `${round(x)} ${round(y)}`);
      const below = run.map(({ x, below: y }) => `${round(x)} ${round(y)}`).reverse();
      return `M${above.concat(below).join("L")}Z`;
    })
    .join("");
}

//: Return the path of bars, each from its floor to its top.
export function bars(points, floors, width) {
  return points
    .map((point, number) => {
      const height = floors[number].y - point.y;
      if (height <= 0) {
        return "";
      }
      const [left, top] = [round(point.x - width / 2), round(point.y)];
      return `M${left} ${top}h${round(width)}v${round(height)}h${-round(width)}Z`;
    })
    .join("");
}

function round(number) {
  return Math.round(number * 10) / 10;
}
