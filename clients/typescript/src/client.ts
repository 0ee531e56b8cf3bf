/** A client of the decision service: `fetch` and the types of its OpenAPI document, nothing else. */

import { OPERATIONS, type DecisionAnswer, type DecisionRequest, type Operations } from "./api.js";
import type { ErrorAnswer, ExplainedDecision, PolicyAnswer, PolicyRequest } from "./api.js";
import { Outbox, type Item } from "./outbox.js";

export interface Options {
  /** An API key of the service; none where it runs without. */
  key?: string;
  /** Milliseconds that one try may take. */
  timeoutMs?: number;
  /** Milliseconds for which a call is tried again where no answer came or the service was busy. */
  patienceMs?: number;
  /** How many fallback decisions and rewards may wait for the service; they are in memory only. */
  queue?: number;
  /** Told what nobody is thrown: a fallback that was refused, a call for which there is no room. */
  onTrouble?: (message: string) => void;
}

/** A request as callers write it: an id is drawn where none is given. */
export type Asked = Omit<DecisionRequest, "event_id"> & { event_id?: string };

export interface Budget {
  /** Milliseconds that the call may take altogether. */
  budgetMs?: number;
}

export type Given<K extends keyof Operations> = Operations[K]["names"] & {
  query?: Operations[K]["query"];
} & (Operations[K]["body"] extends undefined
    ? { body?: undefined }
    : { body: Operations[K]["body"] });

/** The service did not do what it was asked; status 0 where no answer came. */
export class ServiceError extends Error {
  constructor(
    message: string,
    readonly status = 0,
    readonly code = "",
    readonly path: string | null = null,
  ) {
    super(path === null ? message : `${message} (at ${path})`);
    this.name = "ServiceError";
  }

  /** The service is away or busy, or somebody in between has answered. */
  get isNoAnswer(): boolean {
    return !this.code || [502, 503, 504].includes(this.status);
  }

  /** The same call may be taken later. */
  get isPassing(): boolean {
    return this.isNoAnswer || [401, 403, 408, 429].includes(this.status);
  }
}

const FAILURES = 3;
const BUDGET_MS = 250;
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

export class Client {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #patienceMs: number;
  readonly #outbox: Outbox;
  readonly #onTrouble: (message: string) => void;
  #failures = 0;
  #missedMs = 0;

  constructor(url: string, options: Options = {}) {
    this.#url = url.replace(/\/$/, "");
    this.#headers = { "content-type": "application/json" };
    if (options.key) this.#headers["authorization"] = `Bearer ${options.key}`;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#patienceMs = options.patienceMs ?? 60_000;
    this.#onTrouble = options.onTrouble ?? ((message) => console.warn(`driftbandits: ${message}`));
    this.#outbox = new Outbox(options.queue ?? 50_000, {
      send: (item) => this.#send(item),
      onEmpty: () => (this.#failures = 0),
      onTrouble: this.#onTrouble,
    });
  }

  /** Any operation of the service, tried again while that may help. */
  async call<K extends keyof Operations>(
    id: K,
    given: Given<K>,
    patienceMs = this.#patienceMs,
    signal?: AbortSignal,
  ): Promise<Operations[K]["answer"]> {
    const end = Date.now() + patienceMs;
    for (let wait = 50; ; wait = Math.min(2 * wait, 5000)) {
      try {
        return await this.#once(id, given, signal);
      } catch (error) {
        const trouble = error as ServiceError;
        const again = trouble.status === 429 || trouble.isNoAnswer;
        if (!again || signal?.aborted || Date.now() + wait >= end) throw error;
        await pause(wait * (0.5 + Math.random() / 2));
      }
    }
  }

  /**
   * Choose an arm. With `fallback`, the id of an arm, this takes no longer than the budget (250 ms
   * unless given) and throws nothing that the service says: the answer is the fallback then, with
   * `caller_decided` true, and the service learns of it later.
   */
  async decide(
    policy: string,
    asked: Asked,
    options: Budget & { fallback?: string } = {},
  ): Promise<DecisionAnswer> {
    const body: DecisionRequest = { event_id: crypto.randomUUID(), ...asked };
    const { fallback } = options;
    if (fallback === undefined) return this.call("decide", { policy, body });
    const index = body.arms.findIndex((arm) => (typeof arm === "string" ? arm : arm.id) === fallback);
    if (index < 0) throw new TypeError(`fallback must be the id of an arm; got ${fallback}`);
    if (body.n != null) throw new TypeError("fallback is one arm: n must not be given with it");
    const answer: DecisionAnswer = {
      ...{ event_id: body.event_id, arm: fallback, index, round: 0 },
      ...{ propensity: 1, scores: [], model_seq: 0, caller_decided: true },
    };
    const later: Item = { kind: "decision", policy, body: { ...body, played: fallback } };
    return this.#within("decide", { policy, body }, later, options, answer, answer);
  }

  /** Report what came of a decision; with a budget, or behind a queued decision, perhaps later. */
  async reward(
    policy: string,
    event_id: string,
    value: number,
    options: Budget = {},
  ): Promise<Operations["reward"]["answer"]> {
    const body = { event_id, value };
    if (options.budgetMs === undefined && !this.#outbox.hasDecision(policy, event_id)) {
      return this.call("reward", { policy, body });
    }
    const later: Item = { kind: "reward", policy, body };
    const [queued, refused] = [{ status: "queued" }, { status: "refused" }];
    return this.#within("reward", { policy, body }, later, options, queued, refused);
  }

  /** Make a policy, or change its configuration. */
  putPolicy(policy: string, body: PolicyRequest): Promise<PolicyAnswer> {
    return this.call("configure", { policy, body });
  }

  /** A policy's estimate, detections and counts. */
  policy(policy: string): Promise<PolicyAnswer> {
    return this.call("policy", { policy });
  }

  /** Why a decision was made, and what came of it. */
  async explanation(policy: string, event_id: string): Promise<ExplainedDecision> {
    return (await this.call("explanation", { policy, event_id })).decision;
  }

  /** How many fallback decisions and rewards the service does not know of yet. */
  get unsent(): number {
    return this.#outbox.size;
  }

  /** Wait until everything was sent, or patience ends; how many are left. */
  async flush(patienceMs = 60_000): Promise<number> {
    const end = Date.now() + patienceMs;
    while (this.unsent && Date.now() < end) await pause(10);
    return this.unsent;
  }

  /** Stop sending; what is unsent is lost. */
  close(): void {
    this.#outbox.close();
  }

  async #within<K extends "decide" | "reward">(
    id: K,
    given: Given<K>,
    later: Item,
    options: Budget,
    queued: Operations[K]["answer"],
    refused: Operations[K]["answer"],
  ): Promise<Operations[K]["answer"]> {
    const budgetMs = options.budgetMs ?? BUDGET_MS;
    const behind = later.kind === "reward" && this.#outbox.hasDecision(later.policy, later.body.event_id);
    if (this.#failures < FAILURES && !behind) {
      try {
        const answer = await this.call(id, given, budgetMs, AbortSignal.timeout(budgetMs));
        this.#failures = 0;
        return answer;
      } catch (error) {
        const trouble = error as ServiceError;
        if (trouble.isNoAnswer) {
          this.#missedMs = this.#failures ? Math.min(this.#missedMs, budgetMs) : budgetMs;
          this.#failures += 1;
        } else {
          this.#onTrouble(trouble.message);
        }
        if (!trouble.isPassing) return refused;
      }
    }
    this.#outbox.put(later);
    return queued;
  }

  /** Of the outbox: whether an item is dealt with. */
  async #send(item: Item): Promise<boolean> {
    const began = Date.now();
    const { policy } = item;
    try {
      if (item.kind === "decision") await this.#once("decide", { policy, body: item.body });
      else await this.#once("reward", { policy, body: item.body });
    } catch (error) {
      const trouble = error as ServiceError;
      if (trouble.isPassing) return false;
      this.#onTrouble(`a ${item.kind} of policy ${policy} was refused: ${trouble.message}`);
    }
    if (Date.now() - began <= this.#missedMs) this.#failures = 0;
    return true;
  }

  async #once<K extends keyof Operations>(
    id: K,
    given: Given<K>,
    signal: AbortSignal = AbortSignal.timeout(this.#timeoutMs),
  ): Promise<Operations[K]["answer"]> {
    const { method, path } = OPERATIONS[id];
    const names = given as unknown as Record<string, string>;
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name]!));
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(given.query ?? {})) query.set(name, String(value));
    const target = `${this.#url}${filled}${String(query) && `?${query}`}`;
    const body = given.body === undefined ? {} : { body: JSON.stringify(given.body) };
    let answer: Response, text: string;
    try {
      answer = await fetch(target, { method, headers: this.#headers, signal, ...body });
      text = await answer.text();
    } catch (error) {
      throw new ServiceError(`no answer to ${method} ${filled}: ${(error as Error).message}`);
    }
    if (!answer.ok) throw refusal(answer.status, text);
    if (id === "metrics") return text as Operations[K]["answer"];
    try {
      return JSON.parse(text) as Operations[K]["answer"];
    } catch {
      throw new ServiceError("the answer is not what a decision service says", answer.status);
    }
  }
}

function refusal(status: number, text: string): ServiceError {
  try {
    const { code, message, path } = (JSON.parse(text) as ErrorAnswer).error;
    return new ServiceError(`${status}: ${message}`, status, code, path ?? null);
  } catch {
    return new ServiceError(`${status}: ${text.slice(0, 200)}`, status);
  }
}
