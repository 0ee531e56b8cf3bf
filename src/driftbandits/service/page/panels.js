// What is known of one policy, panel by panel.

import { showArms } from "./arms.js";
import { showBeliefs, showDetections } from "./changes.js";
import { sparkline, TimeChart } from "./charts.js";
import { byId, element, shape } from "./dom.js";
import { showLift } from "./lift.js";
import { count, duration, hourMinute, interval, percent, plain, short } from "./numbers.js";
import { showVersions } from "./versions.js";

const MINUTE = 60000;
const MOST_LINES = 8;
const MOST_FAINT_LINES = 42;
const MOST_WEIGHTS = 10;

/** The times to choose from, shorter where there is less to show. */
export const RANGES = [
  { minutes: 15, label: "15 min" },
  { minutes: 60, label: "1 h" },
  { minutes: 360, label: "6 h" },
  { minutes: 1440, label: "1 day" },
];
const FEWEST_MINUTES = 5;
const MOST_BINS = 72;
const BINS = [1, 2, 5, 10, 20]; // minutes

const charts = {};

export function makeCharts() {
  for (const name of ["flow", "rate", "path", "shares", "means"]) charts[name] = new TimeChart(byId(name));
}

// -- from minutes to bins ------------------------------------------------------------------------

function bins(minutes, range, now) {
  const known = minutes.length ? Math.ceil((now - minutes[0].at) / MINUTE) : 0;
  const long = Math.min(range.minutes, Math.max(FEWEST_MINUTES, known));
  const bin = BINS.find((some) => long / some <= MOST_BINS);
  const size = bin * MINUTE;
  const to = Math.floor(now / size) * size + size;
  const length = Math.ceil(long / bin);
  const first = to - length * size;
  const found = Array.from({ length }, (_, i) => {
    const at = first + i * size;
    const passed = Math.max(Math.min(now, at + size) - at, 10000) / MINUTE;
    return { at, until: at + size, passed, decisions: 0, rewards: 0, sum: 0, squares: 0, pending: 0 };
  });
  for (const minute of minutes) {
    const bin = found[Math.floor((minute.at - first) / size)];
    if (bin === undefined) continue;
    bin.decisions += minute.decisions;
    bin.rewards += minute.rewards;
    bin.sum += minute.reward_sum;
    bin.squares += minute.reward_square_sum;
    bin.pending += minute.pending;
  }
  return found;
}

const total = (parts, name) => parts.reduce((sum, part) => sum + part[name], 0);

function around(values, { zero = false } = {}) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (zero) low = Math.min(0, low);
  if (!(high > low)) [low, high] = [low - (zero ? 0 : 0.5), low + (zero ? 1 : 0.5)];
  const room = (high - low) * 0.06;
  return { low: zero && low === 0 ? 0 : low - room, high: high + room };
}

// -- panels --------------------------------------------------------------------------------------

/** Everything about a policy: `detail` and `minutes` as served, `rates` and `samples` as watched. */
export function showPolicy({ detail, minutes, arms, lift, versions, range, now, rates, samples }) {
  const parts = bins(minutes, range, now);
  const fallback = detail.configuration.default_reward ?? null; // null: no default is waited for
  const whole = fallback === null ? parts : parts.filter(({ pending }) => pending === 0);
  const earned = interval(total(whole, "rewards"), total(whole, "sum"), total(whole, "squares"));
  showTitle(detail);
  showTiles(detail, { rates, samples, earned, since: `since ${hourMinute(parts[0].at)}` });
  const frame = { from: parts[0].at, to: parts.at(-1).until, marks: moments(detail) };
  showFlow(parts, frame, minutes[0]?.at ?? now);
  showRate(parts, frame, fallback);
  showPath(detail, [...minutes, ...samples, { at: now, theta: detail.theta_hat }], frame);
  showWeights(detail);
  showArms(charts, arms, { frame, size: parts[0].until - parts[0].at, fallback }, momentLegend(frame), around);
  showLift(detail.lift ?? null, lift?.days ?? []);
  showVersions(versions, detail);
  showDetections(detail.detections);
  showBeliefs(detail.beliefs ?? []);
}

/** What the policy decides by: columns as people count them, or the numbers of a vector. */
function inputs({ features, dim }) {
  if (!features) return `${count(dim)} numbers`;
  const columns = [features.context, features.arm].reduce((sum, part) => sum + Object.keys(part ?? {}).length, 0);
  return `${count(columns)} column${columns === 1 ? "" : "s"}`;
}

function showTitle(detail) {
  byId("name").textContent = detail.policy;
  const { arguments: given, mode } = detail.configuration;
  const told = [given.name, inputs(given), mode, `version ${detail.version}`];
  if (detail.retired) told.push("retired");
  byId("kind").textContent = `${told.join(" · ")} · round ${count(detail.round)} · event ${count(detail.seq)}`;
  const { arguments: _, ...served } = detail.configuration;
  const rows = Object.entries({ ...given, ...served, radius: detail.radius })
    .filter(([, value]) => value !== null)
    .flatMap(([name, value]) => [
      element("dt", {}, name),
      element("dd", {}, typeof value === "string" ? value : JSON.stringify(value)),
    ]);
  byId("configuration").replaceChildren(...rows);
}

function forgetting({ arguments: given, half_life_s: half, window_s: span }) {
  if (half !== null) return `half as much after ${duration(half)}`;
  if (span !== null) return `those of the last ${duration(span)}`;
  if (given.discount) return `older ones count less: discount ${given.discount}`;
  if (given.window) return `those of the last ${count(given.window)} rounds`;
  return "what the estimate rests on now";
}

function waiting({ reward_wait_s: wait, default_reward: value }) {
  return wait === null ? "no time limit" : `${plain(value)} is learned after ${duration(wait)}`;
}

function showTiles(detail, { rates, samples, earned, since }) {
  const { counts, configuration } = detail;
  const odd = ["late", "duplicates", "conflicts", "erased"].filter((name) => counts[name] > 0);
  const bounds = earned === null || earned.low === null
    ? null : `${short(earned.low)} to ${short(earned.high)}`;
  const tiles = [
    ["Decisions per min", rates === null ? "…" : plain(rates.decisions),
      `${count(counts.decisions)} in all`],
    ["Rewards per min", rates === null ? "…" : plain(rates.rewards),
      `${count(counts.rewards)} reported, ${count(counts.defaults)} by default`],
    ["Mean reward", earned === null ? "–" : short(earned.mean),
      bounds === null ? since : `95 %: ${bounds}, ${since}`],
    ["Rewards that count", plain(detail.effective_sample_size), forgetting(configuration),
      sparkline(samples.map(({ memory }) => memory))],
    ["Waiting for a reward", count(detail.pending), waiting(configuration),
      sparkline(samples.map(({ pending }) => pending))],
    ["Rewards not learned", count(odd.reduce((sum, name) => sum + counts[name], 0)),
      odd.length ? odd.map((name) => `${count(counts[name])} ${name}`).join(", ") : "none late, repeated or contradictory"],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value, note, picture = null]) =>
    element("div", { class: "tile" },
      element("dt", {}, name),
      element("dd", {}, element("span", { class: "value" }, value), picture,
        element("span", { class: "note" }, note)))));
}

function moments({ detections, version, configuration }) {
  const found = detections.map(({ at, round }) => ({
    at: Date.parse(at), kind: "detection", label: `change detected in round ${count(round)}`,
  }));
  if (version > 1)
    found.push({ at: Date.parse(configuration.since), kind: "version", label: `version ${version} begins` });
  return found;
}

/** What the vertical lines in a chart mean, where there are any. */
const momentLegend = ({ from, marks }) =>
  [["detection", "change detected"], ["version", "new version"]]
    .filter(([kind]) => marks.some((mark) => mark.kind === kind && mark.at >= from))
    .map(([kind, label]) => ({ tone: `moment-${kind}`, label }));

function showFlow(parts, frame, begun) {
  const rate = (name) => parts.map((part) => ({ ...part, value: part[name] / part.passed }));
  const [decisions, rewards] = [rate("decisions"), rate("rewards")];
  const centred = rewards
    .filter(({ until, passed }) => until > begun && passed >= 0.25)
    .map((point) => ({ at: (point.at + point.until) / 2, value: point.value }));
  charts.flow.draw({
    ...frame,
    ...around([...decisions, ...rewards].map(({ value }) => value), { zero: true }),
    layers: [
      { kind: "bars", tone: "tone-0", points: decisions },
      { kind: "line", tone: "tone-1", points: centred },
    ],
    legend: [
      { tone: "tone-0", label: "decisions" }, { tone: "tone-1 thin", label: "of these with a known reward" },
      ...momentLegend(frame),
    ],
    columns: ["decisions", "rewards"],
    rows: parts.map(({ at }, i) => ({ at, cells: [plain(decisions[i].value), plain(rewards[i].value)] })),
    label: `Decisions and rewards per minute: ${count(total(parts, "decisions"))} decisions and ` +
      `${count(total(parts, "rewards"))} rewards in the time shown.`,
  });
}

const comingLabel = (fallback) => (fallback === null
  ? "rewards not reported" : `rewards still to come, ${plain(fallback)} until then`);

/** Of a time whose rewards are still to come: what it is if those are defaults, with no interval. */
function soFar({ rewards, sum, pending }, fallback) {
  const n = rewards + pending;
  return { n: rewards, mean: (sum + pending * fallback) / n, low: null, high: null };
}

function showRate(parts, frame, fallback) {
  const points = [];
  parts.forEach((part, i) => {
    const found = fallback !== null && part.pending > 0
      ? soFar(part, fallback) : interval(part.rewards, part.sum, part.squares);
    if (found === null) return;
    points.push({
      at: (part.at + part.until) / 2, value: found.mean, low: found.low, high: found.high,
      n: found.n, pending: part.pending, apart: i > 0 && parts[i - 1].rewards === 0,
    });
  });
  const coming = parts.filter(({ pending }) => pending > 0)
    .map(({ at, until, pending, decisions }) => ({ at, until, share: Math.min(1, pending / Math.max(decisions, 1)) }));
  const edges = points.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  charts.rate.draw({
    ...frame,
    ...around(edges.length ? edges : [0, 1]),
    layers: [
      { kind: "shade", tone: "coming", points: coming },
      { kind: "line", tone: "tone-2", points },
    ],
    legend: [
      { tone: "tone-2 thin", label: "mean reward" }, { tone: "tone-2 faint", label: "its 95 % interval" },
      ...(coming.length ? [{ tone: "coming", label: comingLabel(fallback) }] : []),
      ...momentLegend(frame),
    ],
    columns: ["mean", "interval", "rewards", "pending"],
    rows: points.map(({ at, value, low, high, n, pending }) => ({
      at, cells: [
        short(value), low === null ? "not yet" : `${short(low)} to ${short(high)}`, count(n), count(pending),
      ],
    })),
    label: "Mean reward by the time of the decision, with its 95 % interval.",
  });
}

/** The estimate in a row; that of separate arms is given by their ids. */
const coordinatesOf = (theta) => (Array.isArray(theta) ? theta : Object.values(theta).flat());
const namesOf = ({ theta_hat: theta, names }) =>
  (Array.isArray(theta) ? [["", theta]] : Object.entries(theta))
    .flatMap(([arm, part]) => part.map((_, i) => `${arm} ${names?.[i] ?? `θ${i + 1}`}`.trim()));
/** Coordinates with names come one after the other: before it came, each was 0. */
const lengthened = (theta, size, detail) => (detail.names && Array.isArray(detail.theta_hat)
  ? [...theta, ...Array(Math.max(0, size - theta.length)).fill(0)] : theta);

/** The coefficients that weigh most now, by the names of what they belong to. */
function showWeights(detail) {
  const [names, theta] = [namesOf(detail), coordinatesOf(detail.theta_hat)];
  const ranked = theta.map((value, i) => ({ name: names[i], value }))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, MOST_WEIGHTS);
  const most = Math.max(...ranked.map(({ value }) => Math.abs(value)), 1e-12);
  byId("weighing").hidden = detail.names === undefined && theta.length <= MOST_LINES;
  byId("weights").replaceChildren(...ranked.map(({ name, value }) => element("li", {},
    element("span", { class: "weight-name" }, name),
    shape("svg", { "aria-hidden": "true" },
      shape("rect", {
        class: value < 0 ? "against" : "for", height: "100%", width: `${(50 * Math.abs(value)) / most}%`,
        x: `${value < 0 ? 50 - (50 * -value) / most : 50}%`,
      }), shape("line", { x1: "50%", x2: "50%", y1: 0, y2: "100%" })),
    element("strong", {}, short(value)))));
}

/** As it was when each minute began, and as watched since the page was opened. */
function showPath(detail, estimates, frame) {
  const theta_hat = coordinatesOf(detail.theta_hat);
  const names = namesOf(detail);
  const size = theta_hat.length;
  const begun = detail.version > 1 && detail.configuration.fresh
    ? Date.parse(detail.configuration.since) : 0;
  const known = estimates
    .filter(({ theta }) => coordinatesOf(theta).length > 0 || size === 0) // many are not kept
    .map(({ at, theta }) => ({ at, theta: lengthened(coordinatesOf(theta), size, detail) }))
    .filter(({ at, theta }) => at >= frame.from && theta.length === size)
    .sort((a, b) => a.at - b.at);
  const spread = (i) => {
    const values = known.map(({ theta }) => theta[i]);
    return Math.max(...values) - Math.min(...values) + 1e-9 * Math.abs(values.at(-1));
  };
  const coordinates = theta_hat.map((_, i) => i);
  const named = coordinates.length <= MOST_LINES
    ? coordinates
    : [...coordinates].sort((a, b) => spread(b) - spread(a)).slice(0, MOST_LINES).sort((a, b) => a - b);
  const line = (i, tone) => ({
    kind: "line", tone,
    points: known.map(({ at, theta }, k) => ({
      at, value: theta[i], apart: k > 0 && known[k - 1].at < begun && at >= begun,
    })),
  });
  const unnamed = coordinates.filter((i) => !named.includes(i));
  const rest = unnamed.slice(0, MOST_FAINT_LINES);
  const others = unnamed.length
    ? [{ tone: "rest thin", label: `${count(unnamed.length)} that moved less` }] : [];
  charts.path.draw({
    ...frame,
    ...around(known.flatMap(({ theta }) => theta)),
    layers: [...rest.map((i) => line(i, "rest")), ...named.map((i, rank) => line(i, `tone-${rank}`))],
    legend: [
      ...named.map((i, rank) => ({
        tone: `tone-${rank} thin`, label: `${names[i]} ${short(theta_hat[i])}`,
      })),
      ...others, ...momentLegend(frame),
    ],
    columns: named.map((i) => names[i]),
    rows: [...known.filter(({ at }) => at % MINUTE === 0), known.at(-1)]
      .map(({ at, theta }) => ({ at, cells: named.map((i) => short(theta[i])) })),
    label: `The estimated parameter over time, ${size} coordinates.`,
  });
}
