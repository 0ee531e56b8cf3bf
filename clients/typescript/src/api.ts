// Made by generate.py from the OpenAPI document of the service. Do not edit: `make typescript`.

/**
 * The accounts of a policy's guardrails: the balance of its budget, and by arm how much its
 * least and its largest share have been undercut so far, in decisions.
 */
export interface Accounts {
  balance?: number;
  credits?: Record<string, number[]>;
}

/** A choice and its features. */
export interface Arm {
  id: string;
  x?: number[];
  features?: Record<string, unknown>;
}

/** The plays of an arm and their outcomes. */
export interface ArmCounts {
  decisions: number;
  rewards: number;
  reward_sum: number;
}

/** Some minutes from `at` on, by arm; `others` are those that were played least. */
export interface ArmsPart {
  at: string;
  minutes: number;
  arms: Record<string, ArmCounts>;
  others?: ArmCounts | null;
}

/**
 * A version to come: `how`, and what differs that the estimate depends on.
 *
 * While it is `relearned` it has learned the log up to event `seq` `of` so many, from as many
 * outcomes as `learned_from` says; `skipped` are decisions that it cannot read. It is `held` while
 * the policy is frozen, and takes over when that is thawed. With `dry_run` nothing was changed,
 * and `none` would be. `failed` says why it cannot be learned.
 */
export interface Change {
  how: string;
  version: number;
  arguments?: string[];
  seq?: number;
  of?: number;
  learned_from?: number;
  skipped?: number;
  dry_run?: boolean;
  held?: boolean;
  failed?: string | null;
}

/**
 * One version of a policy; it decided from `since_seq` on.
 *
 * `how` it began: `fresh`, without what was learned before, or with the outcomes that it had been
 * `learned_from`, `carried` over as they were or `relearned` from the log.
 */
export interface Configuration {
  version: number;
  since_seq: number;
  since: string;
  arguments: Record<string, unknown>;
  seed: number;
  mode: "online" | "apprentice" | "frozen" | (string & {});
  reward_wait_s: number | null;
  default_reward: number | null;
  half_life_s: number | null;
  window_s: number | null;
  fresh: boolean;
  how?: "fresh" | "carried" | "relearned" | (string & {}) | null;
  learned_from?: number | null;
  control?: number;
  shares?: Record<string, number[]> | null;
  budget?: number | null;
  limit_window?: number;
}

/**
 * Events of all versions, by kind; `rewards` are those that were learned or recorded.
 *
 * `refused` are decisions with a reward out of range, `clipped` rewards learned from its end.
 * `caller_decided` are decisions that callers had made by themselves, `corrected` those among them
 * that the service had made as well, `withdrawn` those that were never shown.
 */
export interface Counts {
  decisions: number;
  rewards: number;
  defaults: number;
  late: number;
  duplicates: number;
  conflicts: number;
  erased: number;
  refused?: number;
  clipped?: number;
  caller_decided?: number;
  corrected?: number;
  withdrawn?: number;
}

/**
 * `propensity` is the probability the choice had, `model_seq` the last event it knew of.
 *
 * Where `n` was given there is a `ranking`, whose first place is the decision itself. Where
 * `caller_decided`, it is what the caller has played by itself. In a `control` the policy has no
 * say. `reason` says by what another arm was played than the policy would have played by itself.
 */
export interface DecisionAnswer {
  event_id: string;
  arm: string;
  index: number;
  round: number;
  propensity: number;
  scores: number[];
  model_seq: number;
  ranking?: Place[] | null;
  caller_decided?: boolean;
  control?: boolean;
  reason?: string | null;
}

/**
 * Which of these arms?
 *
 * `context` is an object of columns and values where the policy has features, and a vector that
 * separate arms have in common, in place of an `x` of each; arms that need no more may be given by
 * their ids alone. `n` asks for a ranked list of so many. `baseline` is the id of the arm that the
 * caller would play by itself. `played` is what it has played by itself already, without an answer
 * of the service, with `propensity` if it drew it: that is recorded, learned from like a baseline,
 * and takes the place of what the service may have decided for the same request. `unit` is on
 * whose behalf it is: where there are controls, all decisions of a unit are, or none is. What
 * `exclude` lists is scored, and not played.
 */
export interface DecisionRequest {
  /** chosen by the caller */
  event_id: string;
  arms: (string | OfferedArm)[];
  baseline?: string | null;
  context?: number[] | Record<string, unknown> | null;
  n?: number | null;
  played?: string | null;
  propensity?: number | null;
  unit?: string | null;
  exclude?: string[] | null;
}

/** One of a batch: what the single request would have answered. */
export interface DecisionResult {
  status: number;
  decision?: DecisionAnswer | null;
  error?: Problem | null;
}

/** Results in the order of the request. */
export interface DecisionsAnswer {
  results: DecisionResult[];
}

/** Many decisions, made one after the other. */
export interface DecisionsRequest {
  decisions: DecisionRequest[];
}

/**
 * A change that the policy noticed in `round`, and believes to have come before `change`.
 *
 * Of `auto` the statistic is the probability of a change, and `size` by how much mean rewards have
 * changed. `since` is when that was, to the minute, and `moved` and `arms` are the coefficients
 * and the mean rewards of arms that differ most, where the last day still tells.
 */
export interface Detection {
  round: number;
  at: string;
  statistic: number;
  threshold: number;
  change: number | null;
  size?: number | null;
  since?: string | null;
  moved?: Moved[];
  arms?: Moved[];
}

/** A fingerprint of the state that the first `seq` events make. */
export interface DigestAnswer {
  policy: string;
  seq: number;
  digest: string;
}

/** The number of events whose content was erased. */
export interface ErasureAnswer {
  erased: number;
}

/** Which events lose their content: by id, by the prefix of ids, or by age in days. */
export interface ErasureRequest {
  event_ids?: string[] | null;
  prefix?: string | null;
  older_than_days?: number | null;
}

/** The body of every refusal. */
export interface ErrorAnswer {
  error: Problem;
}

/** A line of the log; which fields it has depends on its kind. */
export interface EventAnswer {
  seq: number;
  at: string;
  kind: string;
  event_id?: string;
  erased?: boolean;
  version?: number | null;
  arms?: Arm[] | null;
  context?: number[] | Record<string, unknown> | null;
  baseline?: string | null;
  arm?: string | null;
  index?: number | null;
  suggested?: number | null;
  round?: number | null;
  propensity?: number | null;
  caller_decided?: boolean;
  scores?: number[] | null;
  place?: number | null;
  value?: number | null;
  what?: string | null;
  configuration?: Configuration | null;
  seqs?: number[] | null;
  reason?: string | null;
  control?: boolean | null;
  conditional?: number | null;
  unit?: string | null;
  excluded?: string[] | null;
  name?: string | null;
  retired?: boolean | null;
}

/** `next` is what to give as `after` for the events that follow. */
export interface EventsAnswer {
  events: EventAnswer[];
  next: number;
}

/**
 * `index` was played, `suggested` is what the policy would have played by itself.
 *
 * `caller_decided`: the caller had played by itself.
 */
export interface ExplainedDecision {
  event_id: string;
  seq: number;
  at: string;
  version: number;
  round: number;
  index: number;
  suggested: number;
  baseline: number | null;
  propensity: number;
  arms: ScoredArm[];
  outcome: Outcome | null;
  context?: number[] | Record<string, unknown>;
  caller_decided?: boolean;
  control?: boolean;
  conditional?: number | null;
  reason?: string | null;
  excluded?: string[];
  why?: string;
}

/** One decision of the log, as of event `seq`. */
export interface ExplanationAnswer {
  policy: string;
  seq: number;
  decision: ExplainedDecision;
}

/** Newest first, as of event `seq`. */
export interface ExplanationsAnswer {
  policy: string;
  seq: number;
  decisions: ExplainedDecision[];
}

/** `ok`, or why not. */
export interface HealthAnswer {
  status: string;
}

/** The last day, minutes without events left out; as of event `seq`. */
export interface HistoryAnswer {
  policy: string;
  minutes: Minute[];
  seq?: number;
  arms?: ArmsPart[];
}

/**
 * A hypothesis about the parameter and its posterior probability.
 *
 * A constant one is what it is since the round `since`, or always, and `prior` says how tight its
 * prior was, as a share of lam. One that is wandering or turning goes its own way within `rounds`.
 */
export interface Hypothesis {
  path: "constant" | "wandering" | "turning" | (string & {});
  probability: number;
  since?: number | null;
  rounds?: number | null;
  prior?: number | null;
}

/** An estimate and where the truth lies, watched at any time; null where that is not known. */
export interface Interval {
  value: number;
  low: number | null;
  high: number | null;
}

/**
 * The policy beside its control since event `since_seq`, averages over that time.
 *
 * `until` is where the decisions end that are counted, null where all with a known outcome are.
 * `pending` are not counted yet, `unknown` never will. `relative` is the difference as a share of
 * the control's mean. `method` is bounded, where intervals hold for any number of rewards, or
 * asymptotic, for many of them. `better` says which rewards are: higher, or lower ones of a cost.
 */
export interface Lift {
  since: string;
  since_seq: number;
  until: string | null;
  share: number;
  level: number;
  method: string;
  better: string;
  policy: Side;
  control: Side;
  difference: Interval | null;
  relative: Interval | null;
  pending: number;
  unknown: number;
}

/** The lift as of event `seq`, with its last days, oldest first; null without a control. */
export interface LiftAnswer {
  policy: string;
  seq: number;
  lift: Lift | null;
  days: LiftOfDay[];
}

/** The lift of one day's decisions (UTC), with an interval of its own. */
export interface LiftOfDay {
  day: string;
  policy: Side;
  control: Side;
  difference: Interval | null;
}

/**
 * A column that had numbers far beyond what it had shown: how many, and the last one.
 *
 * The column is its name where the policy has features, else its place.
 */
export interface LimitedColumn {
  column: string | number;
  count: number;
  last: number;
}

/**
 * The decisions of the minute that began `at`, and their outcomes so far.
 *
 * Sums are over rewards as they were learned, defaults among them, whenever they came. `pending`
 * are decisions whose outcome is open. `theta` is the estimate as the minute began, and `round`
 * how many decisions there were before.
 */
export interface Minute {
  at: string;
  decisions: number;
  rewards: number;
  reward_sum: number;
  reward_square_sum: number;
  theta: number[];
  pending?: number;
  round?: number;
}

/** A coefficient, or the mean reward of an arm, before and after a change. */
export interface Moved {
  name: string;
  before: number;
  after: number;
}

/**
 * An arm of a request, held to the limits.
 *
 * It has an `x`, or `features` where the policy has them. Separate arms may have neither.
 */
export interface OfferedArm {
  id: string;
  x?: number[];
  features?: Record<string, unknown>;
}

/**
 * The outcome of a decision; `kind` is reward, default, late or withdrawn.
 *
 * A withdrawn decision has no value, and an erased one has lost it.
 */
export interface Outcome {
  kind: string;
  value: number | null;
  at: string;
}

/** A place of a ranked list, which has a reward of its own. */
export interface Place {
  event_id: string;
  arm: string;
  index: number;
  round: number;
  propensity: number;
}

/** The policies that a key may see. */
export interface PoliciesAnswer {
  policies: PolicySummary[];
}

/**
 * A policy as of its event `seq`.
 *
 * The estimate of separate arms is given by their ids, up to a hundred of them. `names` are those
 * of its coordinates, where the policy has features. `beliefs` are those of `auto`, the most
 * probable first; separate arms have them in common. `limited` are columns of `auto` that had
 * numbers far beyond what they had shown.
 */
export interface PolicyAnswer {
  policy: string;
  version: number;
  seq: number;
  at: string;
  configuration: Configuration;
  round: number;
  theta_hat: number[] | Record<string, number[]>;
  theta: number[] | Record<string, number[]>;
  radius: number;
  effective_sample_size: number;
  detections: Detection[];
  pending: number;
  counts: Counts;
  names?: string[] | null;
  beliefs?: Hypothesis[];
  limited?: LimitedColumn[];
  accounts?: Accounts | null;
  lift?: Lift | null;
  notes?: string[];
  change?: Change | null;
  retired?: boolean;
  shadows?: ShadowAnswer[];
}

/** The arguments of `driftbandits.policy`, and how they are served. */
export interface PolicyRequest {
  mode?: "apprentice" | "frozen" | "online";
  reward_wait_s?: number | null;
  default_reward?: number | null;
  half_life_s?: number | null;
  window_s?: number | null;
  seed?: number | null;
  fresh?: boolean;
  control?: number;
  shares?: Record<string, number[]> | null;
  budget?: number | null;
  limit_window?: number;
  dry_run?: boolean;
  name: string;
  features?: {
    context?: Record<string, string>;
    arm?: Record<string, string>;
    cross?: string[][];
    extra?: "refuse" | "ignore" | string[];
    limit?: number;
    levels?: number;
    fitted?: Record<string, unknown>;
  } | null;
  dim?: number | null;
  arms?: string;
  reward?: string | null;
  outside?: string | null;
  link?: string;
  intercept?: boolean | null;
  epsilon?: number;
  horizon?: number | null;
  changes?: number | null;
  window?: number | null;
  discount?: number | null;
  false_alarm_rate?: number | null;
  exact?: boolean;
  S?: number;
  L?: number;
  too_long?: string;
  m?: number | null;
  centre?: number;
  lam?: number | null;
  delta?: number;
  bonus_scale?: number;
  path_length?: number | null;
  projection?: string;
}

/** A line of the list of policies. */
export interface PolicySummary {
  policy: string;
  name: string;
  version: number;
  mode: "online" | "apprentice" | "frozen" | (string & {});
  seq: number;
  pending: number;
  counts: Counts;
  retired?: boolean;
}

/** `path` leads to the field at fault, as in `$.arms[1].x[0]`. */
export interface Problem {
  code: string;
  message: string;
  path?: string | null;
}

/** A request to bring a version back. */
export interface RestoreRequest {
  fresh?: boolean;
  dry_run?: boolean;
}

/**
 * A frozen policy answers `recorded`: the outcome is kept, and nothing is learned from it.
 *
 * A value outside the range of the policy's rewards is `clipped`, and learned from the end of it.
 */
export interface RewardAnswer {
  status: "learned" | "late" | "duplicate" | "recorded" | (string & {});
  clipped?: boolean;
}

/** The outcome of a decision. */
export interface RewardRequest {
  /** chosen by the caller */
  event_id: string;
  value: number;
}

/** One of a batch: what the single request would have answered. */
export interface RewardResult {
  status: number;
  reward?: RewardAnswer | null;
  error?: Problem | null;
}

/** Results in the order of the request. */
export interface RewardsAnswer {
  results: RewardResult[];
}

/** Many rewards, learned one after the other. */
export interface RewardsRequest {
  rewards: RewardRequest[];
}

/**
 * Score = mean + width, null where the log does not have them.
 *
 * `parts` of features, by name, as long as the policy remembers the decision.
 */
export interface ScoredArm {
  id: string;
  score: number;
  mean?: number | null;
  width?: number | null;
  features?: Record<string, unknown>;
  parts?: Record<string, number>;
}

/**
 * A configuration that decides beside the one that is played, as of event `seq` `of` so many.
 *
 * It has seen `decisions`, and would have played the same arm in `agreed` of them. In `rounds`,
 * those with a reward in which every arm had a chance, it would have earned `value`, and what was
 * played earned `played_value`; `effective_rounds` of them tell as much if all told the same. The
 * estimate is doubly robust: what its model expected, corrected by what came.
 * `failed` says why it learns no more.
 */
export interface ShadowAnswer {
  name: string;
  since: string;
  arguments: Record<string, unknown>;
  seed: number;
  half_life_s: number | null;
  window_s: number | null;
  seq: number;
  of: number;
  learned_from: number;
  skipped: number;
  decisions: number;
  agreed: number;
  rounds: number;
  effective_rounds: number;
  value: Interval | null;
  played_value: number | null;
  difference: Interval | null;
  failed?: string;
}

/** Shadows, sorted by name. */
export interface ShadowsAnswer {
  shadows: ShadowAnswer[];
}

/** Decisions of one side, and the rewards that count so far; the mean is of all decisions. */
export interface Side {
  decisions: number;
  rewards: number;
  mean: Interval | null;
}

/** Oldest first. */
export interface VersionsAnswer {
  versions: Configuration[];
}

/** `withdrawn`, or `duplicate` if it was before. */
export interface WithdrawalAnswer {
  status: "withdrawn" | "duplicate" | (string & {});
}

/** A decision that was never shown; of a list, each place by itself. */
export interface WithdrawalRequest {
  /** chosen by the caller */
  event_id: string;
}

export interface Operations {
  /** Choose an arm; the same request again gives the same answer */
  decide: {
    names: { policy: string };
    query: {};
    body: DecisionRequest;
    answer: DecisionAnswer;
  };
  /** Make many decisions, one after the other */
  decide_many: {
    names: { policy: string };
    query: {};
    body: DecisionsRequest;
    answer: DecisionsAnswer;
  };
  /** Report what came of a decision */
  reward: {
    names: { policy: string };
    query: {};
    body: RewardRequest;
    answer: RewardAnswer;
  };
  /** Report many rewards, one after the other */
  reward_many: {
    names: { policy: string };
    query: {};
    body: RewardsRequest;
    answer: RewardsAnswer;
  };
  /** Take back a decision that was never shown */
  withdraw: {
    names: { policy: string };
    query: {};
    body: WithdrawalRequest;
    answer: WithdrawalAnswer;
  };
  /** The policies that this key may see */
  policies: {
    names: {};
    query: {};
    body: undefined;
    answer: PoliciesAnswer;
  };
  /** Estimate, radius, memory and counts of a policy */
  policy: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** Configure a policy; a change makes a new version */
  configure: {
    names: { policy: string };
    query: {};
    body: PolicyRequest;
    answer: PolicyAnswer;
  };
  /** Let a policy decide no more; its log stays, and open decisions take their rewards */
  retire: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** Bring the configuration of a version back */
  restore: {
    names: { policy: string; version: string };
    query: {};
    body: RestoreRequest;
    answer: PolicyAnswer;
  };
  /** Let a retired policy decide again */
  bring_back: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** Decide with what was learned so far, and learn and forget nothing */
  freeze: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** Learn again, in the mode before it was frozen */
  thaw: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** What configurations beside the one that is played would have done */
  shadows: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: ShadowsAnswer;
  };
  /** Let a configuration decide beside the one that is played */
  put_shadow: {
    names: { policy: string; shadow: string };
    query: {};
    body: PolicyRequest;
    answer: ShadowsAnswer;
  };
  /** Let a shadow decide no more */
  drop_shadow: {
    names: { policy: string; shadow: string };
    query: {};
    body: undefined;
    answer: ShadowsAnswer;
  };
  /** Let a shadow be played, as a new version */
  promote: {
    names: { policy: string; shadow: string };
    query: {};
    body: undefined;
    answer: PolicyAnswer;
  };
  /** Every configuration the policy has had */
  versions: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: VersionsAnswer;
  };
  /** The fingerprint of the state, to compare with a replay */
  digest: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: DigestAnswer;
  };
  /** The policy beside its control, with intervals that may be looked at at any time */
  lift: {
    names: { policy: string };
    query: {};
    body: undefined;
    answer: LiftAnswer;
  };
  /** The last day by the minute */
  history: {
    names: { policy: string };
    query: { after?: number; since?: number };
    body: undefined;
    answer: HistoryAnswer;
  };
  /** The last decisions with mean, width and score of every arm */
  explanations: {
    names: { policy: string };
    query: { limit?: number };
    body: undefined;
    answer: ExplanationsAnswer;
  };
  /** A decision of the log, however old */
  explanation: {
    names: { policy: string; event_id: string };
    query: {};
    body: undefined;
    answer: ExplanationAnswer;
  };
  /** The log */
  events: {
    names: { policy: string };
    query: { after?: number; limit?: number; format?: "json" | "parquet" };
    body: undefined;
    answer: EventsAnswer;
  };
  /** Take the content out of events; what was learned stays */
  erase: {
    names: { policy: string };
    query: {};
    body: ErasureRequest;
    answer: ErasureAnswer;
  };
  /** Is the process alive? */
  health: {
    names: {};
    query: {};
    body: undefined;
    answer: HealthAnswer;
  };
  /** Are the kernels compiled and the log replayed? */
  readiness: {
    names: {};
    query: {};
    body: undefined;
    answer: HealthAnswer;
  };
  /** Counts and times for Prometheus */
  metrics: {
    names: {};
    query: {};
    body: undefined;
    answer: string;
  };
}

export const OPERATIONS = {
  decide: { method: "POST", path: "/v1/policies/{policy}/decisions" },
  decide_many: { method: "POST", path: "/v1/policies/{policy}/decisions:batch" },
  reward: { method: "POST", path: "/v1/policies/{policy}/rewards" },
  reward_many: { method: "POST", path: "/v1/policies/{policy}/rewards:batch" },
  withdraw: { method: "POST", path: "/v1/policies/{policy}/withdrawals" },
  policies: { method: "GET", path: "/v1/policies" },
  policy: { method: "GET", path: "/v1/policies/{policy}" },
  configure: { method: "PUT", path: "/v1/policies/{policy}" },
  retire: { method: "DELETE", path: "/v1/policies/{policy}" },
  restore: { method: "POST", path: "/v1/policies/{policy}/versions/{version}:restore" },
  bring_back: { method: "POST", path: "/v1/policies/{policy}:restore" },
  freeze: { method: "POST", path: "/v1/policies/{policy}:freeze" },
  thaw: { method: "POST", path: "/v1/policies/{policy}:thaw" },
  shadows: { method: "GET", path: "/v1/policies/{policy}/shadows" },
  put_shadow: { method: "PUT", path: "/v1/policies/{policy}/shadows/{shadow}" },
  drop_shadow: { method: "DELETE", path: "/v1/policies/{policy}/shadows/{shadow}" },
  promote: { method: "POST", path: "/v1/policies/{policy}/shadows/{shadow}:promote" },
  versions: { method: "GET", path: "/v1/policies/{policy}/versions" },
  digest: { method: "GET", path: "/v1/policies/{policy}/digest" },
  lift: { method: "GET", path: "/v1/policies/{policy}/lift" },
  history: { method: "GET", path: "/v1/policies/{policy}/history" },
  explanations: { method: "GET", path: "/v1/policies/{policy}/explanations" },
  explanation: { method: "GET", path: "/v1/policies/{policy}/explanations/{event_id}" },
  events: { method: "GET", path: "/v1/policies/{policy}/events" },
  erase: { method: "POST", path: "/v1/policies/{policy}/erasures" },
  health: { method: "GET", path: "/healthz" },
  readiness: { method: "GET", path: "/readyz" },
  metrics: { method: "GET", path: "/metrics" },
} as const;
