// What a type checker has to notice; compiled, never run.
import { Client, type DecisionAnswer } from "../src/index.js";

const client = new Client("http://127.0.0.1:8080");

export async function uses(): Promise<DecisionAnswer> {
  await client.reward("news", "v1", 1);
  await client.call("events", { policy: "news", query: { after: 3 } });
  await client.putPolicy("news", { name: "auto", dim: 2, mode: "frozen" });
  // @ts-expect-error a policy has a name
  await client.putPolicy("news", { dim: 2 });
  // @ts-expect-error no such mode
  await client.putPolicy("news", { name: "auto", mode: "asleep" });
  // @ts-expect-error a value is a number
  await client.reward("news", "v1", "1");
  // @ts-expect-error no such operation
  await client.call("nothing", {});
  // @ts-expect-error the path names a policy
  await client.call("policy", {});
  // @ts-expect-error arms have ids
  await client.decide("news", { arms: [{ x: [1] }] });
  const decision = await client.decide("news", { arms: ["a", { id: "b", x: [1, 2] }] });
  // @ts-expect-error no such field
  return decision.nothing;
}
