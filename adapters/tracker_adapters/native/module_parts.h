/* The functions of module_trees.c and module_samples.c, for module.c. */

#ifndef STEPSCOPE_MODULE_PARTS_H
#define STEPSCOPE_MODULE_PARTS_H

int add_tree_functions(PyObject *module);
int add_sample_functions(PyObject *module);

#endif
