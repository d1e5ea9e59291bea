/* The function for samples that Python calls; what lies at an address that is handed in is for the caller to keep alive.
 * _kernels.pyi documents it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels.h"
#include "module_parts.h"

static const char *fault_in(const sample *samples, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const sample *here = &samples[i];
        if (!here->values) return "an address is 0";
        if (here->is_double & ~INT64_C(1)) return "a kind must be 0 or 1";
        if (here->rows < 1 || here->columns < 1 || here->rows > MOST_SAMPLED / here->columns)
            return "rows times columns must be 1 to 2**32";
    }
    return NULL;
}

static PyObject *py_samples(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer view;
    PyObject *result = NULL;
    int done;
    if (!PyArg_ParseTuple(arguments, "y*", &view)) return NULL;
    Py_ssize_t n = view.len / (Py_ssize_t)sizeof(sample);
    const char *fault = view.len % (Py_ssize_t)sizeof(sample) ? "expected four numbers each" : fault_in(view.buf, n);
    if (fault)
        PyErr_Format(PyExc_ValueError, "samples: %s", fault);
    else if ((result = PyByteArray_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(sample_row)))) {
        sample_row *found = (sample_row *)PyByteArray_AsString(result);
        Py_BEGIN_ALLOW_THREADS
        done = describe_samples(view.buf, n, found);
        Py_END_ALLOW_THREADS
        if (!done) {
            Py_CLEAR(result);
            PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&view);
    return result;
}

static PyMethodDef methods[] = {{"samples", py_samples, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int add_sample_functions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
