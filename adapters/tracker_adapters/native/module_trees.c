/* What Python calls to read trees of a SQLite database from its file; _kernels.pyi documents the functions. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module_parts.h"
#include "trees.h"

static PyObject *fault(void) {
    return PyErr_Format(PyExc_ValueError, "the file is no sound database with pages of %d bytes", PAGE);
}

static PyObject *value_of(const entry *found, int field) {
    int64_t type = found->type[field], length = length_of(type);
    const char *at = (const char *)found->start + found->at[field];
    if (type == IS_NULL) Py_RETURN_NONE;
    if (type == IS_DOUBLE) return PyFloat_FromDouble(double_of(found, field));
    if (is_integer(type)) return PyLong_FromLongLong(integer_of(found, field));
    return type % 2 ? PyUnicode_DecodeUTF8(at, length, NULL) : PyBytes_FromStringAndSize(at, length);
}

static PyObject *row_of(const entry *found, int is_index) {
    int before = !is_index;
    PyObject *row = PyTuple_New(found->n + before);
    if (row && before) PyTuple_SetItem(row, 0, PyLong_FromLongLong(found->rowid));
    for (int i = 0; row && i < found->n; i++) {
        PyObject *value = value_of(found, i);
        if (!value || PyTuple_SetItem(row, i + before, value) < 0) Py_CLEAR(row);
    }
    return row;
}

static PyObject *py_rows(PyObject *self, PyObject *arguments) {
    (void)self;
    int file;
    unsigned root;
    long long first, last;
    entry found;
    found.mask = 0;
    if (!PyArg_ParseTuple(arguments, "iILL", &file, &root, &first, &last)) return NULL;
    tree *made = tree_at(file, root);
    if (!made) return fault();
    PyObject *rows = PyList_New(0);
    int64_t wanted = first, before = 0;
    int state = made->is_index ? first_entry(made) : seek_entry(made, &wanted, 1);
    for (int is_first = 1; rows && state > 0; is_first = 0, state = next_entry(made)) {
        if (read_entry(made, &found) < 0 || (!made->is_index && !is_first && found.rowid <= before)) {
            state = -1;
            break;
        }
        if (!made->is_index && found.rowid > last) break;
        before = found.rowid;
        PyObject *row = row_of(&found, made->is_index);
        if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    free_tree(made);
    if (rows && state < 0) {
        Py_DECREF(rows);
        return fault();
    }
    return rows;
}

typedef struct {
    int64_t wanted[KEYS + 1], fields[FIELDS];
    int n_wanted, n_fields, n_keys, any_first;
    int64_t *values, n, room;
} search;

/* Whether an entry is behind the one before, by the fields that order the tree. */
static int is_behind(const entry *found, const search *given, int64_t *before, int is_first) {
    int order = is_first;
    for (int i = 0; i < given->n_keys; i++) {
        if (i >= found->n || !is_integer(found->type[i])) return 0;
        int64_t value = integer_of(found, i);
        if (!order && value != before[i]) order = value > before[i] ? 1 : -1;
        before[i] = value;
    }
    return order > 0;
}

static int keep(const entry *found, search *given) {
    if (given->n + given->n_fields > given->room) {
        int64_t room = 2 * given->room + 1024 * given->n_fields, *grown = realloc(given->values, room * sizeof(int64_t));
        if (!grown) return 0;
        given->values = grown;
        given->room = room;
    }
    for (int i = 0; i < given->n_fields; i++) {
        int field = (int)(given->fields[i] < 0 ? ~given->fields[i] : given->fields[i]);
        if (field >= found->n) return 0;
        int64_t type = found->type[field], value;
        if (given->fields[i] >= 0) {
            if (!is_integer(type)) return 0;
            value = integer_of(found, field);
        } else {
            if (type > IS_ONE) return 0;
            double number = type == IS_NULL ? (double)NAN : double_of(found, field);
            memcpy(&value, &number, sizeof(value));
        }
        given->values[given->n++] = value;
    }
    return 1;
}

/* Keeps the fields of all entries that have what is wanted: from the second field on where the first may be any. Those
 * are looked for below each value that the first field has. */
static int look(tree *made, search *given) {
    int64_t before[KEYS];
    int shift = given->any_first, n = given->n_wanted + shift, is_first = 1;
    if (shift) given->wanted[0] = INT64_MIN;
    int state = seek_entry(made, given->wanted, n);
    entry found;
    found.mask = 0;
    while (state > 0) {
        int order = 0;
        if (read_entry(made, &found) < 0 || !is_behind(&found, given, before, is_first)) return -1;
        is_first = 0;
        for (int i = shift; i < n && !order; i++)
            order = before[i] < given->wanted[i] ? -1 : before[i] > given->wanted[i];
        if (!order) {
            if (!keep(&found, given)) return -1;
            state = next_entry(made);
        } else if (!shift || (order > 0 && before[0] == INT64_MAX)) {
            return 0;
        } else {
            given->wanted[0] = before[0] + (order > 0);
            state = seek_entry(made, given->wanted, n);
        }
    }
    return state;
}

static PyObject *py_entries(PyObject *self, PyObject *arguments) {
    (void)self;
    int file, state;
    unsigned root;
    const char *wanted, *fields;
    Py_ssize_t n_wanted, n_fields;
    search given = {0};
    if (!PyArg_ParseTuple(arguments, "iIiy#py#", &file, &root, &given.n_keys, &wanted, &n_wanted, &given.any_first,
                          &fields, &n_fields))
        return NULL;
    given.n_wanted = (int)(n_wanted / 8);
    given.n_fields = (int)(n_fields / 8);
    if (given.n_keys < 1 || given.n_keys > KEYS || given.n_wanted < 1 || given.n_fields < 1 ||
        given.n_wanted + given.any_first > given.n_keys || given.n_fields > FIELDS)
        return PyErr_Format(PyExc_ValueError, "expected 1 to %d keys, and at most as many that are wanted", KEYS);
    memcpy(given.wanted + given.any_first, wanted, 8 * given.n_wanted);
    memcpy(given.fields, fields, 8 * given.n_fields);
    tree *made = tree_at(file, root);
    if (!made) return fault();
    Py_BEGIN_ALLOW_THREADS
    state = made->is_index ? look(made, &given) : -1;
    free_tree(made);
    Py_END_ALLOW_THREADS
    PyObject *result = state < 0 ? fault() : PyByteArray_FromStringAndSize((const char *)given.values, 8 * given.n);
    free(given.values);
    return result;
}

static PyMethodDef methods[] = {
    {"rows", py_rows, METH_VARARGS, NULL},
    {"entries", py_entries, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_tree_functions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
