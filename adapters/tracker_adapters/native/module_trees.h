/* The functions of module_trees.c, for module.c. */

#ifndef STEPSCOPE_MODULE_TREES_H
#define STEPSCOPE_MODULE_TREES_H

int add_tree_functions(PyObject *module);

#endif
