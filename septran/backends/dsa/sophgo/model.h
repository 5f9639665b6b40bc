/* What a kernel's entry calls of the host's side (model.c). */
#ifndef SG_MODEL_H
#define SG_MODEL_H
#include <stddef.h>
void *sg_bind(const char *name, void *host, size_t bytes, int written);
void *sg_workspace(const char *name, size_t bytes);
void sg_run(void (*kernel)(void *), void *args);
const char *sg_report(void);
#endif
