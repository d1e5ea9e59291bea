/* Finds the entries of an index that begin with given integers, and keeps some of their fields. */

#include <math.h>
#include <stdlib.h>

#include "trees.h"

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

/* Keeps the fields of an entry, of which those that order the tree are read already. */
static int keep(const entry *found, search *given, const int64_t *keys) {
    if (given->n + given->n_fields > given->room) {
        int64_t room = 2 * given->room + 1024 * given->n_fields, *grown = realloc(given->values, room * sizeof(int64_t));
        if (!grown) return 0;
        given->values = grown;
        given->room = room;
    }
    for (int i = 0; i < given->n_fields; i++) {
        int64_t wide = given->fields[i] < 0 ? ~given->fields[i] : given->fields[i];
        if (wide >= found->n) return 0;
        int field = (int)wide;
        int64_t type = found->type[field], value;
        if (given->fields[i] >= 0) {
            if (!is_integer(type)) return 0;
            value = field < given->n_keys ? keys[field] : integer_of(found, field);
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
 * are looked for below each value that the first field has. Returns 0, or -1 for what no sound database has. */
int search_entries(tree *made, search *given) {
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
            if (!keep(&found, given, before)) return -1;
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
