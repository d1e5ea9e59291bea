/* The functions for samples that Python calls; what lies at an address that is handed in is for the caller to keep alive.
 * _kernels.pyi documents them.
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

static const char *fault_in_gathering(const Py_buffer *tensors, const Py_buffer *shares) {
    const gathered *given = tensors->buf;
    const double *share = shares->buf;
    if (tensors->len % (Py_ssize_t)sizeof(gathered)) return "expected three numbers each";
    if (shares->len % (Py_ssize_t)sizeof(double)) return "shares must be float64";
    for (Py_ssize_t i = 0; i < shares->len / (Py_ssize_t)sizeof(double); i++)
        if (!(share[i] >= 0 && share[i] < 1)) return "shares must be from 0 to below 1";
    for (Py_ssize_t i = 0; i < tensors->len / (Py_ssize_t)sizeof(gathered); i++) {
        if (!given[i].values && given[i].elements) return "an address is 0";
        if (given[i].is_double & ~INT64_C(1)) return "a kind must be 0 or 1";
        if (given[i].elements < 0 || given[i].elements > INT64_C(1) << 48) return "elements must be 0 to 2**48";
    }
    return NULL;
}

static PyObject *py_gather(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer tensors, shares;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(arguments, "y*y*", &tensors, &shares)) return NULL;
    const char *fault = fault_in_gathering(&tensors, &shares);
    if (fault) {
        PyErr_Format(PyExc_ValueError, "tensors: %s", fault);
    } else {
        const gathered *given = tensors.buf;
        Py_ssize_t n = tensors.len / (Py_ssize_t)sizeof(gathered), most = shares.len / (Py_ssize_t)sizeof(double);
        Py_ssize_t room = 0;
        for (Py_ssize_t i = 0; i < n; i++) room += given[i].elements < most ? given[i].elements : most;
        if ((result = PyByteArray_FromStringAndSize(NULL, 8 * room))) {
            double *found = (double *)PyByteArray_AsString(result);
            Py_BEGIN_ALLOW_THREADS
            gather(given, n, shares.buf, most, found);
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&tensors);
    PyBuffer_Release(&shares);
    return result;
}

static PyMethodDef methods[] = {
    {"samples", py_samples, METH_VARARGS, NULL},
    {"gather", py_gather, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_sample_functions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
