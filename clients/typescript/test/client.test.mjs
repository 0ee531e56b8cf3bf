// Against a real service: DRIFTBANDITS_URL and DRIFTBANDITS_KEY say where (tests/test_typescript.py).
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";

import { Client, ServiceError } from "../dist/index.js";

const url = process.env.DRIFTBANDITS_URL;
const key = process.env.DRIFTBANDITS_KEY;
const arms = [
  { id: "a", x: [0.6, 0.1] },
  { id: "b", x: [0.1, 0.7] },
];
const client = new Client(url, { key });

/** A door to the service that can be shut: then requests hang, and are never passed on. */
class Door {
  mode = "open";
  asked = 0;
  server = createServer((coming, answer) => {
    this.asked += 1;
    if (this.mode === "shut") return;
    const body = [];
    coming.on("data", (part) => body.push(part));
    coming.on("end", () => {
      const { method, headers } = coming;
      const passed = request(url + coming.url, { method, headers }, (said) => {
        // "slow": the service has decided, and the answer stays here.
        if (this.mode === "slow") return void said.resume();
        answer.writeHead(said.statusCode, said.headers);
        said.pipe(answer);
      });
      passed.end(Buffer.concat(body));
    });
  });

  async open() {
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

before(async () => {
  const made = await client.putPolicy("ts", { name: "D-GLUCB", dim: 2, discount: 0.99, epsilon: 0.1 });
  assert.equal(made.version, 1);
});

after(() => client.close());

test("decide, reward, ask why", async () => {
  const decision = await client.decide("ts", { arms, event_id: "v1" });
  assert.ok(["a", "b"].includes(decision.arm));
  assert.deepEqual(await client.decide("ts", { arms, event_id: "v1" }), decision);
  assert.deepEqual(await client.reward("ts", "v1", 1), { status: "learned" });
  assert.deepEqual(await client.reward("ts", "v1", 1), { status: "duplicate" });
  const why = await client.explanation("ts", "v1");
  assert.equal(why.arms[why.index].id, decision.arm);
  assert.equal(why.outcome.value, 1);
  assert.equal((await client.policy("ts")).counts.rewards, 1);
});

test("every operation by its name, queries included", async () => {
  const page = await client.call("events", { policy: "ts", query: { after: 0, limit: 1 } });
  assert.deepEqual([page.events.length, page.events[0].kind], [1, "configured"]);
  const { policies } = await client.call("policies", {});
  assert.ok(policies.some((each) => each.policy === "ts"));
  const two = [{ arms, event_id: "m1" }, { arms, event_id: "m2" }];
  const { results } = await client.call("decide_many", { policy: "ts", body: { decisions: two } });
  assert.deepEqual(results.map((each) => each.status), [200, 200]);
  assert.match(await client.call("metrics", {}), /driftbandits_events_total/);
  assert.equal((await client.call("readiness", {})).status, "ok");
});

test("a refusal says what is wrong and where", async () => {
  const refused = await client.decide("ts", { arms: [{ id: "a", x: [1] }] }).catch((e) => e);
  assert.ok(refused instanceof ServiceError);
  assert.deepEqual([refused.status, refused.code, refused.path], [422, "invalid", "$.arms[0].x"]);
  await assert.rejects(new Client(url, { key: "dbk_no" }).policy("ts"), { status: 401 });
  await assert.rejects(client.policy("nobody"), { status: 404 });
  await assert.rejects(new Client("http://127.0.0.1:9", { patienceMs: 0 }).policy("ts"), { status: 0 });
});

for (const mode of ["shut", "slow"]) {
  test(`a service that is ${mode} holds nobody up, and hears of everything`, async () => {
    const door = new Door();
    const shop = new Client(await door.open(), { key, timeoutMs: 500 });
    door.mode = mode;
    const shown = [];
    for (let i = 0; i < 20; i += 1) {
      const began = performance.now();
      const options = { fallback: "b", budgetMs: 100 };
      shown.push(await shop.decide("ts", { arms, event_id: `${mode}-${i}` }, options));
      assert.equal((await shop.reward("ts", `${mode}-${i}`, i % 2)).status, "queued");
      assert.ok(performance.now() - began < 2000);
    }
    assert.ok(shown.every((each) => each.caller_decided && each.arm === "b"));
    assert.ok(door.asked < 20); // after three failures it was not asked any more
    door.mode = "open";
    assert.equal(await shop.flush(), 0);
    const again = await shop.decide("ts", { arms, event_id: `${mode}-back` }, { fallback: "b", budgetMs: 20_000 });
    assert.ok(!again.caller_decided);
    for (let i = 0; i < 20; i += 1) {
      const why = await client.explanation("ts", `${mode}-${i}`);
      assert.deepEqual([why.arms[why.index].id, why.caller_decided, why.outcome.value], ["b", true, i % 2]);
    }
    shop.close();
    door.close();
  });
}

test("a fallback that is refused for good is shown and not queued", async () => {
  const troubles = [];
  const shop = new Client(url, { key, onTrouble: (message) => troubles.push(message) });
  const short = [{ id: "a", x: [1] }];
  assert.ok((await shop.decide("ts", { arms: short }, { fallback: "a", budgetMs: 20_000 })).caller_decided);
  assert.equal((await shop.reward("ts", "nobody", 1, { budgetMs: 20_000 })).status, "refused");
  assert.deepEqual([shop.unsent, troubles.length], [0, 2]);
  await assert.rejects(shop.decide("ts", { arms }, { fallback: "z" }), TypeError);
  await assert.rejects(shop.decide("ts", { arms, n: 2 }, { fallback: "a" }), TypeError);
  const full = new Client("http://127.0.0.1:9", { queue: 1, onTrouble: (m) => troubles.push(m) });
  for (let i = 0; i < 3; i += 1) await full.decide("ts", { arms }, { fallback: "a", budgetMs: 50 });
  assert.equal(full.unsent, 1);
  assert.match(troubles.at(-1), /no room/);
  full.close();
});
