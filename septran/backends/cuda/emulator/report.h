// What the emulator found, said once: a line on stderr and one JSON list in $SEPTRAN_EMU_REPORT.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include "types.h"

namespace cuemu {

constexpr int kExitCode = 86;  // the child's exit status for anything the emulator rejects

inline uint3 block_id;
inline int report_thread = -1;
inline const char* report_kernel = "";

inline std::string json_text(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 32) out += c;
  }
  return out + "\"";
}

/// Write the finding without ending the process.
inline void report(const std::string& kind, const std::string& message) {
  fprintf(stderr, "cuda emulation: %s: %s [kernel %s, block %u,%u,%u, thread %d]\n", kind.c_str(),
          message.c_str(), report_kernel, block_id.x, block_id.y, block_id.z, report_thread);
  fflush(stderr);
  const char* path = getenv("SEPTRAN_EMU_REPORT");
  if (!path) return;
  if (FILE* f = fopen(path, "w")) {
    fprintf(f, "[{\"kind\": %s, \"message\": %s, \"kernel\": %s, \"block\": [%u, %u, %u], \"thread\": %d}]\n",
            json_text(kind).c_str(), json_text(message).c_str(), json_text(report_kernel).c_str(), block_id.x,
            block_id.y, block_id.z, report_thread);
    fclose(f);
  }
}

[[noreturn]] inline void fail(const std::string& kind, const std::string& message) {
  report(kind, message);
  _exit(kExitCode);
}

}  // namespace cuemu
