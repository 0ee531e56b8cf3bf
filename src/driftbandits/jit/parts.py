"""Kernels that only kernels call, kept as parts: checked and typed, but no machine code yet.

numba makes machine code of each kernel, with all that it calls, before it goes on with the caller,
which does the same again. Here a part stays as its typed code. A kernel that Python calls takes in
all its parts, each once, and is then optimised as a whole.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core import codegen, compiler, environment, typed_passes
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher

# numba's classes carry no types
_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler
_Lowering: Any = typed_passes.NativeLowering
_Dispatcher: Any = CPUDispatcher


class _Part(_Library):  # type: ignore[misc]
    """The code of one kernel, and which libraries it needs."""

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Whole(_Library):  # type: ignore[misc]
    """A kernel with everything that it is made of."""

    def add_linking_library(self, library: Any) -> None:
        if library in self._linking_libraries:
            return
        super().add_linking_library(library)
        if isinstance(library, _Part):
            for needed in library._linking_libraries:
                self.add_linking_library(needed)

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            found = environment.lookup_environment(variable.name)
            if found is not None:
                self._codegen.set_env(variable.name, found)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(_Lowering):  # type: ignore[misc]
    _name = "driftbandits_lower_part"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, name = state["cr"], state.func_id.func_qualname
        module = lowered.fndesc.lookup_module()
        entry = _dynfunc.make_function(module, name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerWhole(_Lowering):  # type: ignore[misc]
    _name = "driftbandits_lower_whole"

    def run_pass(self, state: Any) -> bool:
        state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


def _with(lowering: Any) -> Any:
    class Compiler(_Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.passes = [
                    (lowering, text) if step is _Lowering else (step, text)
                    for step, text in pipeline.passes
                ]
                pipeline.finalize()
            return pipelines

    return Compiler


PartCompiler = _with(_LowerPart)
WholeCompiler = _with(_LowerWhole)


class Entry(_Dispatcher):  # type: ignore[misc]
    """A kernel for Python, in whose place kernels call its part."""

    part: Any

    @property
    def _numba_type_(self) -> Any:
        return self.part._numba_type_
