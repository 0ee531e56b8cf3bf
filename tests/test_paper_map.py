"""docs/paper.md leaves nothing out and points nowhere that is not there."""

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Every label of a statement or figure in the paper. Labels of sections name no statement.
LABELS = {
    "assumption_actions",
    "assumption_param",
    "assumption_noise",
    "eq_log_likelihood",
    "assumption_c_mu",
    "eq_log_likelihood_SW",
    "eq_MLE_SW",
    "eq_Design_matrix_SW",
    "eq:theta_tilde_SW",
    "alg:S-GLM",
    "eq_log_likelihood_D",
    "eq_MLE_D",
    "eq_Design_matrix_D",
    "eq_Design_matrix_D2",
    "eq:theta_tilde_D",
    "alg:D-GLM",
    "D_tau_def",
    "prop_SW_GLM_concentration",
    "eq_rho_SW",
    "prop_SW_GLM_anytime_upper",
    "theorem_regret_SW",
    "corollary:asympt_regret_SW",
    "prop_D_GLM_concentration",
    "eq_rho_D",
    "prop_D_GLM_anytime_upper",
    "theorem_regret_D",
    "corollary:asympt_regret_D",
    "fig:regret_2d",
    "fig:scatter_2d",
    "fig:PIMA",
    "eq_g_t_G_t",
    "eq_G_t",
    "eq:simult_upper_bound",
    "corollary_anytime_deviation",
    "corollary:S_t",
    "eq:V_t",
    "eq:V_tilde_t",
    "eq_g_t_G_t_D",
    "inequality_tilde_V_t_invert",
    "inequality_G_t_invert",
    "lemma:hoeffding_conditional",
}


def read_map():
    """(label, code column, test column) of every row of the table."""
    rows = []
    for line in (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 4, f"a row has {len(cells)} cells: {line}"
            rows.append((cells[0].strip("`"), cells[2], cells[3]))
    return rows


MAP = read_map()


@cache
def functions_of(path):
    """Names of the functions that a file defines at its top level."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_label_of_the_paper_has_one_row():
    labels = [label for label, _, _ in MAP]
    assert len(labels) == len(set(labels))
    assert set(labels) == LABELS


def test_every_name_imports():
    for label, code, _ in MAP:
        names = re.findall(r"`([^`]+)`", code)
        assert names or code == "proof step", f"{label} names no code"
        for name in names:
            assert name.startswith("driftbandits.")
            pkgutil.resolve_name(name)


def test_every_test_exists():
    for label, _, tests in MAP:
        named = re.findall(r"`([^`]+)`", tests)
        assert named, f"{label} names no test"
        for test in named:
            path, _, function = test.partition("::")
            assert function.startswith("test_")
            assert function in functions_of(path), f"{label}: {test} does not exist"


def test_labels_cited_in_the_code_are_labels_of_the_paper():
    """Notation blocks and comments cite labels; a misspelt one would send a reader nowhere."""
    pattern = re.compile(r"\b(?:eq|prop|theorem|corollary|assumption|alg|D_tau)[_:][A-Za-z_0-9-]+")
    cited = set()
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for text in pattern.findall(path.read_text(encoding="utf-8")):
            if text not in names:
                cited.add(text.rstrip("_:-"))
    assert "eq_rho_SW" in cited
    assert cited <= LABELS
