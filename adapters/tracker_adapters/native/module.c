/* What Python calls. Arrays come in through the buffer protocol and are checked here, so that no call reads or writes
 * outside of them; whatever lies at an address that is handed in is for the caller to keep alive. Results are bytearrays
 * for numpy.frombuffer. The interpreter's lock is given back while work is done. _kernels.pyi documents the functions.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "kernels.h"
#include "module_parts.h"

/* Fills view with a contiguous array of elements of a size; returns their number, or -1 with an exception. */
static Py_ssize_t take(PyObject *array, Py_ssize_t element, const char *what, Py_buffer *view) {
    if (PyObject_GetBuffer(array, view, PyBUF_ND) < 0) return -1;
    if (view->itemsize == element || view->len == 0) return view->len / element;
    PyErr_Format(PyExc_ValueError, "%s have elements of %zd bytes; expected %zd", what, view->itemsize, element);
    PyBuffer_Release(view);
    return -1;
}

static void *start_of(PyObject *bytes) { return PyByteArray_AsString(bytes); }

static const char *fault_in_segments(const segment *segments, int64_t n) {
    int64_t row = -1, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const segment *here = &segments[i];
        if (here->kind & ~(int64_t)(DOUBLE | PAIR)) return "a kind must be 0 to 3";
        if (here->kind & PAIR && !here->before && here->length) return "a pair needs what to subtract";
        if (i && here->row == row && here->kind != here[-1].kind) return "a row must be of one kind";
        if (!i || here->row != row) {
            if (here->row != row + 1) return "rows must ascend from 0 on without gaps";
            row = here->row;
            size = 0;
        }
        if (here->length < 0 || here->length >= INT64_C(1) << 33 || (size += here->length) >= INT64_C(1) << 33)
            return "a row must have fewer than 2**33 elements";
        if (here->length && !here->address) return "an address is 0";
    }
    return n ? NULL : "there are none";
}

/* Cuts the segments of a call's first two arguments; returns 0 with an exception. */
static int cut_arguments(PyObject *array, long long number, Py_buffer *view, job *made) {
    Py_ssize_t n = take(array, sizeof(int64_t), "segments", view) / 5;
    if (n < 0 || view->obj == NULL) return 0;
    const char *fault = view->len % sizeof(segment) ? "expected five numbers each" : fault_in_segments(view->buf, n);
    if (!fault && (number < 1 || number > 1 << 16)) fault = "the number of shares must be 1 to 65536";
    *made = (job){0};
    if (fault)
        PyErr_Format(PyExc_ValueError, "segments: %s", fault);
    else if (cut(view->buf, n, number, made))
        return 1;
    else
        PyErr_NoMemory();
    free_job(made);
    PyBuffer_Release(view);
    return 0;
}

static PyObject *py_measure(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *array, *made_of[7] = {0}, *result = NULL;
    unsigned long long start;
    long long number;
    unsigned threads;
    Py_buffer view = {0};
    job made;
    if (!PyArg_ParseTuple(arguments, "OLKI", &array, &number, &start, &threads)) return NULL;
    if (!cut_arguments(array, number, &view, &made)) return NULL;
    int64_t n = made.n_tensors + made.n_pairs, used;
    uint64_t *dense = made.n_shares > 1 ? calloc(BINS, sizeof(uint64_t)) : NULL;  /* of one share nothing is joined */
    Py_BEGIN_ALLOW_THREADS
    used = dense || made.n_shares == 1 ? measure_shares(&made, (team)(uintptr_t)start, threads) : -1;
    Py_END_ALLOW_THREADS
    if (used < 0) {
        PyErr_NoMemory();
        goto end;
    }
    const int64_t bytes[7] = {8 * TALLIES * n, 8 * MOMENTS * n, 16 * n, 8 * n, 8 * n, 2 * used, 8 * used};
    for (int i = 0; i < 7; i++)
        if (!(made_of[i] = PyByteArray_FromStringAndSize(NULL, bytes[i]))) goto end;
    columns out = {.tallies = start_of(made_of[0]), .moments = start_of(made_of[1]), .signs = start_of(made_of[2]),
                   .l1 = start_of(made_of[3]), .ends = start_of(made_of[4])};
    uint16_t *bins = start_of(made_of[5]);
    uint64_t *counts = start_of(made_of[6]);
    Py_BEGIN_ALLOW_THREADS
    used = join_shares(&made, &out, bins, counts, dense);
    Py_END_ALLOW_THREADS
    if (PyByteArray_Resize(made_of[5], 2 * used) == 0 && PyByteArray_Resize(made_of[6], 8 * used) == 0)
        result = PyTuple_Pack(7, made_of[0], made_of[1], made_of[2], made_of[3], made_of[4], made_of[5], made_of[6]);
end:
    for (int i = 0; i < 7; i++) Py_XDECREF(made_of[i]);
    free(dense);
    free_job(&made);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *py_cut(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *array;
    long long number;
    Py_buffer view = {0};
    job made;
    if (!PyArg_ParseTuple(arguments, "OL", &array, &number)) return NULL;
    if (!cut_arguments(array, number, &view, &made)) return NULL;
    int64_t n = made.shares[made.n_shares].first;
    PyObject *result = Py_BuildValue(
        "y#y#y#", made.shares, (Py_ssize_t)((made.n_shares + 1) * sizeof(share)), made.pieces,
        (Py_ssize_t)(n * sizeof(segment)), made.tensors, (Py_ssize_t)(made.n_parts * sizeof(int64_t)));
    free_job(&made);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *py_spread(PyObject *self, PyObject *arguments) {
    (void)self;
    unsigned long long values, copy, start;
    long long size;
    int is_double, done;
    unsigned threads;
    spread_row whole;
    if (!PyArg_ParseTuple(arguments, "KLpKKI", &values, &size, &is_double, &copy, &start, &threads)) return NULL;
    if (size < 1 || !values) return PyErr_Format(PyExc_ValueError, "%lld elements at %llu; expected some", size, values);
    Py_BEGIN_ALLOW_THREADS
    done = measure_spread((const void *)(uintptr_t)values, size, is_double, (void *)(uintptr_t)copy,
                          (team)(uintptr_t)start, threads, &whole);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    return Py_BuildValue("ddddd", whole.count, whole.mean, whole.m2, whole.min, whole.max);
}

/* ---- histograms in columns ---- */

enum { ORDER, STARTS, ENDS, BIN, COUNTS, TALLY, MOMENT, ARRAYS };

typedef struct {
    Py_buffer view[ARRAYS];
    Py_ssize_t n[ARRAYS];
} arrays;

static void release(arrays *given) {
    for (int i = 0; i < ARRAYS; i++)
        if (given->view[i].obj) PyBuffer_Release(&given->view[i]);
}

/* Takes the arrays that are not null and checks that the columns are histograms; returns 0 with an exception. */
static int take_columns(PyObject *const objects[ARRAYS], arrays *given) {
    static const char *names[ARRAYS] = {"order", "starts", "ends", "bins", "counts", "tallies", "moments"};
    const char *fault = NULL;
    *given = (arrays){0};
    for (int i = 0; i < ARRAYS; i++)
        if (objects[i] && (given->n[i] = take(objects[i], i == BIN ? 2 : 8, names[i], &given->view[i])) < 0) {
            given->view[i].obj = NULL;
            release(given);
            return 0;
        }
    const int64_t *ends = given->view[ENDS].buf, *order = given->view[ORDER].buf, *starts = given->view[STARTS].buf;
    const uint16_t *bins = given->view[BIN].buf;
    Py_ssize_t n = given->n[ENDS];
    if (given->n[BIN] != given->n[COUNTS]) fault = "there must be as many bins as counts";
    for (Py_ssize_t i = 0; i < n; i++)
        if (ends[i] < (i ? ends[i - 1] : 0) || ends[i] > given->n[BIN]) fault = "ends must ascend within the bins";
    for (Py_ssize_t i = 0; i < given->n[BIN]; i++)
        if (bins[i] >= BINS) fault = "bins must be below 4096";
    for (Py_ssize_t i = 0; i < given->n[ORDER]; i++)
        if (order[i] < 0 || order[i] >= n) fault = "the order must consist of rows";
    for (Py_ssize_t i = 0; i < given->n[STARTS]; i++)
        if (starts[i] < (i ? starts[i - 1] + 1 : 0) || starts[i] >= given->n[ORDER]) fault = "starts must ascend";
    if (given->view[TALLY].obj && (given->n[TALLY] != TALLIES * n || given->n[MOMENT] != MOMENTS * n))
        fault = "there must be as many tallies and moments as ends";
    if (!fault) return 1;
    PyErr_SetString(PyExc_ValueError, fault);
    release(given);
    return 0;
}

static PyObject *py_merge(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *objects[ARRAYS] = {0}, *made_of[3] = {0}, *result = NULL;
    arrays given;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &objects[ORDER], &objects[STARTS], &objects[ENDS], &objects[BIN],
                          &objects[COUNTS]))
        return NULL;
    if (!take_columns(objects, &given)) return NULL;
    const int64_t *order = given.view[ORDER].buf, *starts = given.view[STARTS].buf, *ends = given.view[ENDS].buf;
    const uint64_t *counts = given.view[COUNTS].buf;
    const uint16_t *bins = given.view[BIN].buf;
    Py_ssize_t groups = given.n[STARTS], rows = given.n[ORDER];
    int64_t room = 0, end = 0;
    uint64_t *dense = calloc(BINS, sizeof(uint64_t));
    for (Py_ssize_t i = 0; i < rows; i++) room += ends[order[i]] - (order[i] ? ends[order[i] - 1] : 0);
    const int64_t bytes[3] = {8 * groups, 2 * room, 8 * room};
    for (int i = 0; i < 3; i++)
        if (!dense || !(made_of[i] = PyByteArray_FromStringAndSize(NULL, bytes[i]))) goto end;
    int64_t *merged_ends = start_of(made_of[0]);
    uint64_t *merged_counts = start_of(made_of[2]);
    uint16_t *merged_bins = start_of(made_of[1]);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t group = 0; group < groups; group++) {
        int64_t stop = group + 1 < groups ? starts[group + 1] : rows, n = stop - starts[group];
        end += merge_rows(order + starts[group], n, ends, bins, counts, merged_bins + end, merged_counts + end, dense);
        merged_ends[group] = end;
    }
    Py_END_ALLOW_THREADS
    if (PyByteArray_Resize(made_of[1], 2 * end) == 0 && PyByteArray_Resize(made_of[2], 8 * end) == 0)
        result = PyTuple_Pack(3, made_of[0], made_of[1], made_of[2]);
end:
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    for (int i = 0; i < 3; i++) Py_XDECREF(made_of[i]);
    free(dense);
    release(&given);
    return result;
}

static PyObject *py_pack(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *objects[ARRAYS] = {0}, *result = NULL;
    arrays given;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &objects[TALLY], &objects[MOMENT], &objects[ENDS], &objects[BIN],
                          &objects[COUNTS]))
        return NULL;
    if (!take_columns(objects, &given)) return NULL;
    const int64_t *ends = given.view[ENDS].buf;
    const uint64_t *tallies = given.view[TALLY].buf, *counts = given.view[COUNTS].buf;
    const uint16_t *bins = given.view[BIN].buf;
    const double *moments = given.view[MOMENT].buf;
    Py_ssize_t n = given.n[ENDS];
    uint8_t *buffer = malloc(n * MAX_HEAD_BYTES + given.n[BIN] * MAX_BIN_BYTES + 1);
    int64_t *blob_ends = malloc(n * sizeof(int64_t) + 1);
    if (!buffer || !blob_ends || !(result = PyList_New(n))) goto end;
    Py_BEGIN_ALLOW_THREADS
    uint8_t *at = buffer;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t begin = i ? ends[i - 1] : 0;
        at = pack_histogram(tallies + TALLIES * i, moments + MOMENTS * i, bins + begin, counts + begin, ends[i] - begin, at);
        blob_ends[i] = at - buffer;
    }
    Py_END_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t begin = i ? blob_ends[i - 1] : 0;
        PyObject *blob = PyBytes_FromStringAndSize((const char *)buffer + begin, blob_ends[i] - begin);
        if (!blob || PyList_SetItem(result, i, blob) < 0) {
            Py_CLEAR(result);
            break;
        }
    }
end:
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    free(blob_ends);
    free(buffer);
    release(&given);
    return result;
}

/* ---- the module ---- */

static PyObject *py_join(PyObject *self, PyObject *arguments) {
    (void)self;
    double n_ours, mean, m2, n_theirs, other_mean, other_m2;
    if (!PyArg_ParseTuple(arguments, "dddddd", &n_ours, &mean, &m2, &n_theirs, &other_mean, &other_m2)) return NULL;
    join_mean_and_m2(n_ours, &mean, &m2, n_theirs, other_mean, other_m2);
    return Py_BuildValue("dd", mean, m2);
}

static PyObject *py_instruction_sets(PyObject *self, PyObject *nothing) {
    (void)self, (void)nothing;
    const char *names[3];
    int n = instruction_sets(names);
    PyObject *result = PyTuple_New(n);
    for (int i = 0; result && i < n; i++) PyTuple_SetItem(result, i, PyUnicode_FromString(names[i]));
    return result;
}

static PyObject *py_use(PyObject *self, PyObject *arguments) {
    (void)self;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "s", &name)) return NULL;
    if (!use_instructions(name)) return PyErr_Format(PyExc_ValueError, "this processor has no %s", name);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"measure", py_measure, METH_VARARGS, NULL},
    {"cut", py_cut, METH_VARARGS, NULL},
    {"spread", py_spread, METH_VARARGS, NULL},
    {"merge", py_merge, METH_VARARGS, NULL},
    {"pack", py_pack, METH_VARARGS, NULL},
    {"join", py_join, METH_VARARGS, NULL},
    {"instruction_sets", py_instruction_sets, METH_NOARGS, NULL},
    {"use", py_use, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_tree_functions}, {Py_mod_exec, add_sample_functions}, {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
