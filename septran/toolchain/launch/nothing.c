// A kernel that does nothing: its calls cost what calls cost.
__attribute__((visibility("default"))) void st_nothing(void *const *args) { (void)args; }
