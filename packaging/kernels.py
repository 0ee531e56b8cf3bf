"""Compile the kernels of this source tree into extension modules that need no compiler.

    python packaging/kernels.py FOLDER [--families plain believing]

Every policy of the catalogue plays a few rounds, so that numba compiles the kernels that Python
calls. Their optimised code is made into one object file for each processor level, and linked with a
few lines of C that take the arguments. The folder receives the modules and a manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))  # these very sources, whatever is installed
HEADER = HERE / "prelude.c"


class Level(NamedTuple):
    """A set of instructions that many processors have."""

    name: str
    supported: str
    """A C expression: whether the processor has it."""


LEVELS = {
    "x86_64": [
        Level("x86-64-v3", '__builtin_cpu_supports("x86-64-v3")'),
        Level("x86-64-v2", '__builtin_cpu_supports("x86-64-v2")'),
    ],
    "aarch64": [Level("generic", "1")],
    "arm64": [Level("apple-m1", "1")],
}
"""For each machine, the best first."""


class Kernel(NamedTuple):
    """A kernel that Python calls, compiled for one signature."""

    key: str
    symbol: str
    arguments: Any
    result: Any
    lets_others_run: bool
    bitcode: bytes


def rehearse(families: set[str]) -> None:
    """Use every policy once, so that the kernels it needs are compiled; no families: all."""
    import numpy as np

    import driftbandits as db
    from driftbandits import core
    from driftbandits.policies import ROWS, family_of

    rng = np.random.default_rng(0)

    class World:
        """Four rounds in which now and then an arm is missing."""

        def __init__(self, dim: int) -> None:
            self.dim = dim

        def draw(self, rng: Any) -> db.Trace:
            actions = rng.uniform(-0.2, 0.2, size=(4, 3, self.dim))
            return db.Trace(actions=actions, rewards=np.ones((4, 3)))

    if not families:
        link, radius = core.link("logistic"), core.theory.radius
        core.estimate(rng.uniform(-0.5, 0.5, size=(4, 2)), [1.0, 0.0, 1.0, 1.0], link=link)
        for function in (link.mean, link.slope, link.log_partition):
            function(np.zeros(2))
        radius(db.policy("D-GLUCB", dim=2, horizon=100).confidence, 1.0)
    played = set()
    for name in db.policy_names():
        for dim in (2, 3, 20):
            policy = db.policy(name, dim=dim, horizon=100, changes=1)
            family = family_of(policy)
            if (family, dim) in played or (families and family not in families):
                continue
            played.add((family, dim))
            started = time.process_time()
            agent = db.Agent(policy, seed=0)
            rows = rng.uniform(-0.2, 0.2, size=(3, dim))
            agent.update(agent.decide(rows), 1.0)
            agent.tick(1)
            agent.explain(agent.decide(rows))
            db.simulate({name: policy}, World(dim), runs=1, workers=1)
            if dim != 2 and ROWS[name].separable:  # separate arms use no kernels of the plane
                apart = db.Agent(
                    db.policy(name, dim=dim, horizon=100, changes=1, arms="separate"), seed=0
                )
                for arms in (["a", "b"], ["b", "c"]):
                    apart.update(apart.decide(rows[0], arms=arms), 1.0)
                apart.tick(1)
            print(f"{family}, dim {dim}: {time.process_time() - started:.1f} s", file=sys.stderr)


def kernels() -> Iterator[Kernel]:
    """Every kernel that Python has called in this process."""
    from driftbandits.jit.compiler import ENTRIES

    for entry in ENTRIES:
        function = entry.py_func
        for result in entry.overloads.values():
            descriptor = result.fndesc
            yield Kernel(
                f"{function.__module__}:{function.__qualname__}",
                descriptor.llvm_func_name,
                result.signature.args,
                result.signature.return_type,
                bool(entry.targetoptions.get("nogil")),
                result.library._get_module_for_linking().as_bitcode(),
            )


def report_unused() -> None:
    """Name the kernels for Python that nothing has called: they run as plain Python in a wheel."""
    from driftbandits.jit.compiler import ENTRIES

    unused = [entry.py_func.__qualname__ for entry in ENTRIES if not entry.overloads]
    print("never called from Python:", *unused, file=sys.stderr)


class Unsupported(Exception):
    """A kernel takes or gives what the C part does not know; it stays plain Python in a wheel."""


_SCALARS = {"int64": ("int64_t", "int"), "float64": ("double", "float")}
_ELEMENTS = {"int64": "NPY_INT64", "float64": "NPY_FLOAT64", "bool": "NPY_BOOL"}


class Wrapper:
    """The C function that takes the arguments of a kernel out of Python objects."""

    def __init__(self, kernel: Kernel, number: int) -> None:
        self.kernel, self.number = kernel, number
        self.types: list[str] = []
        self.values: list[str] = []
        self.lines: list[str] = []
        for i, kind in enumerate(kernel.arguments):
            self._take(kind, f"args[{i}]", f"a{i}")

    def _take(self, kind: Any, source: str, name: str) -> None:
        from numba import types

        if str(kind) in _SCALARS:
            c_type, taker = _SCALARS[str(kind)]
            self.types.append(c_type)
            self.values.append(name)
            self.lines.append(
                f"{c_type} {name}; if (!take_{taker}({source}, &{name})) return NULL;"
            )
        elif isinstance(kind, types.Array) and kind.layout == "C" and str(kind.dtype) in _ELEMENTS:
            self.types += ["void *", "void *", "npy_intp", "npy_intp", "void *"]
            self.types += ["npy_intp"] * (2 * kind.ndim)
            element = _ELEMENTS[str(kind.dtype)]
            self.lines.append(
                f"PyArrayObject *{name} = take_array({source}, {element}, {kind.ndim});"
                f" if ({name} == NULL) return NULL;"
            )
            self.values += ["NULL", "NULL", f"PyArray_SIZE({name})", f"PyArray_ITEMSIZE({name})"]
            self.values.append(f"PyArray_DATA({name})")
            self.values += [f"PyArray_DIM({name}, {j})" for j in range(kind.ndim)]
            self.values += [f"PyArray_STRIDE({name}, {j})" for j in range(kind.ndim)]
        elif isinstance(kind, types.BaseTuple):
            self.lines.append(
                f"PyObject *{name} = take_tuple({source}, {len(kind)});"
                f" if ({name} == NULL) return NULL;"
            )
            for j, field in enumerate(kind):
                self._take(field, f"PyTuple_GetItem({name}, {j})", f"{name}_{j}")
        else:
            raise Unsupported(kind)

    def _result(self) -> tuple[str, str]:
        """The type that the kernel fills in, and an expression for the Python object."""
        from numba import types

        kind = self.kernel.result
        if isinstance(kind, types.NoneType):
            return "void *", "Py_NewRef(Py_None)"
        if str(kind) in _SCALARS:
            c_type, word = _SCALARS[str(kind)]
            made = "PyLong_FromLongLong" if word == "int" else "PyFloat_FromDouble"
            return c_type, f"{made}(result)"
        if kind == types.boolean:
            return "uint8_t", "PyBool_FromLong(result)"
        if isinstance(kind, types.UniTuple | types.Tuple) and all(str(k) in _SCALARS for k in kind):
            fields = " ".join(f"{_SCALARS[str(k)][0]} f{i};" for i, k in enumerate(kind))
            codes = "".join("L" if str(k) == "int64" else "d" for k in kind)
            values = ", ".join(f"result.f{i}" for i in range(len(kind)))
            return f"struct {{ {fields} }}", f'Py_BuildValue("({codes})", {values})'
        if isinstance(kind, types.Array) and kind.layout == "C" and str(kind.dtype) in _ELEMENTS:
            sizes = f"npy_intp shape[{kind.ndim}], strides[{kind.ndim}]"
            fields = f"Block *block; void *parent; npy_intp size, itemsize; void *data; {sizes};"
            values = f"{_ELEMENTS[str(kind.dtype)]}, {kind.ndim}, result.shape, result.data"
            return f"struct {{ {fields} }}", f"new_array({values}, result.block)"
        raise Unsupported(kind)

    def source(self) -> str:
        result, made = self._result()
        n, name = self.number, self.kernel.key.partition(":")[2]
        count, calls = len(self.kernel.arguments), "\n    ".join(self.lines)
        call = f"status = native_{n}(&result, &problem, {', '.join(self.values)});"
        if self.kernel.lets_others_run:
            call = f"Py_BEGIN_ALLOW_THREADS\n    {call}\n    Py_END_ALLOW_THREADS"
        return f"""
typedef {result} result_{n};
extern int32_t native_{n}(result_{n} *, void **, {", ".join(self.types)})
    SYMBOL("{self.kernel.symbol}");
static PyObject *kernel_{n}(PyObject *self, PyObject *const *args, Py_ssize_t count) {{
    if (!take_count("{name}", count, {count})) return NULL;
    {calls}
    result_{n} result; memset(&result, 0, sizeof result);
    void *problem = NULL; int32_t status;
    {call}
    return status == 0 || status == -2 ? {made} : failed();
}}
"""


def module_source(module: str, level: Level, wrappers: list[Wrapper], sources: str) -> str:
    """The C source of an extension module that refuses to load on a lesser processor."""
    table = "\n".join(
        f'    {{"{w.kernel.key.partition(":")[2]}", (PyCFunction)(void (*)(void))kernel_{w.number},'
        " METH_FASTCALL, NULL},"
        for w in wrappers
    )
    keys = "\n".join(f'    "{w.kernel.key}",' for w in wrappers)
    return f"""{HEADER.read_text(encoding="utf-8")}
{"".join(w.source() for w in wrappers)}
static PyMethodDef methods[] = {{
{table}
}};
static const char *keys[] = {{
{keys}
}};
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{module}", NULL, -1, NULL}};

PyMODINIT_FUNC PyInit_{module}(void) {{
    if (!({level.supported})) {{
        PyErr_SetString(PyExc_ImportError, "made for another processor: {level.name}");
        return NULL;
    }}
    import_array();
    PyObject *made = PyModule_Create(&definition), *kernels = PyDict_New();
    if (made == NULL || kernels == NULL) return NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {{
        PyObject *kernel = PyCFunction_NewEx(&methods[i], NULL, NULL);
        if (kernel == NULL || PyDict_SetItemString(kernels, keys[i], kernel) < 0) return NULL;
        Py_DECREF(kernel);
    }}
    if (PyModule_AddObjectRef(made, "kernels", kernels) < 0) return NULL;
    if (PyModule_AddStringConstant(made, "level", "{level.name}") < 0) return NULL;
    if (PyModule_AddStringConstant(made, "numba", "{metadata.version("numba")}") < 0) return NULL;
    if (PyModule_AddStringConstant(made, "sources", "{sources}") < 0) return NULL;
    return made;
}}
"""


def object_code(kernel: Kernel, machine: Any) -> bytes:
    """The kernel alone, without what numba would call it by, as a position-independent object."""
    import llvmlite.binding as llvm

    module = llvm.parse_bitcode(kernel.bitcode)
    for function in module.functions:
        if function.is_declaration:
            continue
        is_kernel = function.name == kernel.symbol
        function.linkage = "external" if is_kernel else "internal"
        function.visibility = "hidden" if is_kernel else "default"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(speed_level=0)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, tuning))
    code: bytes = machine.emit_object(module)
    return code


def build(folder: Path, level: Level, found: list[Kernel]) -> Path:
    """One extension module, with the kernels compiled for a processor level."""
    import llvmlite.binding as llvm

    from driftbandits.jit.native import source_hash

    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=level.name, features="", opt=3, reloc="pic", codemodel="default"
    )
    module = level.name.replace("-", "_")
    made = folder / f"{module}.abi3.so"
    with tempfile.TemporaryDirectory() as place:
        wrappers, objects = [], []
        for number, kernel in enumerate(found):
            try:
                wrapper = Wrapper(kernel, number)
                wrapper.source()
            except Unsupported as kind:
                print(f"{kernel.key} stays Python: {kind}", file=sys.stderr)
                continue
            objects.append(Path(place) / f"{number}.o")
            objects[-1].write_bytes(object_code(kernel, machine))
            wrappers.append(wrapper)
        source = Path(place) / f"{module}.c"
        source.write_text(module_source(module, level, wrappers, source_hash()), encoding="utf-8")
        link(made, [source, *objects])
    return made


def link(made: Path, parts: list[Path]) -> None:
    """Compile and link C sources and objects into an extension module."""
    import numpy as np

    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    options = ["-O2", "-fPIC", "-fvisibility=hidden"]
    options += ["-I", sysconfig.get_path("include"), "-I", np.get_include()]
    if sys.platform == "darwin":
        options += ["-bundle", "-undefined", "dynamic_lookup"]
    else:
        options += ["-shared", "-Wl,-Bsymbolic", "-Wl,-z,now", "-Wl,-s"]
    command = [*compiler, *options, *map(str, parts), "-lm", "-o", str(made)]
    subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--families", nargs="*", default=[], help="the families of kernels; all")
    parser.add_argument(
        "--as-here",
        action="store_true",
        help="let numba optimise for this very processor, as it does when kernels are first used: "
        "for tests, which find such kernels in the cache",
    )
    given = parser.parse_args()
    levels = LEVELS[platform.machine()]
    os.environ["DRIFTBANDITS_COMPILE"] = "1"
    if not given.as_here:
        os.environ.update(NUMBA_CPU_NAME=levels[0].name, NUMBA_CPU_FEATURES="")
    rehearse(set(given.families))
    found = list(kernels())
    keys = Counter(kernel.key for kernel in found)
    if max(keys.values()) > 1:
        print("several signatures:", [key for key, n in keys.items() if n > 1], file=sys.stderr)
    found = [kernel for kernel in found if keys[kernel.key] == 1]
    report_unused()
    given.folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for level in levels:
        started = time.process_time()
        made = build(given.folder, level, found)
        files[made.name] = hashlib.sha256(made.read_bytes()).hexdigest()
        size = made.stat().st_size / 1e6
        print(f"{made.name}: {size:.1f} MB, {time.process_time() - started:.0f} s", file=sys.stderr)
    manifest = json.dumps({"files": files}, indent=1)
    (given.folder / "manifest.json").write_text(manifest + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
