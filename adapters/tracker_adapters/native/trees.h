/* Reading the trees of a SQLite database from its file; see trees.c. */

#ifndef STEPSCOPE_TREES_H
#define STEPSCOPE_TREES_H

#include <stdint.h>
#include <string.h>

enum { PAGE = 4096, DEPTH = 16, FIELDS = 16, KEYS = 4 };
enum { BEHIND = 7 };  /* bytes that may be read behind a field, with it: see integer_of */
enum { IS_NULL = 0, IS_DOUBLE = 7, IS_ZERO = 8, IS_ONE = 9, FIRST_BYTES = 12 };  /* types of a field; 1 to 6: integers */

typedef struct {
    uint32_t number;   /* of the page; 0 for none */
    int kind, header;  /* what it is, and where its header begins */
    int cells, cell;   /* how many it has, and the current one; the child that is open, where it is no leaf */
    uint8_t *data;
} level;

typedef struct {
    int64_t rowid, size;  /* 0 in an index; in bytes */
    int n;
    int64_t type[FIELDS];
    int32_t at[FIELDS];  /* from the start on */
    const uint8_t *start;
    uint64_t header, mask;  /* of a header of up to 8 bytes: these, and which of them it has; 0 for none */
} entry;

typedef struct {
    int file, is_index, depth;  /* the depth is that of the current entry */
    int64_t pages, patience;    /* how many the file has, and how many more may be read until the next entry */
    int64_t others, unread;     /* how many pages may hold what entries have no room for; bytes of further entries */
    uint8_t *joined;            /* an entry that is longer than what a page holds of it */
    level levels[DEPTH];
    uint8_t data[DEPTH][PAGE + BEHIND];  /* of levels; most of it is never used */
} tree;

tree *tree_at(int file, uint32_t root);
void free_tree(tree *made);
/* Each returns 1 where there is an entry, 0 at the end, and -1 for what no sound database has. */
int first_entry(tree *made);
int seek_entry(tree *made, const int64_t *wanted, int n);
int next_entry(tree *made);
int read_entry(tree *made, entry *found);

/* ---- searches.c ---- */

typedef struct {  /* what is looked for in an index, and the fields that are kept of it, with what they held */
    int64_t wanted[KEYS + 1], fields[FIELDS];
    int n_wanted, n_fields, n_keys, any_first;
    int64_t *values, n, room;
} search;

int search_entries(tree *made, search *given);

static inline uint64_t big_endian(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

/* Eight bytes; written so that compilers make one load of it. */
static inline uint64_t word_at(const uint8_t *at) {
    return (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 | (uint64_t)at[3] << 32 |
           (uint64_t)at[4] << 24 | (uint64_t)at[5] << 16 | (uint64_t)at[6] << 8 | at[7];
}

static inline int is_integer(int64_t type) {
    return (type > IS_NULL && type < IS_DOUBLE) || type == IS_ZERO || type == IS_ONE;
}

/* How many bytes a field of a type has; -1 for a type that there is not. */
static inline int64_t length_of(int64_t type) {
    static const int lengths[FIRST_BYTES] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1};
    return type < FIRST_BYTES ? lengths[type] : (type - FIRST_BYTES) / 2;
}

/* Reads eight bytes, whatever the type, and shifts out those that belong to no field. */
static inline int64_t integer_of(const entry *found, int field) {
    int64_t type = found->type[field];
    if (type >= IS_ZERO) return type - IS_ZERO;
    return (int64_t)word_at(found->start + found->at[field]) >> (64 - 8 * length_of(type));
}

static inline double double_of(const entry *found, int field) {
    if (is_integer(found->type[field])) return (double)integer_of(found, field);  /* as SQLite keeps whole numbers */
    uint64_t bits = word_at(found->start + found->at[field]);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

#endif
