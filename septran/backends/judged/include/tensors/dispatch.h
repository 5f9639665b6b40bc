// Checks, and code that is chosen by a tensor's dtype.
#pragma once

namespace septran_tensors {
/// The words of a check's message, one after the other.
struct Words {
  std::string text;
  Words& operator<<(const char* s) { return text += s, *this; }
  Words& operator<<(const std::string& s) { return text += s, *this; }
  Words& operator<<(bool b) { return text += b ? "1" : "0", *this; }
  Words& operator<<(c10::ScalarType t) { return text += toString(t), *this; }
  Words& operator<<(const c10::IntArrayRef& sizes) {
    const char* before = "[";
    for (int64_t s : sizes) text += before + std::to_string(s), before = ", ";
    text += sizes.empty() ? "[]" : "]";
    return *this;
  }
  template <class T> Words& operator<<(const T& other) {
    if constexpr (std::is_arithmetic_v<T>) text += std::to_string(other);
    else text += "?";
    return *this;
  }
};
template <class... T> [[noreturn]] void refuse(const char* check, const T&... words) {
  Words all;
  (all << ... << words);
  fail("check", "%s%s%s", check, all.text.empty() ? "" : ": ", all.text.c_str());
}
}  // namespace septran_tensors

#define TORCH_CHECK(ok, ...) do { if (!(ok)) septran_tensors::refuse("TORCH_CHECK(" #ok ")" __VA_OPT__(,) __VA_ARGS__); } while (0)
#define TORCH_INTERNAL_ASSERT(ok, ...) TORCH_CHECK(ok)
#define AT_ASSERT(ok, ...) TORCH_CHECK(ok)
#define AT_ASSERTM(ok, ...) TORCH_CHECK(ok)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define AT_ERROR(...) septran_tensors::refuse("AT_ERROR" __VA_OPT__(,) __VA_ARGS__)

#define SEPTRAN_CASE(kind, T, ...) case kind: { using scalar_t [[maybe_unused]] = T; __VA_ARGS__(); break; }
#define SEPTRAN_SWITCH(type, name, cases) \
  switch (type) { cases default: septran_tensors::fail("check", "\"%s\" not implemented for '%s'", name, c10::toString(type)); }
#define SEPTRAN_FLOATS(...) \
  SEPTRAN_CASE(c10::ScalarType::Float, float, __VA_ARGS__) SEPTRAN_CASE(c10::ScalarType::Double, double, __VA_ARGS__)
#define SEPTRAN_INTS(...)                                        \
  SEPTRAN_CASE(c10::ScalarType::Int, int32_t, __VA_ARGS__)       \
  SEPTRAN_CASE(c10::ScalarType::Long, int64_t, __VA_ARGS__)      \
  SEPTRAN_CASE(c10::ScalarType::Short, int16_t, __VA_ARGS__)     \
  SEPTRAN_CASE(c10::ScalarType::Char, int8_t, __VA_ARGS__)       \
  SEPTRAN_CASE(c10::ScalarType::Byte, uint8_t, __VA_ARGS__)

namespace c10 {
template <ScalarType> struct TypeOf;
template <> struct TypeOf<ScalarType::Half> { using type = Half; };
template <> struct TypeOf<ScalarType::BFloat16> { using type = BFloat16; };
template <> struct TypeOf<ScalarType::Bool> { using type = bool; };
}  // namespace c10
#define SEPTRAN_MORE(kind, ...) SEPTRAN_CASE(kind, c10::TypeOf<kind>::type, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__) SEPTRAN_MORE(c10::ScalarType::Half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(more, type, name, ...) \
  SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__) SEPTRAN_MORE(more, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(first, second, type, name, ...) \
  SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__) SEPTRAN_MORE(first, __VA_ARGS__) SEPTRAN_MORE(second, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) SEPTRAN_SWITCH(type, name, SEPTRAN_INTS(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__) SEPTRAN_INTS(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(more, type, name, ...) \
  SEPTRAN_SWITCH(type, name, SEPTRAN_FLOATS(__VA_ARGS__) SEPTRAN_INTS(__VA_ARGS__) SEPTRAN_MORE(more, __VA_ARGS__))
