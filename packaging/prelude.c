/* What the kernels of an extension module need: memory, and arguments out of Python objects.

   Kernels are functions of numba's calling convention: a place for the result, a place for an
   exception, then the arguments, each array spread out into its fields. Only the limited interface
   of Python and the stable one of numpy are used, so that one build serves every later version. */

#define Py_LIMITED_API 0x030b0000
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
#define SYMBOL(name) __asm__("_" name)
#else
#define SYMBOL(name) __asm__(name)
#endif

/* Arrays that kernels make: what they count references in, then the data. */
typedef struct {
    atomic_size_t references;
    void *destructor, *information, *data;
    size_t size;
    void *allocator;
} Block;

Block *NRT_MemInfo_alloc_aligned(size_t size, unsigned alignment) {
    Block *block = malloc(sizeof(Block) + size + alignment);
    if (block == NULL) return NULL;
    uintptr_t first = (uintptr_t)(block + 1);
    if (alignment > 1) first = (first + alignment - 1) / alignment * alignment;
    *block = (Block){.references = 1, .data = (void *)first, .size = size};
    return block;
}

Block *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }
void NRT_MemInfo_call_dtor(Block *block) { free(block); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *memory) { free(memory); }

static void release(Block *block) {
    if (block != NULL && atomic_fetch_sub(&block->references, 1) == 1) free(block);
}

/* Only arrays without gaps are given another shape here: their strides follow from it. */
int numba_attempt_nocopy_reshape(npy_intp nd, const npy_intp *dims, const npy_intp *strides,
                                 npy_intp new_nd, const npy_intp *new_dims, npy_intp *new_strides,
                                 npy_intp itemsize, int fortran) {
    npy_intp step = itemsize;
    for (npy_intp i = nd; i-- > 0; step *= dims[i])
        if (dims[i] > 1 && strides[i] != step) return 0;
    step = itemsize;
    for (npy_intp i = new_nd; i-- > 0; step *= new_dims[i]) new_strides[i] = step;
    return !fortran;
}

static int take_count(const char *name, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments; got %zd", name, wanted, given);
    return 0;
}

static int take_int(PyObject *given, int64_t *out) {
    *out = PyLong_AsLongLong(given);
    return *out != -1 || !PyErr_Occurred();
}

static int take_float(PyObject *given, double *out) {
    *out = PyFloat_AsDouble(given);
    return *out != -1.0 || !PyErr_Occurred();
}

static PyArrayObject *take_array(PyObject *given, int type, int dimensions) {
    PyArrayObject *array = (PyArrayObject *)given;
    if (PyArray_Check(given) && PyArray_TYPE(array) == type &&
        PyArray_NDIM(array) == dimensions && PyArray_IS_C_CONTIGUOUS(array))
        return array;
    PyErr_SetString(PyExc_TypeError, "a kernel was given an array of another kind or shape");
    return NULL;
}

static PyObject *take_tuple(PyObject *given, Py_ssize_t size) {
    if (PyTuple_Check(given) && PyTuple_Size(given) == size) return given;
    PyErr_SetString(PyExc_TypeError, "a kernel was given something else than its record");
    return NULL;
}

static PyObject *failed(void) {
    PyErr_SetString(PyExc_RuntimeError, "a kernel failed");
    return NULL;
}

static PyObject *new_array(int type, int dimensions, const npy_intp *shape, const void *data,
                           Block *block) {
    PyObject *made = PyArray_SimpleNew(dimensions, (npy_intp *)shape, type);
    if (made != NULL)
        memcpy(PyArray_DATA((PyArrayObject *)made), data, PyArray_NBYTES((PyArrayObject *)made));
    release(block);
    return made;
}
