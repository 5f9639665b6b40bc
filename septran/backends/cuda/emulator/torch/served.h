// Between a process that runs Python and the functions of an extension: values in and out, as bytes, and a call that runs its
// launches in every order. backends/judged/child/extension_host.py is the other side.
#pragma once
#include <functional>
#include <string_view>
#include "torch/extension.h"

extern "C" {
char* septran_served_memory(size_t bytes);
void septran_served_given();
int septran_served_launched(const void* p);
void septran_served_reply(int status, const char* data, size_t bytes);
uint64_t st_variant();
}

namespace cuemu::served {

enum Tag : uint8_t { none, tensor, integer, real, boolean, list, text, dtype, fresh };

struct Mismatch {
  std::string what;
};

struct Value {
  Tag tag = none;
  at::Tensor held;
  int64_t whole = 0;
  double number = 0;
  std::vector<Value> items;
  std::string words;
};

/// Memory that a call is given. before: what it held.
struct Memory {
  char* data;
  size_t bytes;
  bool writable;
  std::string before;
};

struct Reader {
  const char* at;
  template <class T> T get() {
    T value;
    memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  Memory memory() {
    const auto bytes = get<uint64_t>();
    const bool writable = get<uint8_t>() != 0;
    char* data = septran_served_memory(bytes);
    memcpy(data, at, bytes);
    std::string before(at, bytes);
    at += bytes;
    if (!writable) septran_served_given();
    return {data, bytes, writable, std::move(before)};
  }
  Value value(const std::vector<Memory>& memories) {
    Value found;
    found.tag = static_cast<Tag>(get<uint8_t>());
    switch (found.tag) {
      case tensor: {
        const Memory& memory = memories.at(get<uint32_t>());
        const auto offset = get<uint64_t>();
        const auto kind = static_cast<c10::ScalarType>(get<uint8_t>());
        std::vector<int64_t> sizes(get<uint32_t>()), strides(sizes.size());
        for (int64_t& s : sizes) s = get<int64_t>();
        for (int64_t& s : strides) s = get<int64_t>();
        found.held = at::Tensor(memory.data + offset, kind, std::move(sizes)).strided(std::move(strides));
        break;
      }
      case integer: case boolean: case dtype: found.whole = get<int64_t>(); break;
      case real: found.number = get<double>(); break;
      case text: {
        const auto n = get<uint32_t>();
        found.words.assign(at, n);
        at += n;
        break;
      }
      case list: {
        const auto n = get<uint32_t>();
        for (uint32_t i = 0; i < n; i++) found.items.push_back(value(memories));
        break;
      }
      default: break;
    }
    return found;
  }
};

// ---- what a function's parameter takes of a value
template <class T> struct From {
  static T of(const Value& v) {
    if constexpr (std::is_same_v<T, bool>) {
      if (v.tag == boolean) return v.whole != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (v.tag == integer || v.tag == boolean) return static_cast<T>(v.whole);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (v.tag == real) return static_cast<T>(v.number);
      if (v.tag == integer || v.tag == boolean) return static_cast<T>(v.whole);
    } else if constexpr (std::is_same_v<T, at::Tensor>) {
      if (v.tag == tensor) return v.held;
    } else if constexpr (std::is_same_v<T, c10::ScalarType>) {
      if (v.tag == dtype) return static_cast<c10::ScalarType>(v.whole);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
      if (v.tag == text) return T(v.words);
    } else if constexpr (std::is_same_v<T, at::IntArrayRef>) {
      std::vector<int64_t> sizes;
      for (const Value& one : v.items) sizes.push_back(From<int64_t>::of(one));
      if (v.tag == list) return at::IntArrayRef(std::move(sizes));
    } else {
      static_assert(sizeof(T) == 0, "a parameter of a type that no value of Python becomes here");
    }
    throw Mismatch{""};
  }
};
template <class T> struct From<std::optional<T>> {
  static std::optional<T> of(const Value& v) {
    if (v.tag == none) return std::nullopt;
    return From<T>::of(v);
  }
};
template <class T> struct From<std::vector<T>> {
  static std::vector<T> of(const Value& v) {
    if (v.tag != list) throw Mismatch{""};
    std::vector<T> found;
    for (const Value& one : v.items) found.push_back(From<T>::of(one));
    return found;
  }
};

// ---- what Python gets of a result
inline Value to(const at::Tensor& t) {
  Value v;
  if (t.defined()) v.tag = tensor, v.held = t;
  return v;
}
template <class T> requires std::is_arithmetic_v<T> Value to(T x) {
  Value v;
  v.tag = std::is_same_v<T, bool> ? boolean : std::is_integral_v<T> ? integer : real;
  v.whole = static_cast<int64_t>(x), v.number = static_cast<double>(x);
  return v;
}
template <class T> Value to(const std::vector<T>& all) {
  Value v;
  v.tag = list;
  for (const T& one : all) v.items.push_back(to(one));
  return v;
}
template <class... T> Value to(const std::tuple<T...>& all) {
  Value v;
  v.tag = list;
  std::apply([&](const auto&... one) { (v.items.push_back(to(one)), ...); }, all);
  return v;
}
template <class A, class B> Value to(const std::pair<A, B>& all) { return to(std::tuple<A, B>(all.first, all.second)); }

using Call = std::function<Value(const std::vector<Value>&)>;
struct Function {
  const char* name;
  Call call;
};

template <class A> auto argument(const std::vector<Value>& all, size_t i) {
  try {
    return From<std::remove_cvref_t<A>>::of(all[i]);
  } catch (const Mismatch&) {
    throw Mismatch{"incompatible function arguments: argument " + std::to_string(i + 1) + " is of another type than its parameter"};
  }
}
template <class R, class... A, size_t... I> Call bound(R (*f)(A...), std::index_sequence<I...>) {
  return [f](const std::vector<Value>& all) {
    if (all.size() != sizeof...(A))
      throw Mismatch{"incompatible function arguments: " + std::to_string(all.size()) + " for " + std::to_string(sizeof...(A)) + " parameters"};
    std::tuple<std::remove_cvref_t<A>...> given{argument<A>(all, I)...};
    if constexpr (std::is_void_v<R>) {
      f(static_cast<A>(std::get<I>(given))...);
      return Value{};
    } else {
      return to(f(static_cast<A>(std::get<I>(given))...));
    }
  };
}
template <class R, class... A> Function offered(const char* name, R (*f)(A...)) {
  return {name, bound(f, std::index_sequence_for<A...>{})};
}

// ---- the answer
struct Writer {
  std::string bytes;
  template <class T> void put(T value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void value(const Value& v, const std::vector<Memory>& memories) {
    if (v.tag == tensor) return tensor_of(v.held, memories);
    put<uint8_t>(v.tag);
    if (v.tag == integer || v.tag == boolean) put(v.whole);
    if (v.tag == real) put(v.number);
    if (v.tag != list) return;
    put(static_cast<uint32_t>(v.items.size()));
    for (const Value& one : v.items) value(one, memories);
  }
  void tensor_of(const at::Tensor& t, const std::vector<Memory>& memories) {
    const char* data = static_cast<const char*>(t.data_ptr());
    for (size_t i = 0; i < memories.size(); i++) {
      if (data < memories[i].data || data >= memories[i].data + memories[i].bytes) continue;
      put<uint8_t>(tensor), put(static_cast<uint32_t>(i)), put(static_cast<uint64_t>(data - memories[i].data));
      shape(t);
      for (int64_t s : t.strides().vec()) put(s);
      return;
    }
    const int launched = septran_served_launched(data);
    const at::Tensor dense = t.contiguous();
    put<uint8_t>(fresh), put(static_cast<uint8_t>(launched));
    shape(t);
    bytes.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
  void shape(const at::Tensor& t) {
    put(static_cast<uint8_t>(t.scalar_type())), put(static_cast<uint32_t>(t.dim()));
    for (int64_t s : t.sizes().vec()) put(s);
  }
};

inline void tensors(const Value& v, std::vector<at::Tensor>& into) {
  if (v.tag == tensor) into.push_back(v.held);
  for (const Value& one : v.items) tensors(one, into);
}

/// Call a function in the orders of this call; in the first also with other orders of threads and blocks, whose results are compared.
inline Value ordered(const Call& call, const std::vector<Value>& given, const std::vector<Memory>& memories) {
  Value result;
  if (st_variant() > 0) {
    in_every_order_and_block({}, [&] { result = call(given); });
    return result;
  }
  std::vector<std::string> room;
  {
    choose_order(0);
    std::vector<at::Tensor> shown;
    tensors(call(given), shown);
    for (const at::Tensor& t : shown) room.emplace_back(t.nbytes(), '\0');
  }
  std::vector<Output> outputs;
  for (const Memory& m : memories) {
    if (!m.writable) continue;
    memcpy(m.data, m.before.data(), m.bytes);
    outputs.push_back({m.data, m.bytes});
  }
  for (std::string& r : room) outputs.push_back({r.data(), r.size()});
  auto once = [&] {
    result = call(given);
    std::vector<at::Tensor> shown;
    tensors(result, shown);
    for (size_t i = 0; i < shown.size() && i < room.size(); i++) {
      const at::Tensor dense = shown[i].contiguous();
      memcpy(room[i].data(), dense.data_ptr(), std::min(room[i].size(), dense.nbytes()));
    }
  };
  run_orders(outputs.data(), outputs.size(), true, [](void* p) { (*static_cast<decltype(once)*>(p))(); }, &once);
  return result;
}

inline void serve(const std::vector<Function>& functions, const char* request) {
  Reader read{request};
  std::string answer;
  int status = 0;
  try {
    const Function& function = functions.at(read.get<uint32_t>());
    std::vector<Memory> memories(read.get<uint32_t>());
    for (Memory& m : memories) m = read.memory();
    std::vector<Value> given(read.get<uint32_t>());
    for (Value& v : given) v = read.value(memories);
    try {
      const Value result = ordered(function.call, given, memories);
      Writer out;
      for (const Memory& m : memories) {
        const bool changed = m.writable && memcmp(m.data, m.before.data(), m.bytes) != 0;
        out.put(static_cast<uint8_t>(!changed ? 0 : septran_served_launched(m.data) == 2 ? 2 : 1));
        if (changed) out.bytes.append(m.data, m.bytes);
      }
      out.value(result, memories);
      answer = std::move(out.bytes);
    } catch (const Mismatch& wrong) {
      status = 2, answer = std::string(function.name) + "(): " + wrong.what;
    }
  } catch (const std::exception& error) {
    status = 2, answer = error.what();
  } catch (...) {
    status = 2, answer = "an exception left the function";
  }
  septran_served_reply(status, answer.data(), answer.size());
}

}  // namespace cuemu::served
