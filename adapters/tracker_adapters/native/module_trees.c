/* What Python calls to read trees of a SQLite database from its file; _kernels.pyi documents the functions. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

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

static PyObject *py_columns(PyObject *self, PyObject *arguments) {
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
    state = made->is_index ? search_entries(made, &given) : -1;
    free_tree(made);
    Py_END_ALLOW_THREADS
    PyObject *result = state < 0 ? fault() : PyByteArray_FromStringAndSize(NULL, 8 * given.n);
    if (result && state >= 0) {
        int64_t *column = (int64_t *)PyByteArray_AsString(result), rows = given.n / given.n_fields;
        for (int field = 0; field < given.n_fields; field++, column += rows)
            for (int64_t row = 0; row < rows; row++) column[row] = given.values[row * given.n_fields + field];
    }
    free(given.values);
    return result;
}

static PyMethodDef methods[] = {
    {"rows", py_rows, METH_VARARGS, NULL},
    {"columns", py_columns, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_tree_functions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
