// What was played: the share of every arm over time, and what it earned.

import { count, percent, short } from "./numbers.js";

const MINUTE = 60000;
const MOST_ARMS = 6;
const FEWEST_REWARDS = 3; // of a point: fewer say nothing
const OTHERS = "others";
const brief = (name) => (name.length > 28 ? `${name.slice(0, 27)}…` : name);

/** Parts of the day put together as coarsely as the chart's bins are. */
function gathered(parts, { from, to }, size) {
  const bins = new Map();
  for (const part of parts) {
    const end = part.at + part.minutes * MINUTE;
    if (end <= from || part.at >= to) continue;
    const at = part.minutes * MINUTE >= size ? part.at : Math.floor(part.at / size) * size;
    const until = part.minutes * MINUTE >= size ? end : at + size;
    const bin = bins.get(at) ?? { at: Math.max(at, from), until, arms: new Map() };
    bins.set(at, bin);
    const named = Object.entries(part.arms);
    for (const [arm, counts] of part.others ? [...named, [OTHERS, part.others]] : named) {
      const row = bin.arms.get(arm) ?? { decisions: 0, rewards: 0, sum: 0 };
      bin.arms.set(arm, row);
      row.decisions += counts.decisions;
      row.rewards += counts.rewards;
      row.sum += counts.reward_sum;
    }
  }
  return [...bins.values()].sort((a, b) => a.at - b.at);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export function showArms(charts, parts, { frame, size, fallback }, legend, around) {
  const bins = gathered(parts, frame, size);
  const played = new Map();
  for (const { arms } of bins)
    for (const [arm, { decisions }] of arms) played.set(arm, (played.get(arm) ?? 0) + decisions);
  const ranked = [...played].filter(([arm]) => arm !== OTHERS).sort((a, b) => b[1] - a[1]).map(([arm]) => arm);
  const top = ranked.slice(0, MOST_ARMS);
  const hasRest = ranked.length > MOST_ARMS || played.has(OTHERS);
  const names = hasRest ? [...top, OTHERS] : top;
  const rest = (bin) => [...bin.arms].filter(([arm]) => !top.includes(arm)).map(([, row]) => row);
  /** Where a default is waited for, what is open counts as that until then. */
  const settled = (row) => (fallback === null ? row
    : { ...row, rewards: row.decisions, sum: row.sum + (row.decisions - row.rewards) * fallback });
  const rowOf = (bin, name) => {
    const rows = name === OTHERS ? rest(bin) : [bin.arms.get(name)].filter((row) => row !== undefined);
    return settled({
      decisions: sum(rows.map((row) => row.decisions)), rewards: sum(rows.map((row) => row.rewards)),
      sum: sum(rows.map((row) => row.sum)),
    });
  };
  const tone = (name) => (name === OTHERS ? "rest" : `tone-${top.indexOf(name)}`);
  const table = bins.map((bin) => ({ bin, rows: names.map((name) => rowOf(bin, name)) }));
  showShares(charts.shares, table, names, tone, frame, legend);
  showMeans(charts.means, table, names, tone, frame, legend, around);
}

function showShares(chart, table, names, tone, frame, legend) {
  const layers = names.map((name) => ({ kind: "stack", tone: tone(name), points: [] }));
  const rows = [];
  for (const { bin, rows: found } of table) {
    const all = sum(found.map(({ decisions }) => decisions));
    if (all === 0) continue;
    let low = 0;
    found.forEach(({ decisions }, i) => {
      const high = low + decisions / all;
      layers[i].points.push({ at: bin.at, until: bin.until, low, high });
      low = high;
    });
    rows.push({ at: bin.at, cells: found.map(({ decisions }) => percent(decisions / all)) });
  }
  chart.draw({
    ...frame, low: 0, high: 1, layers, rows, columns: names,
    legend: [...names.map((name) => ({ tone: tone(name), label: brief(name) })), ...legend],
    label: `The share of each arm in the decisions over time, ${count(names.length)} arms.`,
  });
}

function showMeans(chart, table, names, tone, frame, legend, around) {
  const mean = ({ rewards, sum: total }) => (rewards >= FEWEST_REWARDS ? total / rewards : null);
  const layers = names.map((name, i) => {
    const points = [];
    let apart = false;
    for (const { bin, rows } of table) {
      const value = mean(rows[i]);
      if (value === null) apart = true;
      else {
        points.push({ at: (bin.at + bin.until) / 2, value, apart: apart && points.length > 0 });
        apart = false;
      }
    }
    return { kind: "line", tone: tone(name), points };
  });
  const values = layers.flatMap(({ points }) => points.map(({ value }) => value));
  chart.draw({
    ...frame, ...around(values.length ? values : [0, 1]), layers, columns: names,
    rows: table.map(({ bin, rows }) => ({
      at: bin.at, cells: rows.map((row) => (row.rewards ? short(row.sum / row.rewards) : "–")),
    })),
    legend: [...names.map((name) => ({ tone: `${tone(name)} thin`, label: brief(name) })), ...legend],
    label: "The mean reward of each arm by the time of the decision.",
  });
}
