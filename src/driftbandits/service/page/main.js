// The loop: ask, show, wait, ask again. What may go wrong is said in one line, and mends itself.

import { Away, Refused, get, key } from "./client.js";
import { showDecisions } from "./decisions.js";
import { byId, element } from "./dom.js";
import { count, hourSecond, plain } from "./numbers.js";
import { RANGES, makeCharts, showPolicy } from "./panels.js";

const EVERY_MS = 1500;
const SLOWEST_MS = 10000;
const RATE_OVER_MS = 60000;
const REFRESH_MS = 15000; // memories by the clock fade without events
const KEPT_SAMPLES = 120;
const MANY_POLICIES = 8;
const SHOWN_DECISIONS = 12;
const DAY_MS = 86400000;

const seen = {
  policies: [],
  wanted: "", // the name of a policy; empty: the first
  watched: new Map(), // by policy: [{ at, decisions, rewards }] of the last minute
  open: null, // { policy, detail, minutes, decisions, samples, askedAt }
  range: RANGES.at(-1),
  paused: false,
  answeredAt: 0,
};
let timer = 0;
let failures = 0;
let turn = 0; // of the loop: an answer to an older turn is not shown

// -- asking --------------------------------------------------------------------------------------

/** The policy that the address names, as in #/news; others than such addresses change nothing. */
function readAddress() {
  if (!location.hash.startsWith("#/")) return;
  try {
    seen.wanted = decodeURIComponent(location.hash.slice(2));
  } catch {
    seen.wanted = location.hash.slice(2);
  }
}

async function ask() {
  const mine = ++turn;
  clearTimeout(timer);
  const began = Date.now();
  let wait = EVERY_MS;
  try {
    const { policies } = await get("v1/policies");
    if (mine !== turn) return;
    watch(policies);
    const trouble = await look(mine);
    if (mine !== turn) return;
    failures = 0;
    seen.answeredAt = Date.now();
    show(trouble);
    sayAllIsWell();
    wait = Math.max(EVERY_MS, 3 * (Date.now() - began)); // a busy server is asked less often
  } catch (error) {
    if (mine !== turn) return;
    wait = failed(error);
    if (wait === null) return;
  }
  if (!seen.paused && !document.hidden) timer = setTimeout(ask, Math.min(wait, SLOWEST_MS));
}

function watch(policies) {
  const at = Date.now();
  seen.policies = policies;
  const watched = new Map();
  for (const summary of policies) {
    const { counts } = summary;
    const before = (seen.watched.get(summary.policy) ?? []).filter((one) => at - one.at <= RATE_OVER_MS);
    const rewards = counts.rewards + counts.defaults;
    watched.set(summary.policy, [...before, { at, decisions: counts.decisions, rewards }]);
  }
  seen.watched = watched;
}

/** Bring the open policy up to date; what is wrong with it, if anything is. */
async function look(mine) {
  const name = seen.wanted;
  const found = seen.policies.find(({ policy }) => name === "" || policy === name);
  if (found === undefined) {
    seen.open = null;
    return name === "" ? null : `There is no policy ${name}.`;
  }
  const { policy, seq } = found;
  const old = seen.open?.policy === policy ? seen.open : null;
  if (old !== null && old.detail.seq === seq && Date.now() - old.askedAt < REFRESH_MS) return null;
  const path = `v1/policies/${encodeURIComponent(policy)}`;
  try {
    const [detail, lift, versions, history, explanations] = await Promise.all([
      get(path),
      old !== null && old.detail.lift === undefined ? null : get(`${path}/lift`),
      old?.versions.length === found.version ? { versions: old.versions } : get(`${path}/versions`),
      get(`${path}/history?since=${old?.historySeq ?? 0}`),
      get(`${path}/explanations?limit=${SHOWN_DECISIONS}`),
    ]);
    if (mine !== turn) return null;
    seen.open = {
      policy, detail, lift,
      versions: versions.versions,
      decisions: explanations.decisions,
      historySeq: history.seq,
      minutes: joined(old?.minutes ?? [], history.minutes),
      arms: joinedParts(old?.arms ?? [], history.arms),
      samples: sampled(old?.samples ?? [], detail),
      askedAt: Date.now(),
    };
    return null;
  } catch (error) {
    if (!(error instanceof Refused) || ![404, 422, 500].includes(error.status)) throw error;
    seen.open = null;
    return `${policy}: ${error.message}`;
  }
}

const timed = (told) => told.map((one) => ({ ...one, at: Date.parse(one.at) }));
const byTime = (a, b) => a.at - b.at;

/** The minutes known so far, and in their places what has just been told of some of them. */
function joined(old, told) {
  if (told.length === 0) return old;
  const known = new Map([...old, ...timed(told)].map((minute) => [minute.at, minute]));
  const since = Date.now() - DAY_MS;
  return [...known.values()].filter(({ at }) => at >= since).sort(byTime);
}

/** The same of parts by arm, which are put together to longer ones as they grow old. */
function joinedParts(old, told) {
  const fresh = timed(told);
  const end = ({ at, minutes }) => at + 60000 * minutes;
  const apart = (one) => fresh.every((other) => one.at >= end(other) || other.at >= end(one));
  const since = Date.now() - DAY_MS;
  return [...old.filter((one) => apart(one) && one.at >= since), ...fresh].sort(byTime);
}

const sampled = (old, { effective_sample_size: memory, pending, theta_hat: theta }) =>
  [...old, { at: Date.now(), memory, pending, theta }].slice(-KEPT_SAMPLES);

/** Say what went wrong; how long to wait before asking again, null: until there is a key. */
function failed(error) {
  if (error instanceof Refused && error.status === 401) {
    askForKey(key.get() === null ? "" : `The key was refused: ${error.message}.`);
    return null;
  }
  failures += 1;
  if (error instanceof Refused && error.status === 403) say("refused", `Refused: ${error.message}`);
  else if (error instanceof Refused) say("busy", `Trying again: ${error.message}`);
  else if (error instanceof Away) say("away", away());
  else {
    say("busy", "Trying again: what came could not be shown");
    console.error(error);
  }
  byId("as-of").textContent = "";
  byId("board").classList.add("stale");
  return Math.max(error.retryMs ?? 0, EVERY_MS * 1.5 ** Math.min(failures, 5));
}

function away() {
  const since = seen.answeredAt ? ` What you see is from ${hourSecond(seen.answeredAt)}.` : "";
  return `The server is away. Trying again…${since}`;
}

// -- showing -------------------------------------------------------------------------------------

function say(state, text) {
  const status = byId("status");
  status.dataset.state = state;
  if (status.textContent !== text) status.textContent = text;
}

/** The time stands apart from the status, which is read out to some whenever it changes. */
function sayAllIsWell() {
  if (seen.paused) say("paused", "Paused");
  else say("live", "Live");
  byId("as-of").textContent = seen.answeredAt ? hourSecond(seen.answeredAt) : "";
}

function show(trouble) {
  byId("ask").hidden = true;
  byId("forget").hidden = key.get() === null;
  byId("pause").hidden = false;
  const board = byId("board");
  board.hidden = false;
  board.classList.remove("stale");
  showList();
  byId("example").textContent = example();
  byId("empty").hidden = seen.policies.length > 0 || trouble !== null;
  byId("trouble").hidden = trouble === null;
  if (byId("trouble").textContent !== (trouble ?? "")) byId("trouble").textContent = trouble ?? "";
  byId("shown").hidden = seen.open === null;
  document.title = seen.open === null ? "driftbandits" : `${seen.open.policy} · driftbandits`;
  if (seen.open !== null) showOpen();
  document.documentElement.dataset.shown = "yes";
}

const example = () => [
  `curl -X PUT ${location.origin}/v1/policies/news`,
  ...(key.get() === null ? [] : [`     -H "Authorization: Bearer $KEY"`]),
  `     -d '{"name": "D-GLUCB", "dim": 2, "discount": 0.99}'`,
].join(" \\\n");

function showOpen() {
  const { detail, minutes, arms, lift, versions, samples, decisions, policy } = seen.open;
  const now = Math.max(Date.now(), Date.parse(detail.at));
  showPolicy({ detail, minutes, arms, lift, versions, now, range: seen.range, rates: rates(policy), samples });
  showDecisions(policy, decisions);
}

/** Per minute, as watched; null until enough time has passed to tell. */
function rates(log) {
  const samples = seen.watched.get(log) ?? [];
  if (samples.length < 2) return null;
  const [first, last] = [samples[0], samples.at(-1)];
  const minutes = (last.at - first.at) / 60000;
  return {
    decisions: (last.decisions - first.decisions) / minutes,
    rewards: (last.rewards - first.rewards) / minutes,
  };
}

function showList() {
  byId("policies-count").textContent = count(seen.policies.length);
  byId("filter-box").hidden = seen.policies.length <= MANY_POLICIES;
  const part = byId("filter").value.trim().toLowerCase();
  const list = byId("policies");
  const old = new Map([...list.children].map((item) => [item.dataset.policy, item]));
  const shown = seen.policies.filter(({ policy, name }) =>
    `${policy} ${name}`.toLowerCase().includes(part));
  const items = shown.map((summary) => updated(old.get(summary.policy) ?? entry(summary.policy), summary));
  // Links stay the same nodes, so that they keep the focus.
  const same = items.length === list.children.length && items.every((item, i) => list.children[i] === item);
  if (!same) list.replaceChildren(...items);
}

function entry(policy) {
  return element("li", { "data-policy": policy },
    element("a", { href: `#/${encodeURIComponent(policy)}` },
      element("span", { class: "policy-name" }, policy), element("span", { class: "policy-facts" })));
}

function updated(item, summary) {
  const { policy, name, mode, pending, retired } = summary;
  const pace = rates(summary.policy);
  const facts = [
    name, ...(mode === "online" ? [] : [mode]), ...(retired ? ["retired"] : []),
    pace === null ? "…" : `${plain(pace.decisions)}/min`, `${count(pending)} pending`,
  ].join(" · ");
  const [link, told] = [item.firstChild, item.querySelector(".policy-facts")];
  if (told.textContent !== facts) told.textContent = facts;
  if (policy === seen.open?.policy) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
  return item;
}

// -- what a person does --------------------------------------------------------------------------

function askForKey(refusal) {
  key.forget();
  clearTimeout(timer);
  seen.open = null;
  seen.policies = [];
  seen.watched.clear();
  byId("board").hidden = true;
  byId("forget").hidden = true;
  byId("pause").hidden = true;
  byId("ask").hidden = false;
  byId("refusal").hidden = refusal === "";
  byId("refusal").textContent = refusal;
  byId("as-of").textContent = "";
  say("locked", "A key is needed");
  byId("key").focus();
}

function useKey(event) {
  event.preventDefault();
  const token = byId("key").value.trim();
  byId("key").value = "";
  if (!/^[!-~]+$/.test(token)) { // others cannot be sent in a header
    askForKey("That does not look like a key: it begins with dbk_ and has no spaces.");
    return;
  }
  key.set(token);
  say("starting", "Trying the key…");
  ask();
}

function pause() {
  seen.paused = !seen.paused;
  byId("pause").setAttribute("aria-pressed", seen.paused);
  byId("pause").textContent = seen.paused ? "Go on" : "Pause";
  if (seen.paused) {
    turn += 1;
    clearTimeout(timer);
    sayAllIsWell();
  } else ask();
}

function chooseRange(range) {
  seen.range = range;
  if (seen.open !== null) showOpen();
}

function start() {
  makeCharts();
  byId("ranges").append(...RANGES.map((range) => element("label", {},
    element("input", {
      type: "radio", name: "range", checked: range === seen.range, onchange: () => chooseRange(range),
    }), range.label)));
  byId("ask").addEventListener("submit", useKey);
  byId("forget").addEventListener("click", () => { turn += 1; askForKey(""); });
  byId("pause").addEventListener("click", pause);
  byId("filter").addEventListener("input", showList);
  addEventListener("hashchange", () => { readAddress(); ask(); });
  addEventListener("online", ask);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !seen.paused) ask(); });
  readAddress();
  ask();
}

start();
