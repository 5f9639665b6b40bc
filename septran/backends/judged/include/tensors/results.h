// Between the judge, which has addresses, and a host function, which has tensors.
#pragma once
#include "torch/extension.h"

namespace septran_tensors {

struct Wanted {
  const char* name;
  void* data;
  c10::ScalarType kind;
  std::vector<int64_t> sizes;
};

inline void give(const at::Tensor& result, const Wanted& wanted) {
  if (!result.defined()) fail("result", "%s is no tensor", wanted.name);
  if (result.scalar_type() != wanted.kind)
    fail("result", "%s is %s, the reference has %s", wanted.name, toString(result.scalar_type()), toString(wanted.kind));
  if (result.device().kind != c10::Device::kHere) fail("result", "%s lies on the processor, not on the device of the inputs", wanted.name);
  if (result.sizes() != at::IntArrayRef(wanted.sizes)) {
    std::string has, wants;
    for (int64_t s : result.sizes().vec()) has += " " + std::to_string(s);
    for (int64_t s : wanted.sizes) wants += " " + std::to_string(s);
    fail("result", "%s has the shape%s, the reference has%s", wanted.name, has.c_str(), wants.c_str());
  }
  at::Tensor dense = result.contiguous();
  memcpy(wanted.data, dense.data_ptr(), dense.nbytes());
}

inline void give(const at::Tensor& result, const std::vector<Wanted>& wanted) {
  if (wanted.size() != 1) fail("result", "one tensor is returned, the reference has %zu", wanted.size());
  give(result, wanted[0]);
}
inline void give(const std::vector<at::Tensor>& results, const std::vector<Wanted>& wanted) {
  if (results.size() != wanted.size()) fail("result", "%zu tensors are returned, the reference has %zu", results.size(), wanted.size());
  for (size_t i = 0; i < results.size(); i++) give(results[i], wanted[i]);
}
template <class... T> void give(const std::tuple<T...>& results, const std::vector<Wanted>& wanted) {
  std::apply([&](const auto&... r) { give(std::vector<at::Tensor>{r...}, wanted); }, results);
}

template <size_t I, class T> decltype(auto) part(T& all) {
  if constexpr (requires { all.at(I); }) return all.at(I);
  else return std::get<I>(all);
}

}  // namespace septran_tensors
