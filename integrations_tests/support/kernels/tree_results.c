/* Reads trees of databases and prints what is in them, byte for byte: PATH ROOT WANTED, as many as there are.
 * Made for any processor. PATH may be damaged.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trees.h"

static void put(int64_t number) { fwrite(&number, sizeof number, 1, stdout); }

static void put_entry(const entry *found) {
    put(found->rowid);
    put(found->n);
    for (int i = 0; i < found->n; i++) {
        int64_t type = found->type[i];
        put(type);
        if (is_integer(type)) put(integer_of(found, i));
        if (is_integer(type) || type == IS_DOUBLE) {
            double number = double_of(found, i);
            fwrite(&number, sizeof number, 1, stdout);
        }
        fwrite(found->start + found->at[i], 1, length_of(type), stdout);
    }
}

/* All entries from the current one on, and what the last step returned. */
static void put_entries(tree *made, int state) {
    entry found;
    found.mask = 0;
    for (; state > 0; state = next_entry(made)) {
        if (read_entry(made, &found) < 0) {
            state = -2;
            break;
        }
        put_entry(&found);
    }
    put(state);
}

static void read_tree(const char *path, uint32_t root, int64_t wanted) {
    int file = open(path, O_RDONLY);
    tree *made = file < 0 ? NULL : tree_at(file, root);
    put(made != NULL);
    if (made) put_entries(made, first_entry(made));
    free(made ? made->joined : NULL), free(made);
    made = file < 0 ? NULL : tree_at(file, root);
    if (made && made->is_index) {
        search given = {.n_wanted = 1, .n_keys = 2, .any_first = 1, .n_fields = 2, .fields = {0, ~2}};
        given.wanted[1] = wanted;
        put(search_entries(made, &given));
        put(given.n);
        fwrite(given.values, sizeof(int64_t), given.n, stdout);
        free(given.values);
    } else if (made) {
        put_entries(made, seek_entry(made, &wanted, 1));
    }
    if (made) free_tree(made);
    close(file);
}

int main(int n, char **arguments) {
    for (int i = 1; i + 2 < n; i += 3)
        read_tree(arguments[i], (uint32_t)atoi(arguments[i + 1]), (int64_t)strtoll(arguments[i + 2], NULL, 10));
    return 0;
}
