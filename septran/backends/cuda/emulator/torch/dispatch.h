// Checks, and code that is chosen by a tensor's dtype.
#pragma once

#define TORCH_CHECK(ok, ...) do { if (!(ok)) cuemu::fail("check", "TORCH_CHECK(%s)", #ok); } while (0)
#define TORCH_INTERNAL_ASSERT(ok, ...) TORCH_CHECK(ok)
#define AT_ASSERT(ok, ...) TORCH_CHECK(ok)
#define AT_ASSERTM(ok, ...) TORCH_CHECK(ok)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define AT_ERROR(...) cuemu::fail("check", "AT_ERROR")

#define SEPTRAN_CASE(kind, T, ...) case kind: { using scalar_t [[maybe_unused]] = T; __VA_ARGS__(); break; }
#define SEPTRAN_SWITCH(type, name, cases) \
  switch (type) { cases default: cuemu::fail("check", "\"%s\" not implemented for '%s'", name, c10::toString(type)); }
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
