// Operators of two values; those of a name with `cuda::` are in CUB's place since CCCL 3.
#pragma once
#include "../../cuda/functional"
#include "../util_type.cuh"

namespace cub {

using Sum = cuda::std::plus<>;
using Difference = cuda::std::minus<>;
using Division = cuda::std::divides<>;
using Max = cuda::maximum<>;
using Min = cuda::minimum<>;
using Equality = cuda::std::equal_to<>;
using Inequality = cuda::std::not_equal_to<>;

/// Of two pairs (place, value) the one with the larger value; of equal ones the first place.
struct ArgMax {
  template <class P> P operator()(const P& a, const P& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class P> P operator()(const P& a, const P& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

}  // namespace cub
