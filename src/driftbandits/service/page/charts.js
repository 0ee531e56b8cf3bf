// A chart over time: axes, layers, marks, and a readout for pointer, keys and screen readers.

import { element, shape } from "./dom.js";
import { dayMinute, hourMinute, plain } from "./numbers.js";

const HEIGHT = 190;
const [TOP, RIGHT, BOTTOM] = [10, 10, 24];
const MINUTE = 60000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720].map((minutes) => minutes * MINUTE);

/** Round numbers from low to high, about as many as asked for. */
export function ticks(low, high, about = 5) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function timeTicks(from, to, most) {
  const step = STEPS.find((size) => (to - from) / size <= most) ?? STEPS.at(-1);
  const zone = new Date(to).getTimezoneOffset() * MINUTE; // ticks fall on local hours
  const marks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) marks.push(at);
  return marks;
}

/** Runs of neighbouring points: a line does not cross a gap. */
function runs(points) {
  const found = [];
  for (const point of points) {
    if (found.length === 0 || point.apart) found.push([]);
    found.at(-1).push(point);
  }
  return found;
}

const joined = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;

/*
 * What a chart is given to draw:
 *   from, to       times in ms           low, high   the vertical range
 *   layers         [{ kind: "bars" | "line" | "stack" | "shade", tone,
 *                     points: [{ at, until?, value?, low?, high?, share?, apart? }] }]
 *   marks          [{ at, kind, label }] moments that matter
 *   legend         [{ tone, label }]
 *   columns, rows  names, and [{ at, cells }]: the same numbers in words
 *   label          what the picture shows, in a sentence
 */
export class TimeChart {
  #spec = null;
  #row = -1; // of the readout; -1: the last one
  #plot = element("div", { class: "plot" });
  #legend = element("ul", { class: "legend" });
  #readout = element("p", { class: "readout" });
  #table = element("details", { class: "numbers", ontoggle: () => this.#tabulate() });
  #body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers" });

  constructor(box) {
    this.#table.append(element("summary", {}, "As a table"), this.#body);
    box.append(this.#legend, this.#plot, this.#readout, this.#table);
    new ResizeObserver(() => this.#paint()).observe(this.#plot);
  }

  draw(spec) {
    this.#spec = spec;
    const chips = spec.legend.map(({ tone, label }) =>
      element("li", {}, element("span", { class: `chip ${tone}` }), label));
    this.#legend.replaceChildren(...chips);
    this.#paint();
    this.#tabulate();
  }

  #paint() {
    const spec = this.#spec;
    const width = this.#plot.clientWidth;
    if (spec === null || width === 0) return;
    const values = ticks(spec.low, spec.high);
    const left = 14 + 7 * Math.max(...values.map((value) => plain(value).length));
    const x = (at) => left + ((at - spec.from) / (spec.to - spec.from)) * (width - left - RIGHT);
    const y = (value) =>
      TOP + ((spec.high - value) / (spec.high - spec.low)) * (HEIGHT - TOP - BOTTOM);
    const focused = this.#plot.contains(document.activeElement);
    const picture = shape("svg", {
      width, height: HEIGHT, role: "img", tabindex: "0", "aria-label": spec.label,
      onpointermove: (event) => this.#point(event.offsetX, x),
      onpointerleave: () => this.#show(-1, x),
      onkeydown: (event) => this.#step(event, x),
    });
    picture.append(
      ...values.map((value) => this.#rule(value, { left, width, y: y(value) })),
      ...this.#hours({ left, width, x }),
      ...spec.marks.filter(({ at }) => at >= spec.from && at <= spec.to).map((mark) =>
        shape("g", { class: `moment ${mark.kind}` },
          shape("line", { x1: x(mark.at), x2: x(mark.at), y1: TOP, y2: HEIGHT - BOTTOM }),
          shape("title", {}, mark.label))),
      ...spec.layers.flatMap((layer) => LAYERS[layer.kind](layer, x, y)),
      shape("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" }),
    );
    this.#plot.replaceChildren(picture);
    if (focused) picture.focus({ preventScroll: true });
    this.#show(this.#row, x);
  }

  #rule(value, { left, width, y }) {
    return shape("g", { class: "rule" },
      shape("line", { x1: left, x2: width - RIGHT, y1: y, y2: y }),
      shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, plain(value)));
  }

  #hours({ left, width, x }) {
    const most = Math.max(2, Math.floor((width - left) / 58));
    return timeTicks(this.#spec.from, this.#spec.to, most)
      .filter((at) => x(at) > left + 14 && x(at) < width - RIGHT - 12)
      .map((at) => shape("g", { class: "hour" },
        shape("line", { x1: x(at), x2: x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
        shape("text", { x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, hourMinute(at))));
  }

  #point(offset, x) {
    const distances = this.#spec.rows.map(({ at }) => Math.abs(x(at) - offset));
    this.#show(distances.indexOf(Math.min(...distances)), x);
  }

  #step(event, x) {
    const last = this.#spec.rows.length - 1;
    const now = this.#row === -1 ? last : this.#row;
    const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last, Escape: -1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.#show(Math.max(event.key === "Escape" ? -1 : 0, Math.min(last, moves[event.key])), x);
  }

  #show(index, x) {
    const { rows, columns } = this.#spec;
    this.#row = index < rows.length ? index : -1;
    const row = rows.at(this.#row);
    const cursor = this.#plot.querySelector(".cursor");
    if (row === undefined) {
      this.#readout.textContent = "Nothing in this time.";
      return;
    }
    const when = this.#row === -1 ? "Latest" : dayMinute(row.at);
    const told = row.cells.map((cell, i) => `${columns[i]} ${cell}`).join(", ");
    this.#readout.textContent = `${when}: ${told}`;
    cursor.setAttribute("visibility", this.#row === -1 ? "hidden" : "visible");
    cursor.setAttribute("x1", x(row.at));
    cursor.setAttribute("x2", x(row.at));
  }

  #tabulate() {
    if (!this.#table.open || this.#spec === null) return;
    const { rows, columns } = this.#spec;
    const head = ["Time", ...columns].map((name) => element("th", { scope: "col" }, name));
    const lines = rows.toReversed().map(({ at, cells }) => element("tr", {},
      element("th", { scope: "row" }, dayMinute(at)),
      ...cells.map((cell) => element("td", {}, cell))));
    this.#body.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)));
  }
}

const LAYERS = {
  stack: ({ tone, points }, x, y) => points.filter(({ low, high }) => high > low).map(({ at, until, low, high }) =>
    shape("rect", {
      class: `stack ${tone}`, x: x(at), width: Math.max(1, x(until) - x(at) - 0.5), y: y(high), height: y(low) - y(high),
    })),
  shade: ({ tone, points }, x) => points.map(({ at, until, share }) => shape("rect", {
    class: `shade ${tone}`, x: x(at), width: Math.max(1, x(until) - x(at)), y: TOP, height: HEIGHT - TOP - BOTTOM,
    "fill-opacity": (0.08 + 0.3 * share).toFixed(2),
  })),
  bars: ({ tone, points }, x, y) => points.filter(({ value }) => value > 0).map((point) => {
    const width = Math.max(1, x(point.until) - x(point.at) - 1.5);
    return shape("rect", {
      class: `bars ${tone}`, x: x(point.at), width, y: y(point.value), height: y(0) - y(point.value),
    });
  }),
  line: ({ tone, points }, x, y) => runs(points).flatMap((run) => {
    const sure = run.filter(({ low }) => low !== null && low !== undefined);
    const alone = run.length === 1;
    const dot = ({ at, value }) =>
      shape("circle", { class: `dot ${tone}`, cx: x(at), cy: y(value), r: alone ? 3 : 2 });
    return [
      sure.length > 1 ? shape("path", {
        class: `band ${tone}`,
        d: `${joined([
          ...sure.map(({ at, high }) => [x(at), y(high)]),
          ...sure.toReversed().map(({ at, low }) => [x(at), y(low)]),
        ])}Z`,
      }) : null,
      ...(sure.length === 1 ? sure : []).map(({ at, low, high }) => shape("line", {
        class: `whisker ${tone}`, x1: x(at), x2: x(at), y1: y(low), y2: y(high),
      })),
      shape("path", {
        class: `line ${tone}`, d: joined(run.map(({ at, value }) => [x(at), y(value)])),
      }),
      ...(alone || sure.length > 0 ? run.map(dot) : []),
    ].filter((part) => part !== null);
  }),
};

/** A word-sized line of values, newest last. */
export function sparkline(values) {
  if (values.length < 3) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const spread = high - low || 1;
  const points = values.map((value, i) => [
    (i / (values.length - 1)) * 100, 19 - (high === low ? 9 : ((value - low) / spread) * 18),
  ]);
  return shape("svg", {
    class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true",
  }, shape("path", { d: joined(points) }));
}
