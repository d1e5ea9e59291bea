/* Reads the trees of a SQLite database that nobody writes from its file, without SQLite, which takes most of a
 * microsecond for each row: https://www.sqlite.org/fileformat.html, sections 1.3, 1.6 and 2.
 *
 * The file may hold anything: nothing outside of a page is read, and every loop ends. Its pages have 4096 bytes, all of
 * which are used.
 */

#define _POSIX_C_SOURCE 200809L /* pread */
#define _FILE_OFFSET_BITS 64

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trees.h"

enum { INDEX_INNER = 2, TABLE_INNER = 5, INDEX_LEAF = 10, TABLE_LEAF = 13 };
enum { MOST_OF_INDEX = 1002, MOST_OF_ROW = 4061, LEAST_OF_ROW = 489 };  /* bytes of an entry in its own page */
enum { FILE_HEADER = 100, PATIENCE = 64, LONGEST = 1 << 26 };

/* Reads a number of one to nine bytes; returns where it ends, or NULL where it does not before the end. */
static inline const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    if (at < end && *at < 128) {
        *value = *at;
        return at + 1;
    }
    *value = 0;
    for (int i = 0; at < end; i++, at++) {
        if (i == 8) {
            *value = *value << 8 | *at;
            return at + 1;
        }
        *value = *value << 7 | (*at & 127);
        if (*at < 128) return at + 1;
    }
    return NULL;
}

static int is_leaf(const level *here) { return here->kind == INDEX_LEAF || here->kind == TABLE_LEAF; }

/* Reads a page to a depth of the tree, unless it is there; its first cell becomes the current one. */
static int load(tree *made, int depth, uint32_t number) {
    if (depth >= DEPTH || number < 1 || number > made->pages) return -1;
    level *here = &made->levels[depth];
    made->depth = depth;
    if (here->number != number) {
        here->number = 0;
        if (made->patience-- <= 0) return -1;
        if (pread(made->file, here->data, PAGE, (off_t)(number - 1) * PAGE) != PAGE) return -1;
        here->header = number == 1 ? FILE_HEADER : 0;
        here->kind = here->data[here->header];
        here->cells = (int)big_endian(here->data + here->header + 3, 2);
        int inner = here->kind == INDEX_INNER || here->kind == TABLE_INNER;
        int is_index = here->kind == INDEX_INNER || here->kind == INDEX_LEAF;
        if (!inner && !is_leaf(here)) return -1;
        if (depth == 0) made->is_index = is_index;
        if (is_index != made->is_index) return -1;
        if (here->header + (inner ? 12 : 8) + 2 * here->cells > PAGE) return -1;
        here->number = number;
    }
    here->cell = 0;
    return 1;
}

static const uint8_t *cell_at(const level *here, int cell) {
    int start = here->header + (is_leaf(here) ? 8 : 12), at = (int)big_endian(here->data + start + 2 * cell, 2);
    return at < start + 2 * here->cells || at > PAGE - 4 ? NULL : here->data + at;
}

/* The page below a cell, or behind the last one. */
static uint32_t child_of(const level *here, int cell) {
    const uint8_t *at = cell < here->cells ? cell_at(here, cell) : here->data + here->header + 8;
    return at ? (uint32_t)big_endian(at, 4) : 0;
}

/* Goes down to the first entry below the current child. */
static int descend(tree *made) {
    for (level *here = &made->levels[made->depth]; !is_leaf(here); here = &made->levels[made->depth])
        if (load(made, made->depth + 1, child_of(here, here->cell)) < 0) return -1;
    return 1;
}

/* Goes on from behind the last cell of a leaf to where there is an entry. */
static int settle(tree *made) {
    while (made->levels[made->depth].cell >= made->levels[made->depth].cells) {
        do {
            if (made->depth == 0) return 0;
            made->depth--;
        } while (made->levels[made->depth].cell >= made->levels[made->depth].cells);
        if (made->is_index) return 1;  /* what separates two children of an index is an entry, too */
        made->levels[made->depth].cell++;
        if (descend(made) < 0) return -1;
    }
    return 1;
}

/* Takes what an entry consists of: of the same as the one before, if its header and size are the same. */
static int take_fields(const uint8_t *at, int64_t size, entry *found) {
    uint64_t header, type, word = 0;
    if (size >= 8) memcpy(&word, at, 8);
    int is_known = found->mask && size == found->size && !((word ^ found->header) & found->mask);
    found->start = at;
    if (is_known) return 1;
    found->mask = 0;
    found->size = size;
    const uint8_t *end = at + size, *next = varint(at, end, &header);
    if (!next || header > (uint64_t)size || next > at + header) return -1;
    const uint8_t *content = at + header;
    for (found->n = 0; next < at + header; found->n++) {
        if (found->n == FIELDS || !(next = varint(next, at + header, &type)) || type > LONGEST) return -1;
        int64_t length = length_of((int64_t)type);
        if (length < 0 || length > end - content) return -1;
        found->type[found->n] = (int64_t)type;
        found->at[found->n] = (int32_t)(content - at);
        content += length;
    }
    if (content != end) return -1;
    found->header = word;
    if (size >= 8 && header <= 8) memset(&found->mask, 0xff, header);
    return 1;
}

/* Joins an entry that goes on in other pages: each holds the number of the next one, and 4092 bytes. There are no more
 * of them than pages, for all entries. */
static const uint8_t *join(tree *made, const uint8_t *at, int64_t here, int64_t size) {
    uint8_t page[PAGE];
    uint32_t number = (uint32_t)big_endian(at + here, 4);
    free(made->joined);
    if (!(made->joined = malloc(size + BEHIND))) return NULL;
    memcpy(made->joined, at, here);
    for (int64_t done = here; done < size; done += PAGE - 4) {
        if (number < 2 || number > made->pages || made->others-- <= 0) return NULL;
        if (pread(made->file, page, PAGE, (off_t)(number - 1) * PAGE) != PAGE) return NULL;
        memcpy(made->joined + done, page + 4, size - done < PAGE - 4 ? size - done : PAGE - 4);
        number = (uint32_t)big_endian(page, 4);
    }
    return made->joined;
}

static int read_cell(tree *made, const level *here, int cell, entry *found) {
    const uint8_t *at = cell_at(here, cell), *end = here->data + PAGE;
    uint64_t size, rowid = 0;
    if (!at || !(at = varint(at + (is_leaf(here) ? 0 : 4), end, &size)) || size > LONGEST) return -1;
    if (!made->is_index && !(at = varint(at, end, &rowid))) return -1;
    found->rowid = (int64_t)rowid;
    int64_t most = made->is_index ? MOST_OF_INDEX : MOST_OF_ROW, held = (int64_t)size;
    if (held > most) {
        if (made->is_index || held > made->pages * PAGE) return -1;
        held = LEAST_OF_ROW + ((int64_t)size - LEAST_OF_ROW) % (PAGE - 4);
        held = held > most ? LEAST_OF_ROW : held;
        if (held + 4 > end - at || !(at = join(made, at, held, (int64_t)size))) return -1;
    } else if (held > end - at) {
        return -1;
    }
    return take_fields(at, (int64_t)size, found);
}

/* Reads the current entry. All entries together have no more bytes than the file, each being read once. */
int read_entry(tree *made, entry *found) {
    const level *here = &made->levels[made->depth];
    if (read_cell(made, here, here->cell, found) < 0) return -1;
    return (made->unread -= 4 + found->size) < 0 ? -1 : 1;
}

/* Whether a cell is before what is wanted (-1), has it (0), or is behind it (1); anything else for a fault. */
static int compare(tree *made, const level *here, int cell, const int64_t *wanted, int n) {
    entry found;
    found.mask = 0;
    int64_t value;
    if (!made->is_index) {
        uint64_t size, rowid;
        const uint8_t *at = cell_at(here, cell), *end = here->data + PAGE;
        if (!at || (is_leaf(here) && !(at = varint(at, end, &size)))) return 2;
        if (!varint(is_leaf(here) ? at : at + 4, end, &rowid)) return 2;
        value = (int64_t)rowid;
        return value < wanted[0] ? -1 : value > wanted[0];
    }
    if (read_cell(made, here, cell, &found) < 0 || found.n < n) return 2;
    for (int i = 0; i < n; i++) {
        if (!is_integer(found.type[i])) return 2;
        value = integer_of(&found, i);
        if (value != wanted[i]) return value < wanted[i] ? -1 : 1;
    }
    return 0;
}

/* Goes to the first entry that is not before n integers: the first fields of an index, or the number of a row. */
int seek_entry(tree *made, const int64_t *wanted, int n) {
    uint32_t number = made->levels[0].number;
    made->patience = PATIENCE;
    for (int depth = 0;; depth++) {
        if (load(made, depth, number) < 0) return -1;
        level *here = &made->levels[depth];
        int low = 0, high = here->cells;
        while (low < high) {
            int middle = (low + high) / 2, order = compare(made, here, middle, wanted, n);
            if (order > 1) return -1;
            if (order < 0) low = middle + 1;
            else high = middle;
        }
        here->cell = low;
        if (is_leaf(here)) return settle(made);
        number = child_of(here, low);
    }
}

int next_entry(tree *made) {
    made->patience = PATIENCE;
    made->levels[made->depth].cell++;
    if (!is_leaf(&made->levels[made->depth]) && descend(made) < 0) return -1;
    return settle(made);
}

int first_entry(tree *made) {
    made->patience = PATIENCE;
    if (load(made, 0, made->levels[0].number) < 0 || descend(made) < 0) return -1;
    return settle(made);
}

/* Opens the tree that begins at a page; NULL where there is no such tree, or no memory. */
tree *tree_at(int file, uint32_t root) {
    tree *made = malloc(sizeof(tree));
    off_t size = lseek(file, 0, SEEK_END);
    if (!made || size < PAGE) {
        free(made);
        return NULL;
    }
    memset(made, 0, offsetof(tree, data));  /* to clear all of it takes longer than to read a page */
    for (int depth = 0; depth < DEPTH; depth++) made->levels[depth].data = made->data[depth];
    made->file = file;
    made->pages = made->others = size / PAGE;
    made->unread = size;
    made->patience = PATIENCE;
    if (load(made, 0, root) > 0) return made;
    free_tree(made);
    return NULL;
}

void free_tree(tree *made) {
    free(made->joined);
    free(made);
}
