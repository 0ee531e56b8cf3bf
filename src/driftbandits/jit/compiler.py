"""Compile kernels with numba. This module is imported only where kernels have to be compiled.

numba optimises each kernel together with all that it calls and makes machine code of it, before it
goes on with the caller, which does the same again. Here a kernel that other kernels call, a part,
ends as code that is neither optimised nor made into machine code. A kernel that Python calls, an
entry, takes in its parts, and theirs, each once, and is then optimised as a whole. numba's option
`pipeline_class` lets the last step but one of its compiler be another; this is where the code of a
kernel is put into a library.

numba keys the machine code of a function on the file that the function is in. A kernel that calls
kernels of other files would then be served stale after an edit there, so here the key is a hash of
all the sources.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba import _dynfunc, types
from numba.core import caching, environment
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import NativeLowering

from driftbandits.jit.cache import cache_directory, locked, say_that_it_compiles
from driftbandits.jit.native import source_hash

KNOWN = ((0, 67), (0, 68))
IS_KNOWN = numba.version_info.short in KNOWN
"""True for a numba whose insides this module has been tried with. With any other the same kernels
are made by its public ways alone, which takes longer."""

QUIET_SECONDS = 2.0
_SHARED = (Linkage.linkonce_odr, Linkage.weak_odr)


class _Part(JITCodeLibrary):
    """The code of one kernel, and the libraries that it needs."""

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        # What nobody calls yet is linked all the same: its caller may be linked after it.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.weak_odr
        self._finalized = True


class _Entry(JITCodeLibrary):
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
            found = environment.lookup_environment(variable.name)
            if found is not None:
                self._codegen.set_env(variable.name, found)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    _name = "driftbandits_lower_part"

    def run_pass(self, state: Any) -> bool:
        name = state.func_id.func_qualname
        state.library = _Part(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # numba looks a function up by the object that Python would call; here it has no address
        module, no_address = lowered.fndesc.lookup_module(), 0
        handle = _dynfunc.make_function(module, name, "", no_address, lowered.env, (state.library,))
        state.targetctx.insert_user_function(handle, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=handle)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerEntry(NativeLowering):
    _name = "driftbandits_lower_entry"

    def run_pass(self, state: Any) -> bool:
        state.library = _Entry(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


def _compiler_with(lowering: Any) -> Any:
    class Changed(Compiler):
        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                steps = pipeline.passes
                pipeline.passes = [
                    (lowering if step is NativeLowering else step, text) for step, text in steps
                ]
                pipeline.finalize()
            return pipelines

    return Changed if IS_KNOWN else Compiler


_PartCompiler, _EntryCompiler = map(_compiler_with, (_LowerPart, _LowerEntry))


class Entry(CPUDispatcher):
    """A kernel for Python. Where another kernel names it, its part is meant.

    So a kernel never waits for machine code of what it calls, which only Python would use.
    """

    part: Any

    @property
    def _numba_type_(self) -> Any:
        return self.part._numba_type_


ENTRIES: list[Entry] = []
"""Every kernel for Python, so that a wheel can be built with those that were used."""


def entry_of(function: Callable[..., Any], part: Any, options: dict[str, Any]) -> Entry:
    """Return a kernel that Python can call, and that other kernels call as that part."""
    entry = Entry(function, targetoptions=options, pipeline_class=_EntryCompiler)
    entry.part = part
    entry._cache = KernelCache(function)
    ENTRIES.append(entry)
    return entry


def part_of(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a kernel that other kernels take in."""
    return numba.jit(**options, pipeline_class=_PartCompiler)(function)


class Choice:
    """One of two kernels, by the type of the first argument.

    A branch on a number is compiled with all that either side calls, even if the optimiser drops
    one of them afterwards. A choice by type is made before: the other kernel is not compiled.
    """

    is_compiling = False  # only kernels that call themselves are asked for while they are compiled

    def __init__(self, record: type, then: Any, otherwise: Any) -> None:
        self._record, self._then, self._otherwise = record, then, otherwise
        self.__name__ = then.__name__
        self._numba_type_ = types.Dispatcher(self)

    def _chosen(self, arguments: Any) -> Any:
        named = getattr(arguments[0], "instance_class", None)
        return self._then if named is self._record else self._otherwise

    def get_call_template(self, arguments: Any, keywords: Any) -> Any:
        return self._chosen(arguments).get_call_template(arguments, keywords)

    def get_overload(self, arguments: Any) -> Any:
        return self._chosen(arguments).get_overload(arguments)


class _Locator(caching._CacheLocator):
    def __init__(self, line: int) -> None:
        self._line = line

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return source_hash()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func.__code__.co_firstlineno)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class KernelCache(caching.FunctionCache):
    """numba's cache of a function, keyed on all sources and shared between processes.

    Whoever misses a kernel takes its turn: it waits while another process compiles the same one,
    and looks into the cache again.
    """

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._kernel = function.__qualname__
        self._turn = ExitStack()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._loaded(sig, target_context)
        if found is None:
            self._begin_turn()
            found = self._loaded(sig, target_context)
            if found is not None:
                self._turn.close()
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        if not IS_KNOWN:
            return super().load_overload(sig, target_context)
        # numba would first load all that its compiler knows, which takes longer than the kernels
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        self._turn.close()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()  # the sources and the name are the rest of the key

    def _begin_turn(self) -> None:
        self._turn.close()  # of a compilation that failed
        notice = threading.Timer(QUIET_SECONDS, say_that_it_compiles, [self._kernel])
        notice.daemon = True
        notice.start()
        self._turn.callback(notice.cancel)
        self._turn.enter_context(locked(cache_directory() / f"{self._impl.filename_base}.lock"))
