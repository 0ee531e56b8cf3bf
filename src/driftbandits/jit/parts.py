"""Parts: kernels that wait to be taken into an entry.

numba optimises each kernel together with all that it calls and makes machine code of it, before it
goes on with the caller, which does the same again. Here a part ends as code that is neither
optimised nor made into machine code. An entry takes in its parts, and theirs, each once, and is
then optimised as a whole.

numba's option `pipeline_class` lets the last step but one of its compiler be another; this is where
the code of a kernel is put into a library.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage  # type: ignore[import-untyped]
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import codegen, compiler, environment, typed_passes
from numba.core.compiler_machinery import register_pass

# numba's classes carry no types
_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler
_Lowering: Any = typed_passes.NativeLowering
_environment_of: Any = environment.lookup_environment
_register: Any = register_pass
_registered = _register(mutates_CFG=True, analysis_only=False)
_make_function: Any = _dynfunc.make_function


_SHARED = (Linkage.linkonce_odr, Linkage.weak_odr)


class _Part(_Library):  # type: ignore[misc]
    """The code of one kernel, and the libraries that it needs."""

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        # What nobody calls yet is linked all the same: its caller may be linked after it.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.weak_odr
        self._finalized = True


class _Entry(_Library):  # type: ignore[misc]
    """The code of a kernel and of all its parts."""

    def add_linking_library(self, library: Any) -> None:
        if library in self._linking_libraries:
            return
        super().add_linking_library(library)
        if isinstance(library, _Part):
            for needed in library._linking_libraries:
                self.add_linking_library(needed)

    def _optimize_final_module(self) -> None:
        # Nobody else can call the parts in here, so constants that the entry hands them go in.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage in _SHARED:
                function.linkage = Linkage.internal
        super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            found = _environment_of(variable.name)
            if found is not None:
                self._codegen.set_env(variable.name, found)


@_registered
class _LowerPart(_Lowering):  # type: ignore[misc]
    _name = "driftbandits_lower_part"

    def run_pass(self, state: Any) -> bool:
        name = state.func_id.func_qualname
        state.library = _Part(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # numba looks a function up by the object that Python would call; here it has no address
        module, no_address = lowered.fndesc.lookup_module(), 0
        handle = _make_function(module, name, "", no_address, lowered.env, (state.library,))
        state.targetctx.insert_user_function(handle, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=handle)
        return True


@_registered
class _LowerEntry(_Lowering):  # type: ignore[misc]
    _name = "driftbandits_lower_entry"

    def run_pass(self, state: Any) -> bool:
        state.library = _Entry(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class PartCompiler(_Compiler):  # type: ignore[misc]
    """For kernels that kernels call."""

    def define_pipelines(self) -> Any:
        return _with(_LowerPart, super().define_pipelines())


class EntryCompiler(_Compiler):  # type: ignore[misc]
    """For kernels that Python calls."""

    def define_pipelines(self) -> Any:
        return _with(_LowerEntry, super().define_pipelines())


def _with(lowering: Any, pipelines: Any) -> Any:
    for pipeline in pipelines:
        pipeline.passes = [
            (lowering if step is _Lowering else step, text) for step, text in pipeline.passes
        ]
        pipeline.finalize()
    return pipelines
