// The last decisions: what every arm was worth at the time, and why this one was chosen.

import { byId, element, shape } from "./dom.js";
import { count, hourSecond, plain, short } from "./numbers.js";

const FEW = 8;
const MOST_PARTS = 5;
const whole = new Set(); // decisions whose arms are all shown

export function showDecisions(log, decisions) {
  const list = byId("decisions");
  const old = new Map([...list.children].map((item) => [item.dataset.id, item]));
  const items = decisions.map((decision, i) => {
    const id = `${log} ${decision.seq}`; // an event_id is one policy's own
    const before = old.get(id);
    const text = JSON.stringify(decision.outcome);
    if (before !== undefined && before.dataset.outcome === text) return before;
    const open = before === undefined ? i === 0 : before.querySelector("details").open;
    return item(decision, id, text, open);
  });
  // Nodes that stay in place keep the focus and what is open in them.
  const stay = new Set(items);
  for (const node of [...list.children]) if (!stay.has(node)) node.remove();
  items.forEach((node, i) => { if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null); });
  if (items.length === 0) list.append(element("li", { class: "none" }, "None yet."));
}

function item(decision, id, outcome, open) {
  const chosen = decision.arms[decision.index];
  const arms = element("div");
  drawArms(arms, decision, id);
  return element("li", { class: "decision", "data-id": id, "data-outcome": outcome },
    element("details", { open },
      element("summary", {},
        element("time", { datetime: decision.at }, hourSecond(new Date(decision.at))),
        element("strong", {}, chosen.id),
        element("span", { class: "event" }, decision.event_id),
        outcomeOf(decision)),
      element("p", { class: "why" }, why(decision)),
      ...(chosen.parts ? [element("p", { class: "parts" }, partsOf(chosen))] : []),
      arms));
}

function outcomeOf({ outcome }) {
  if (outcome === null) return element("span", { class: "outcome pending" }, "pending");
  if (outcome.kind === "withdrawn") return element("span", { class: "outcome" }, "withdrawn");
  const value = outcome.value === null ? "erased" : plain(outcome.value);
  return element("span", { class: `outcome ${outcome.kind}` }, `${outcome.kind} ${value}`);
}

function why(decision) {
  const { arms, index, suggested, baseline, propensity } = decision;
  const sum = ({ mean, width, score }) => mean === null
    ? `score ${short(score)}`
    : `score ${short(score)} = mean ${short(mean)} ${width < 0 ? "−" : "+"} width ${short(Math.abs(width))}`;
  const best = Math.max(...arms.map(({ score }) => score));
  const chance = propensity < 1 ? ` The chance of this choice was ${short(propensity)}.` : "";
  const round = `Round ${count(decision.round)}, version ${decision.version}. `;
  if (decision.reason) return `${round}${decision.why}${chance}`;
  if (baseline !== null && index !== suggested)
    return `${round}The caller's baseline was played. By itself the policy would have chosen ${arms[suggested].id}: ${sum(arms[suggested])}.`;
  const rivals = arms.filter(({ score }) => score === best).length;
  if (arms[index].score < best && !decision.why.includes("at random"))
    return `${round}The best that was left for this place of the list: ${sum(arms[index])}.${chance}`;
  if (arms[index].score < best)
    return `${round}Drawn at random, to explore: ${sum(arms[index])}; the best score was ${short(best)}.${chance}`;
  if (arms.length === 1) return `${round}The only arm.`;
  if (rivals > 1)
    return `${round}One of ${rivals} arms with the highest score: ${sum(arms[index])}.${chance}`;
  return `${round}The highest score: ${sum(arms[index])}.${chance}`;
}

/** Which features spoke most for an arm, or against it. */
function partsOf({ id, parts }) {
  const told = Object.entries(parts)
    .sort(([, a], [, b]) => Math.abs(b) - Math.abs(a))
    .slice(0, MOST_PARTS)
    .map(([name, part]) => `${name} ${part < 0 ? "−" : "+"}${short(Math.abs(part))}`);
  return `What counted for ${id}: ${told.join(", ")}.`;
}

function drawArms(box, decision, id) {
  const { arms, index, suggested } = decision;
  const order = arms.map((_, i) => i).sort((a, b) => arms[b].score - arms[a].score || a - b);
  const all = arms.length <= FEW + 2 || whole.has(id);
  const shown = order.filter((i, rank) => all || rank < FEW || i === index || i === suggested);
  const edges = arms.flatMap(({ mean, score }) => (mean === null ? [score] : [mean, score]));
  const [low, high] = [Math.min(0, ...edges), Math.max(0, ...edges)];
  const percent = (value) => (2 + (96 * (value - low)) / (high - low || 1)).toFixed(2);
  const heads = ["Arm", "Mean and width", "Mean", "Width", "Score"];
  box.replaceChildren(
    element("table", { class: "arms" },
      element("thead", {}, element("tr", {}, ...heads.map((name, i) =>
        element("th", { scope: "col", class: i === 1 ? "picture" : null }, name)))),
      element("tbody", {}, ...shown.map((i) => row(arms[i], percent, marksOf(decision, i))))),
    ...(all ? [] : [element("button", {
      type: "button", class: "more",
      onclick: () => { whole.add(id); drawArms(box, decision, id); },
    }, `Show all ${count(arms.length)} arms`)]));
}

function marksOf({ index, suggested, baseline }, i) {
  const marks = [];
  if (i === index) marks.push("chosen");
  if (i === baseline) marks.push("baseline");
  if (i === suggested && index !== suggested) marks.push("suggested");
  return marks;
}

function row(arm, percent, marks) {
  const tags = marks.map((mark) => element("span", { class: `tag ${mark}` }, mark));
  return element("tr", { class: marks.includes("chosen") ? "chosen" : null },
    element("th", { scope: "row" }, element("span", { class: "id" }, arm.id), ...tags),
    element("td", { class: "picture" }, bar(arm, percent)),
    ...[arm.mean, arm.width, arm.score].map((number) => element("td", {}, short(number))));
}

/** A bar as long as the mean, and on from there as long as the width. */
function bar({ mean, score }, percent) {
  const from = (a, b, kind) => shape("rect", {
    class: kind, x: `${Math.min(percent(a), percent(b))}%`, y: 3, height: 10,
    width: `${Math.abs(percent(b) - percent(a)).toFixed(2)}%`,
  });
  const end = mean === null ? score : mean;
  return shape("svg", { class: "score", height: 16, "aria-hidden": "true" },
    from(0, end, "mean"),
    mean === null ? null : from(mean, score, "width"),
    shape("rect", { class: "zero", x: `${percent(0)}%`, y: 0, width: 1, height: 16 }));
}
