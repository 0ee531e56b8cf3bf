// Changes that were noticed, in words and as numbers, and what a policy believes.

import { byId, element, shape } from "./dom.js";
import { count, dayMinute, hourMinute, percent, short } from "./numbers.js";

const MOST_TOLD = 3; // in words; the table has all
const LEAST_PROBABILITY = 0.01; // of what is shown of a belief

export function showDetections(detections) {
  const box = byId("detections");
  const text = JSON.stringify(detections);
  if (box.dataset.shown === text) return; // or a reader would lose the place in the table
  box.dataset.shown = text;
  if (detections.length === 0) {
    box.replaceChildren(element("p", { class: "none" },
      "None so far. Policies that look for changes list them here, and the charts mark them."));
    return;
  }
  const told = detections.toReversed().slice(0, MOST_TOLD);
  box.replaceChildren(element("ol", { class: "changes" }, ...told.map(inSentences)), ...table(detections));
}

const FEW_ROUNDS = 100;
const arrow = ({ name, before, after }) => `${name} ${short(before)} → ${short(after)}`;

function inSentences({ at, since, size, change, moved = [], arms = [] }) {
  const noticed = new Date(at);
  const since_ = since === null || since === undefined ? "" : ` Probably since ${hourMinute(new Date(since))}.`;
  const sized = size === null ? "" : ` Mean rewards changed by about ${short(size)}.`;
  const early = change !== null && change < FEW_ROUNDS
    ? ` The policy had seen only ${count(change)} rounds before, so it may just have learned more.` : "";
  const parts = [
    ...(moved.length ? [`What changed most in the estimate: ${moved.map(arrow).join(", ")}.`] : []),
    ...(arms.length ? [`What arms earned before and since: ${arms.map(arrow).join(", ")}.`] : []),
  ];
  return element("li", {},
    element("p", {}, element("strong", {}, `A change was noticed at `,
      element("time", { datetime: at }, dayMinute(noticed))), `.${since_}${sized}${early}`),
    ...parts.map((part) => element("p", { class: "note" }, part)));
}

function table(detections) {
  const measured = ({ size }) => size !== null; // then the statistic is a probability
  const level = (found, value) => (measured(found) ? percent(value, 1) : short(value));
  const withSizes = detections.some(measured);
  const heads = ["Noticed", "Round", "Change before",
    detections.every(measured) ? "Probability" : "Statistic", "Threshold", ...(withSizes ? ["Size"] : [])];
  const lines = detections.toReversed().map((found) => element("tr", {},
    element("th", { scope: "row" }, element("time", { datetime: found.at }, dayMinute(new Date(found.at)))),
    element("td", {}, count(found.round)),
    element("td", {}, found.change === null ? "–" : count(found.change)),
    element("td", {}, level(found, found.statistic)),
    element("td", {}, level(found, found.threshold)),
    withSizes ? element("td", {}, short(found.size)) : null));
  return [
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Detections" },
      element("table", {},
        element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...lines))),
    ...(withSizes
      ? [element("p", { class: "note" }, "Size: by how much the mean rewards of recent actions changed.")] : []),
  ];
}

const DRIFTS = { wandering: "drifting", turning: "drifting smoothly" };

const inWords = ({ path, since, rounds }) => {
  if (path !== "constant") return `${DRIFTS[path] ?? path}, within ${count(rounds)} rounds`;
  return since === undefined ? "always been the same" : `the same since round ${count(since)}`;
};

/** What reads the same is one line: that the prior was tighter or wider is of no interest here. */
export function showBeliefs(beliefs) {
  byId("believing").hidden = beliefs.length === 0;
  const known = new Map();
  for (const one of beliefs) known.set(inWords(one), (known.get(inWords(one)) ?? 0) + one.probability);
  const shown = [...known]
    .filter(([, probability]) => probability >= LEAST_PROBABILITY)
    .sort(([, a], [, b]) => b - a);
  byId("beliefs").replaceChildren(...shown.map(([words, probability]) => element("li", {},
    element("span", {}, `${words}:`), " ",
    shape("svg", { "aria-hidden": "true" }, shape("rect", { width: `${100 * probability}%`, height: "100%" })),
    element("strong", {}, percent(probability)))));
}
