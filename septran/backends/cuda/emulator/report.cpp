// What the emulator found: to the static host where there is one, else a line on stderr and one JSON list in
// $SEPTRAN_EMU_REPORT. A call that ends well says so, too.
#include <cstdarg>
#include <unistd.h>
#include "machine.h"
#include "said.h"

namespace cuemu {

int report_thread = -1;
const char* report_kernel = "";

namespace {
constexpr int kExitCode = 86;  // the child's exit status for anything the emulator rejects

struct Text {
  char words[2048];
  size_t at = 0;
  void put(char c) {
    if (at + 1 < sizeof words) words[at++] = c;
    words[at] = 0;
  }
  void quoted(const char* s) {
    put('"');
    for (; *s; s++) {
      if (*s == '"' || *s == '\\') put('\\');
      if (static_cast<unsigned char>(*s) >= 32) put(*s);
    }
    put('"');
  }
  void plain(const char* s) {
    while (*s) put(*s++);
  }
  void number(long n) {
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", n);
    plain(digits);
  }
};
}  // namespace

void fail(const char* kind, const char* format, ...) {
  char message[600];
  va_list rest;
  va_start(rest, format);
  vsnprintf(message, sizeof message, format, rest);
  va_end(rest);
  Text text;
  text.plain("{\"kind\": "), text.quoted(kind);
  text.plain(", \"message\": "), text.quoted(message);
  text.plain(", \"kernel\": "), text.quoted(report_kernel);
  text.plain(", \"block\": [");
  text.number(block_id.x), text.plain(", "), text.number(block_id.y), text.plain(", "), text.number(block_id.z);
  text.plain("], \"thread\": "), text.number(report_thread), text.plain("}");
  if (st_say) {
    char report[sizeof text.words + 32];
    snprintf(report, sizeof report, "{\"errors\": [%s]}", text.words);
    st_say(report);
    _exit(kExitCode);
  }
  fprintf(stderr, "cuda emulation: %s: %s [kernel %s, block %u,%u,%u, thread %d]\n", kind, message, report_kernel, block_id.x,
          block_id.y, block_id.z, report_thread);
  const char* path = getenv("SEPTRAN_EMU_REPORT");
  FILE* f = path ? fopen(path, "w") : nullptr;
  if (f) fprintf(f, "[%s]\n", text.words), fclose(f);
  _exit(kExitCode);
}

}  // namespace cuemu
