/** What a client still has to tell the service: decisions first, so that rewards find theirs. */

import type { DecisionRequest, RewardRequest } from "./api.js";

export type Item =
  | { kind: "decision"; policy: string; body: DecisionRequest }
  | { kind: "reward"; policy: string; body: RewardRequest };

export interface Sender {
  /** Whether an item is dealt with; otherwise it is tried again. */
  send(item: Item): Promise<boolean>;
  onEmpty(): void;
  onTrouble(message: string): void;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export class Outbox {
  readonly #limit: number;
  readonly #sender: Sender;
  readonly #decisions: Item[] = [];
  readonly #rewards: Item[] = [];
  readonly #waiting = new Set<string>(); // the events whose decisions are in here
  #isSending = false;
  #isClosed = false;

  constructor(limit: number, sender: Sender) {
    this.#limit = limit;
    this.#sender = sender;
  }

  get size(): number {
    return this.#decisions.length + this.#rewards.length;
  }

  /** Whether a reward has to wait behind its decision. */
  hasDecision(policy: string, eventId: string): boolean {
    return this.#waiting.has(`${policy}\n${eventId}`);
  }

  put(item: Item): void {
    if (this.size >= this.#limit) {
      this.#sender.onTrouble(`no room for another ${item.kind}: ${this.size} calls wait`);
      return;
    }
    (item.kind === "decision" ? this.#decisions : this.#rewards).push(item);
    if (item.kind === "decision") this.#waiting.add(`${item.policy}\n${item.body.event_id}`);
    if (!this.#isSending) void this.#sendAll();
  }

  close(): void {
    this.#isClosed = true;
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    for (let wait = FIRST_PAUSE_MS; this.size && !this.#isClosed; ) {
      const lane = this.#decisions.length ? this.#decisions : this.#rewards;
      if (await this.#sender.send(lane[0]!)) {
        const { kind, policy, body } = lane.shift()!;
        if (kind === "decision") this.#waiting.delete(`${policy}\n${body.event_id}`);
        wait = FIRST_PAUSE_MS;
      } else {
        await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random() / 2)));
        wait = Math.min(2 * wait, LONGEST_PAUSE_MS);
      }
    }
    this.#isSending = false;
    if (!this.size) this.#sender.onEmpty();
  }
}
