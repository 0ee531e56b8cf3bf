// How the policy came to be what it is: its versions, and the limits that it plays in.

import { byId, element } from "./dom.js";
import { count, dayMinute, percent, short } from "./numbers.js";

const MOST_SHOWN = 8;

const began = {
  fresh: () => "began without anything learned",
  carried: (from) => (from === null ? "kept what was learned" : `kept what ${count(from)} outcomes had taught`),
  relearned: (from) => (from === null ? "learned again from the log" : `learned again from ${count(from)} outcomes of the log`),
};

export function showVersions(versions, detail) {
  const box = byId("versions");
  const shown = versions.toReversed().slice(0, MOST_SHOWN);
  const beside = [...changing(detail), ...(detail.shadows ?? []).map(shadowed)];
  const text = JSON.stringify([shown, detail.configuration, detail.accounts, beside]);
  byId("versioned").hidden = versions.length < 2 && limits(detail).length + beside.length === 0;
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  box.replaceChildren(...shown.map((one, i) => element("li", {},
    element("strong", {}, `Version ${one.version}`), " ",
    element("time", { datetime: one.since }, dayMinute(new Date(one.since))), " ",
    element("span", {}, `${(began[one.how] ?? (() => one.how ?? ""))(one.learned_from ?? null)}. `),
    element("span", { class: "note" }, differences(one, shown[i + 1])))));
  const lines = [...limits(detail), ...beside];
  byId("limits").replaceChildren(...lines.map((line) => element("li", {}, line)));
}

/** A version that is on its way. */
const changing = ({ change }) => (change
  ? [`Version ${change.version} learns the log again: event ${count(change.seq)} of ${count(change.of)}.${
    change.held ? " It takes over when the policy is thawed." : ""}`] : []);

/** What a configuration would have done that decides beside this one. */
function shadowed({ name, decisions, agreed, value, difference, rounds }) {
  const share = decisions > 0 ? `would have played the same in ${percent(agreed / decisions)} of ${count(decisions)} decisions` : "has decided nothing yet";
  const within = ({ low, high }) => (low === null ? "" : ` (95 %: ${short(low)} to ${short(high)})`);
  const worth = value === null || value === undefined ? "what it would have earned is not known"
    : `would have earned ${short(value.value)}${within(value)}, ${short(difference.value)}${within(difference)} more than was earned, over ${count(rounds)} rounds`;
  return `Shadow ${name} ${share}; ${worth}.`;
}

/** What is not as it was in the version before. */
function differences(now, before) {
  if (before === undefined) return `${now.arguments.name}, ${now.mode}`;
  const flat = ({ arguments: given, ...served }) => ({ ...given, ...served });
  const skipped = new Set(["version", "since_seq", "since", "how", "learned_from", "fresh"]);
  const [a, b] = [flat(before), flat(now)];
  const text = (value) => (value === null || value === undefined ? "none" : typeof value === "object" ? "changed" : value);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter((name) => !skipped.has(name) && JSON.stringify(a[name]) !== JSON.stringify(b[name]))
    .map((name) => `${name} ${text(a[name])} → ${text(b[name])}`)
    .join(", ");
}

function limits({ configuration, accounts }) {
  const { control = 0, shares, budget } = configuration;
  const share = ([arm, [low, high]]) => `${arm} ${percent(low)} to ${percent(high)}`;
  return [
    ...(control > 0 ? [`Control: ${percent(control, control < 0.1 ? 1 : 0)} of the decisions.`] : []),
    ...(shares ? [`Shares: ${Object.entries(shares).map(share).join(", ")}.`] : []),
    ...(budget === null || budget === undefined ? []
      : [`Budget against the baseline: ${short(budget)}; balance ${short(accounts?.balance ?? 0)}.`]),
  ];
}
