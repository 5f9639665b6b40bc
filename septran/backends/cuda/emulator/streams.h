// Streams and events: work that is given to a stream runs as late as the order that the host asks for lets it.
//
// Work of the default stream runs at once, after all of the streams that wait for it (CUDA C++ programming guide, "default
// stream"). Of a stream made with cudaStreamNonBlocking it waits for nothing; work that is left there when the host function
// returns has been waited for by nobody.
#pragma once
#include <functional>
#include <utility>
#include <vector>
#include "api.h"

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4 };
enum { cudaEventRecordDefault = 0, cudaEventWaitDefault = 0 };

namespace cuemu {

struct Stream {
  bool blocking = true;
  size_t done = 0;  // of its work, how much has run
  std::vector<std::function<void()>> work;

  /// Run what was given before the piece number `end`.
  void run(size_t end) {
    while (done < end && done < work.size()) {
      const std::function<void()> next = std::move(work[done++]);
      next();
    }
  }
  void run() { run(work.size()); }
};

inline std::vector<Stream*>& streams() {
  static std::vector<Stream*> all;
  return all;
}
inline Stream* stream_of(void* s) {
  for (Stream* known : streams())
    if (known == s) return known;
  return nullptr;  // 0, or a name of the default stream
}

/// What the default stream does waits for all streams but those that were made not to block.
inline void before_default() {
  for (size_t i = 0; i < streams().size(); i++)
    if (streams()[i]->blocking) streams()[i]->run();
}
inline void all_streams() {
  for (size_t i = 0; i < streams().size(); i++) streams()[i]->run();
}

/// Do `work` at once on the default stream, later on another. It must hold copies of all that it reads.
template <class F> void on_stream(void* s, F work) {
  if (Stream* stream = stream_of(s)) {
    stream->work.emplace_back(std::move(work));
  } else {
    before_default();
    work();
  }
}

struct Event {
  Stream* stream = nullptr;
  size_t end = 0;
  void wait() const {
    if (stream && stream_of(stream)) stream->run(end);
  }
};
inline std::vector<Event*>& events() {
  static std::vector<Event*> all;
  return all;
}

/// The host function returns: what it left to a stream that blocks nobody may run after its results are read. What has run is forgotten.
inline void end_streams() {
  before_default();
  for (Stream* stream : streams())
    if (stream->done < stream->work.size()) {
      streams().clear();
      fail("stream", "work was left to a stream that does not block the default one, and nobody waits for it: cudaStreamSynchronize");
    }
  for (Stream* stream : streams()) stream->work.clear(), stream->done = 0;
  for (Event* event : events()) event->end = 0;
}
}  // namespace cuemu

static inline int cudaStreamCreateWithFlags(void** s, unsigned flags) {
  cuemu::Stream* stream = new cuemu::Stream;
  stream->blocking = !(flags & cudaStreamNonBlocking);
  cuemu::streams().push_back(stream);
  *s = stream;
  return 0;
}
static inline int cudaStreamCreate(void** s) { return cudaStreamCreateWithFlags(s, cudaStreamDefault); }
static inline int cudaStreamCreateWithPriority(void** s, unsigned flags, int) { return cudaStreamCreateWithFlags(s, flags); }
static inline int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return 0;
}
static inline int cudaStreamSynchronize(void* s) {
  if (cuemu::Stream* stream = cuemu::stream_of(s)) stream->run();
  else cuemu::before_default();
  return 0;
}
/// What is left in a stream runs before it is gone.
static inline int cudaStreamDestroy(void* s) {
  std::vector<cuemu::Stream*>& all = cuemu::streams();
  for (size_t i = 0; i < all.size(); i++)
    if (all[i] == s) {
      if (!all[i]->blocking && all[i]->done < all[i]->work.size())
        cuemu::fail("stream", "a stream with work that nobody waited for is destroyed: cudaStreamSynchronize");
      all[i]->run();
      delete all[i];
      all.erase(all.begin() + static_cast<long>(i));
      break;
    }
  return 0;
}
static inline int cudaDeviceSynchronize() {
  cuemu::all_streams();
  return 0;
}
static inline int cudaEventCreateWithFlags(void** e, unsigned) {
  cuemu::Event* event = new cuemu::Event;
  cuemu::events().push_back(event);
  *e = event;
  return 0;
}
static inline int cudaEventCreate(void** e, unsigned = 0) { return cudaEventCreateWithFlags(e, 0); }
static inline int cudaEventRecord(void* e, void* s = nullptr) {
  cuemu::Event& event = *static_cast<cuemu::Event*>(e);
  event.stream = cuemu::stream_of(s);
  if (event.stream) event.end = event.stream->work.size();
  else cuemu::before_default();
  return 0;
}
static inline int cudaEventSynchronize(void* e) {
  static_cast<cuemu::Event*>(e)->wait();
  return 0;
}
/// The stream's later work runs after the event: that is how late it may run, so the event's part runs first.
static inline int cudaStreamWaitEvent(void* s, void* e, unsigned = 0) {
  const cuemu::Event event = *static_cast<cuemu::Event*>(e);
  cuemu::Stream* stream = cuemu::stream_of(s);
  if (stream) stream->work.emplace_back([event] { event.wait(); });
  else event.wait();
  return 0;
}
static inline int cudaEventDestroy(void* e) {
  std::vector<cuemu::Event*>& all = cuemu::events();
  for (size_t i = 0; i < all.size(); i++)
    if (all[i] == e) all.erase(all.begin() + static_cast<long>(i--));
  delete static_cast<cuemu::Event*>(e);
  return 0;
}
static inline int cudaEventElapsedTime(float* ms, void*, void*) {
  *ms = static_cast<float>(cuemu::clock_now());
  return 0;
}
