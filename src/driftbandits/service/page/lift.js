// Does it work? The policy beside its control, with intervals that may be looked at at any time.

import { byId, element, shape } from "./dom.js";
import { count, dayMinute, percent, short, signed } from "./numbers.js";

const words = {
  higher: ["earns more than", "earns less than"],
  lower: ["costs less than", "costs more than"],
};

/** `lift` and `days` as the service tells them; null where there never was a control. */
export function showLift(lift, days) {
  byId("comparing").hidden = lift === null;
  byId("no-control").hidden = lift !== null;
  if (lift === null) return;
  const { tone, text } = verdict(lift);
  const said = byId("verdict");
  said.dataset.tone = tone;
  if (said.textContent !== text) said.textContent = text;
  byId("sides").replaceChildren(...sides(lift));
  byId("lift-notes").replaceChildren(...notes(lift).map((note) => element("li", {}, note)));
  showDays(days, lift.better);
}

function verdict({ difference, relative, better, policy, control }) {
  if (difference === null)
    return { tone: "open", text: "It is too early to say: both sides need rewards." };
  const share = relative === null ? "" : ` (${signed(100 * relative.value)} %)`;
  const found = `${signed(difference.value)} a decision${share}`;
  if (difference.low === null)
    return { tone: "open", text: `So far ${found}. The 95 % interval follows when both sides have 200 rewards (from as many units, if you send units); ` +
      `they have ${count(policy.rewards)} and ${count(control.rewards)}.` };
  const bounds = `95 %: ${signed(difference.low)} to ${signed(difference.high)}${relativeBounds(relative)}`;
  const [more, less] = better === "lower" ? words.lower.toReversed() : words.higher;
  if (difference.low > 0)
    return { tone: better === "lower" ? "bad" : "good", text: `The policy ${more} the control: ${found}. ${bounds}.` };
  if (difference.high < 0)
    return { tone: better === "lower" ? "good" : "bad", text: `The policy ${less} the control: ${found}. ${bounds}.` };
  return { tone: "open", text: `No difference is certain so far: ${found}. ${bounds}.` };
}

function relativeBounds(relative) {
  if (relative === null || relative.low === null) return "";
  const high = relative.high === null ? "no end" : `${signed(100 * relative.high)} %`;
  return ` (${signed(100 * relative.low)} % to ${high})`;
}

/** Both means on one scale, and below the difference on one around 0. */
function sides({ policy, control, difference }) {
  const means = scale([policy.mean, control.mean]);
  const around = scale([difference, { value: 0, low: 0, high: 0 }]);
  const row = (name, interval, place, tone, facts) => element("tr", {},
    element("th", { scope: "row" }, name),
    element("td", { class: "picture" }, bar(interval, place, tone)),
    element("td", {}, interval === null ? "–" : tone === "difference" ? signed(interval.value) : short(interval.value)),
    element("td", {}, facts));
  const counted = ({ rewards, decisions }) => `${count(rewards)} of ${count(decisions)}`;
  return [
    row("Policy", policy.mean, means, "policy", counted(policy)),
    row("Control", control.mean, means, "control", counted(control)),
    row("Difference", difference, around, "difference", ""),
  ];
}

function scale(intervals) {
  const known = intervals.filter((one) => one !== null);
  const edges = known.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  const [low, high] = [Math.min(...edges), Math.max(...edges)];
  const place = (value) => 3 + (94 * (value - low)) / (high - low || 1);
  return { place, zero: known.some(({ low, high }) => low === 0 && high === 0) };
}

/** An interval as a bar with its estimate in it. */
function bar(interval, { place, zero }, tone) {
  if (interval === null) return shape("svg", { class: "interval", height: 18, "aria-hidden": "true" });
  const { value, low, high } = interval;
  const at = (number) => `${place(number).toFixed(2)}%`;
  return shape("svg", { class: `interval ${tone}`, height: 18, "aria-hidden": "true" },
    zero ? shape("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: 18 }) : null,
    low === null ? null : shape("rect", {
      class: "range", x: at(low), width: `${Math.max(0.4, place(high) - place(low)).toFixed(2)}%`, y: 5, height: 8, rx: 4,
    }),
    shape("circle", { class: "estimate", cx: at(value), cy: 9, r: 4.5 }));
}

function notes({ since, until, share, method, pending, unknown }) {
  const told = [
    `Since ${dayMinute(new Date(since))}, ${percent(share)} of the decisions are controls. They play your old rule, the baseline of the request; where there is none, an arm at random.`,
    "Means are over all that time, whatever changed in it. You may look as often as you like: the intervals stay valid.",
  ];
  if (until !== null)
    told.push(`Only decisions before ${dayMinute(new Date(until))} count so far: the outcomes of later ones are not all known.`);
  if (pending > 0) told.push(`${count(pending)} decisions wait for their outcome.`);
  if (unknown > 0) told.push(`${count(unknown)} decisions will have no outcome; they count on neither side.`);
  if (method === "asymptotic") told.push("The intervals need many rewards; with few they are a little too narrow.");
  return told;
}

function showDays(days, better) {
  byId("lift-days").hidden = days.length < 2;
  const place = scale([...days.map(({ difference }) => difference), { value: 0, low: 0, high: 0 }]);
  const mean = ({ mean }) => element("td", {}, mean === null ? "–" : short(mean.value));
  const told = (one) => one === null ? "–" : one.low === null
    ? signed(one.value) : `${signed(one.value)} (${signed(one.low)} to ${signed(one.high)})`;
  const wins = ({ low, high }) => (better === "lower" ? high < 0 : low > 0);
  byId("lift-by-day").replaceChildren(...days.toReversed().map((day) => element("tr", {},
    element("th", { scope: "row" }, day.day), mean(day.policy), mean(day.control),
    element("td", { class: "picture" }, bar(day.difference, place,
      day.difference?.low != null && wins(day.difference) ? "policy" : "difference")),
    element("td", {}, told(day.difference)))));
}
