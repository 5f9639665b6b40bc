// How the judge's entry of a C++ file says what is wrong with a vector and ends; a program without the static host only ends.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#ifndef SEPTRAN_WATCHED
extern "C" void st_say(const char* words);  // septran/host/host.c
#endif

namespace septran_vectors {
[[noreturn]] inline void fail(const char* kind, const char* format, ...) {
#ifndef SEPTRAN_WATCHED
  char what[300], said[400];
  va_list rest;
  va_start(rest, format);
  vsnprintf(what, sizeof what, format, rest);
  va_end(rest);
  snprintf(said, sizeof said, "{\"errors\": [{\"kind\": \"%s\", \"message\": \"%s\"}]}", kind, what);
  st_say(said);
#endif
  std::_Exit(86);
}
}  // namespace septran_vectors
