"""Entries of the benchmark that play other libraries, as their own documentation advises.

    driftbandits bench --entries benchmarks/peers/entries.py

Each needs its library: pip install -r benchmarks/peers/requirements.txt. An entry whose library is
not installed is left out. A library with several settings is called "library: setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbandits.bench import Facts, NotPlayed

MOST_COEFFICIENTS = 400
"""For coba, whose matrix has the square of the coefficients of all arms: 3 ms a decision at 640."""


class VowpalWabbit:
    """One multiline example a round: the context in the namespace of its arm; rewards in 0..1."""

    def __init__(self, facts: Facts, seed: int, *, options: str) -> None:
        import vowpalwabbit

        bounds = "--cb_min_cost 0 --cb_max_cost 1"
        self.vw = vowpalwabbit.Workspace(f"--cb_explore_adf --quiet {bounds} {options}")
        self.rng = np.random.default_rng(seed)
        self.facts = facts

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        words = " ".join(f"f{j}:{x:.7g}" for j, x in enumerate(context.tolist()) if x)
        self.lines = [f"|a{k} c {words}" for k in arms]
        shares = np.array(self.vw.predict(self.lines))
        index = int(np.searchsorted(np.cumsum(shares), self.rng.random() * shares.sum()))
        index = min(index, len(self.lines) - 1)
        self.share = float(shares[index])
        return index

    def update(self, index: int, reward: float) -> None:
        cost = 1.0 - self.facts.share(reward)
        self.lines[index] = f"0:{cost:g}:{self.share:.9g} {self.lines[index]}"
        self.vw.learn(self.lines)


class River:
    """`LinUCBDisjoint`, with a constant; its only choice is whether old rewards fade."""

    def __init__(self, facts: Facts, seed: int, *, smoothing: float | None) -> None:
        from river import bandit

        self.policy = bandit.LinUCBDisjoint(smoothing=smoothing, seed=seed)

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        self.arms = list(arms)
        self.row = {"constant": 1.0, **dict(enumerate(context.tolist()))}
        self.arm = self.policy.pull(self.arms, context=self.row)
        return self.arms.index(self.arm)

    def update(self, index: int, reward: float) -> None:
        self.policy.update(self.arm, self.row, reward)


class BayesianBandits:
    """A logistic regression for each arm; a normal one where rewards are no clicks."""

    def __init__(self, facts: Facts, seed: int, *, fading: float = 1.0) -> None:
        import bayesianbandits as bb

        def learner() -> Any:
            rule = bb.StabilizedForgetting(fading) if fading < 1.0 else None
            if facts.clicks:
                return bb.BayesianGLM(link="logit", forgetting=rule)
            return bb.NormalRegressor(alpha=1.0, beta=1.0, forgetting=rule)

        arms = [bb.Arm(k, learner=learner()) for k in range(facts.arms)]
        self.arms = {arm.action_token: arm for arm in arms}
        ucb = bb.UpperConfidenceBound(alpha=0.68)
        self.agent = bb.ContextualAgent(arms, ucb, random_seed=seed)
        self.offered = list(range(facts.arms))

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        if list(arms) != self.offered:
            for k in set(self.offered) - set(arms):
                self.agent.remove_arm(k)
            for k in set(arms) - set(self.offered):
                self.agent.add_arm(self.arms[k])
            self.offered = list(arms)
        self.row = np.append(context, 1.0)[None]
        self.arm = self.agent.pull(self.row)[0]
        return list(arms).index(self.arm)

    def update(self, index: int, reward: float) -> None:
        self.agent.select_for_update(self.arm).update(self.row, np.array([reward]))


class Mabwiser:
    """Its `LinUCB`, which must be given all arms and one row before its first choice."""

    def __init__(self, facts: Facts, seed: int, *, alpha: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        arms = list(range(facts.arms))
        self.mab = MAB(arms, LearningPolicy.LinUCB(alpha=alpha), seed=seed)
        self.mab.fit([0], [facts.low], [[0.0] * (facts.dim + 1)])

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        self.row, self.arms = [[*context.tolist(), 1.0]], list(arms)
        expected = self.mab.predict_expectations(self.row)
        return int(np.argmax([expected[k] for k in arms]))

    def update(self, index: int, reward: float) -> None:
        self.mab.partial_fit([self.arms[index]], [reward], self.row)


class Coba:
    """Its `LinUCBLearner`, on a constant and the context for every arm."""

    def __init__(self, facts: Facts, seed: int) -> None:
        from coba import learners

        if facts.dim * facts.arms > MOST_COEFFICIENTS:
            raise NotPlayed(f"one matrix for {facts.dim * facts.arms} coefficients")
        crossed = [1, "a", "xa"]
        self.learner = learners.LinUCBLearner(features=crossed, seed=seed)
        self.all = facts.arms

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        self.row = context.tolist()
        offered = [tuple(float(j == k) for j in range(self.all)) for k in arms]
        self.action, self.share = self.learner.predict(self.row, offered)[:2]
        return offered.index(self.action)

    def update(self, index: int, reward: float) -> None:
        self.learner.learn(self.row, self.action, reward, self.share)


class ParetoBandit:
    """The policy of its router, with the settings that it ships for a start without priors.

    With a budget its own pacer adds penalties and a ceiling, as its router does by default; costs
    are known from the prices and the bills.
    """

    def __init__(self, facts: Facts, seed: int, *, forgetting: float | None = None) -> None:
        from pareto_bandit.budget_pacer import BudgetPacer
        from pareto_bandit.config import BEST_K3_TABULA_RASA_HPARAMS as shipped
        from pareto_bandit.policy import DisjointLinUCBPolicy

        self.policy = DisjointLinUCBPolicy(
            [str(k) for k in range(facts.arms)],
            dim=facts.dim + 1,
            alpha=shipped["alpha"],
            forgetting_factor=forgetting or shipped["forgetting_factor"],
            seed=seed,
        )
        self.facts = facts
        self.pacer = None if facts.budget is None else BudgetPacer(facts.budget)
        self.costs = {str(k): price for k, price in enumerate(facts.prices or ())}

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        self.row, names = np.append(context, 1.0), [str(k) for k in arms]
        allowed, penalties = names, None
        if self.pacer is not None:
            logs = np.log(list(self.costs.values()))
            shares = (logs - logs.min()) / np.ptp(logs)
            penalties = self.pacer.get_extra_cost_penalties(
                dict(zip(self.costs, shares.tolist(), strict=True))
            )
            most = self.pacer.get_cost_ceiling_per_1k(max(self.costs[name] for name in names))
            if most is not None:
                allowed = [name for name in names if self.costs[name] <= most] or names
        self.model = self.policy.select_arm(self.row, allowed, cost_penalties=penalties)[0]
        self.policy.mark_selected(self.model)
        return names.index(self.model)

    def update(self, index: int, reward: float) -> None:
        share = self.facts.share(reward)
        self.policy.update(self.model, self.row, share, advance_time=False)

    def pay(self, cost: float) -> None:
        self.costs[self.model] += 0.02 * (cost - self.costs[self.model])
        if self.pacer is not None:
            self.pacer.observe(cost)


def _with(kind: Any, **setting: Any) -> Any:
    return lambda facts, seed: kind(facts, seed, **setting)


ENTRIES = {
    "Vowpal Wabbit: epsilon .05": _with(VowpalWabbit, options="--epsilon 0.05"),
    "Vowpal Wabbit: squarecb": _with(VowpalWabbit, options="--squarecb"),
    "Vowpal Wabbit: regcbopt .01": _with(VowpalWabbit, options="--regcbopt --mellowness 0.01"),
    "bayesianbandits: UCB": _with(BayesianBandits),
    "bayesianbandits: UCB, fading .998": _with(BayesianBandits, fading=0.998),
    "river: LinUCB": _with(River, smoothing=None),
    "river: LinUCB, smoothing .998": _with(River, smoothing=0.998),
    "MABWiser: LinUCB 1": _with(Mabwiser, alpha=1.0),
    "MABWiser: LinUCB .1": _with(Mabwiser, alpha=0.1),
    "coba: LinUCB": Coba,
    "paretobandit: shipped": _with(ParetoBandit),
    "paretobandit: no forgetting": _with(ParetoBandit, forgetting=1.0),
}
