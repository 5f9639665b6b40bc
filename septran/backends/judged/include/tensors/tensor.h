// A tensor of torch: addresses, sizes, allocation, views and copies. The target's torch/extension.h has, before it includes this,
// c10::Half, c10::BFloat16 and in septran_tensors: fail, kOnDevice, device_memory, free_device_memory.
#pragma once

namespace c10 {
enum class ScalarType { Float, Double, Half, BFloat16, Int, Long, Short, Char, Byte, Bool };
enum class DeviceType { CPU, CUDA };
enum class Layout { Strided };
enum class MemoryFormat { Contiguous, ChannelsLast, Preserve };

struct Device {
  static constexpr DeviceType kHere = septran_tensors::kOnDevice ? DeviceType::CUDA : DeviceType::CPU;
  DeviceType kind = kHere;
  Device(DeviceType kind = kHere, int = 0) : kind(kind) {}
  Device(const std::string& name) : kind(name.substr(0, 4) == "cuda" ? DeviceType::CUDA : DeviceType::CPU) {}
  Device(const char* name) : Device(std::string(name)) {}
  DeviceType type() const { return kind; }
  int index() const { return 0; }
  bool is_cuda() const { return kind == DeviceType::CUDA; }
  bool is_cpu() const { return kind == DeviceType::CPU; }
  bool operator==(const Device& o) const { return kind == o.kind; }
  bool operator!=(const Device& o) const { return kind != o.kind; }
};

inline const char* toString(ScalarType t) {
  const char* names[] = {"Float", "Double", "Half", "BFloat16", "Int", "Long", "Short", "Char", "Byte", "Bool"};
  return names[static_cast<int>(t)];
}
inline size_t elementSize(ScalarType t) {
  const size_t sizes[] = {4, 8, 2, 2, 4, 8, 2, 1, 1, 1};
  return sizes[static_cast<int>(t)];
}

template <class T> struct CppTypeToScalarType;
#define SEPTRAN_TYPE(T, N) \
  template <> struct CppTypeToScalarType<T> { static constexpr ScalarType value = ScalarType::N; };
SEPTRAN_TYPE(float, Float)
SEPTRAN_TYPE(double, Double)
SEPTRAN_TYPE(Half, Half)
SEPTRAN_TYPE(BFloat16, BFloat16)
SEPTRAN_TYPE(_Float16, Half)
SEPTRAN_TYPE(int, Int)
SEPTRAN_TYPE(long, Long)
SEPTRAN_TYPE(long long, Long)
SEPTRAN_TYPE(short, Short)
SEPTRAN_TYPE(signed char, Char)
SEPTRAN_TYPE(char, Char)
SEPTRAN_TYPE(unsigned char, Byte)
SEPTRAN_TYPE(bool, Bool)
#undef SEPTRAN_TYPE

class IntArrayRef {
 public:
  IntArrayRef(std::initializer_list<int64_t> v) : v_(v) {}
  IntArrayRef(std::vector<int64_t> v) : v_(std::move(v)) {}
  IntArrayRef(int64_t one) : v_{one} {}
  int64_t operator[](size_t i) const { return v_.at(i); }
  size_t size() const { return v_.size(); }
  bool empty() const { return v_.empty(); }
  const int64_t* data() const { return v_.data(); }
  auto begin() const { return v_.begin(); }
  auto end() const { return v_.end(); }
  std::vector<int64_t> vec() const { return v_; }
  bool operator==(const IntArrayRef& o) const { return v_ == o.v_; }
  bool operator!=(const IntArrayRef& o) const { return v_ != o.v_; }

 private:
  std::vector<int64_t> v_;
};
template <class T> class SeveralRef {
 public:
  SeveralRef(std::initializer_list<T> v) : v_(v) {}
  SeveralRef(std::vector<T> v) : v_(std::move(v)) {}
  const T& operator[](size_t i) const { return v_.at(i); }
  const T& at(size_t i) const { return v_.at(i); }
  const T& front() const { return v_.at(0); }
  const T& back() const { return v_.at(v_.size() - 1); }
  size_t size() const { return v_.size(); }
  bool empty() const { return v_.empty(); }
  const T* data() const { return v_.data(); }
  auto begin() const { return v_.begin(); }
  auto end() const { return v_.end(); }
  std::vector<T> vec() const { return v_; }

 private:
  std::vector<T> v_;
};
template <class T> using ArrayRef = std::conditional_t<std::is_integral_v<T>, IntArrayRef, SeveralRef<T>>;
template <class T> using optional = std::optional<T>;
using std::nullopt;

struct TensorOptions {
  ScalarType kind = ScalarType::Float;
  DeviceType where = DeviceType::CPU;  // torch's default, on a machine with a GPU, too
  bool typed = false, placed = false;  // said, not by default
  TensorOptions() = default;
  TensorOptions(ScalarType t) : kind(t), typed(true) {}
  TensorOptions(Device d) : where(d.kind), placed(true) {}
  TensorOptions(DeviceType d) : where(d), placed(true) {}
  TensorOptions dtype(ScalarType t) const {
    TensorOptions o = *this;
    o.kind = t, o.typed = true;
    return o;
  }
  ScalarType dtype() const { return kind; }
  TensorOptions device(Device d) const {
    TensorOptions o = *this;
    o.where = d.kind, o.placed = true;
    return o;
  }
  TensorOptions device(DeviceType d, int = 0) const { return device(Device(d)); }
  /// These, with what `others` say.
  TensorOptions with(const TensorOptions& others) const {
    TensorOptions o = *this;
    if (others.typed) o = o.dtype(others.kind);
    if (others.placed) o = o.device(Device(others.where));
    return o;
  }
  Device device() const { return where; }
  template <class L> TensorOptions layout(L) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
};

/// What a host function allocates: memory that nobody has written, between words that no kernel may change.
class Storage {
 public:
  /// own: of the processor, on a machine whose tensors lie on a device.
  explicit Storage(size_t bytes, bool own = false)
      : bytes_(bytes), own_(own), base_(static_cast<char*>(own ? std::malloc(bytes + 2 * kGuard) : septran_tensors::device_memory(bytes + 2 * kGuard))) {
    // what memory holds before anybody writes it differs from call to call
    for (char* guard : {base_, base_ + kGuard + bytes_}) std::memset(guard, 0xFF, kGuard);
  }
  ~Storage() {
    for (size_t i = 0; i < kGuard; i++)
      if (base_[i] != '\xFF' || base_[kGuard + bytes_ + i] != '\xFF')
        septran_tensors::fail("bounds", "a store %s a tensor of %zu bytes that the host function allocated",
                    base_[i] != '\xFF' ? "before" : "past the end of", bytes_);
    if (own_) std::free(base_);
    else septran_tensors::free_device_memory(base_);
  }
  Storage(const Storage&) = delete;
  char* data() const { return base_ + kGuard; }

 private:
  static constexpr size_t kGuard = 1024;
  size_t bytes_;
  bool own_;
  char* base_;
};
}  // namespace c10

namespace at {
using namespace c10;
class Tensor;
using TensorList = ArrayRef<Tensor>;

template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };
template <class T> struct DefaultPtrTraits { using PtrType = T*; };

/// What device code gets of `packed_accessor`, and the processor's of `accessor`: indexed dimension by dimension, each index inside its size.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> class PackedTensorAccessor {
 public:
  PackedTensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < N; i++) sizes_[i] = sizes[i], strides_[i] = strides[i];
  }
  decltype(auto) operator[](Index i) const {
    if (i < 0 || i >= sizes_[0])
      septran_tensors::fail("bounds", "index %ld of an accessor whose dimension has %ld", static_cast<long>(i), static_cast<long>(sizes_[0]));
    if constexpr (N == 1) return (data_[i * strides_[0]]);
    else return PackedTensorAccessor<T, N - 1, Traits, Index>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  Index size(int i) const { return sizes_[i]; }
  Index stride(int i) const { return strides_[i]; }
  T* data() const { return data_; }

 private:
  T* data_;
  int64_t sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, Traits, int64_t>;
/// What code of the processor gets of `accessor`.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using TensorAccessor = PackedTensorAccessor<T, N, Traits, Index>;

class Tensor {
 public:
  Tensor() = default;
  Tensor(char* data, ScalarType kind, std::vector<int64_t> sizes, std::shared_ptr<Storage> held = nullptr, DeviceType where = Device::kHere)
      : data_(data), kind_(kind), where_(where), sizes_(std::move(sizes)), held_(std::move(held)) {
    strides_ = dense(sizes_);
  }
  /// The same memory with other strides, in elements.
  Tensor strided(std::vector<int64_t> strides) const {
    Tensor t = *this;
    t.strides_ = std::move(strides);
    return t;
  }

  // ---- facts
  bool defined() const { return data_ != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t i) const { return sizes_[at(i)]; }
  int64_t stride(int64_t i) const { return strides_[at(i)]; }
  IntArrayRef sizes() const { return sizes_; }
  IntArrayRef strides() const { return strides_; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes_) n *= s;
    return n;
  }
  size_t element_size() const { return elementSize(kind_); }
  size_t itemsize() const { return elementSize(kind_); }
  size_t nbytes() const { return numel() * elementSize(kind_); }
  ScalarType scalar_type() const { return kind_; }
  ScalarType dtype() const { return kind_; }
  ScalarType type() const { return kind_; }
  Device device() const { return where_; }
  int get_device() const { return 0; }
  bool is_cuda() const { return where_ == DeviceType::CUDA; }
  bool is_cpu() const { return where_ == DeviceType::CPU; }
  bool requires_grad() const { return false; }
  bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const {
    int64_t wanted = 1;
    for (size_t i = sizes_.size(); i-- > 0; wanted *= sizes_[i])
      if (sizes_[i] != 1 && strides_[i] != wanted) return false;
    return true;
  }
  bool is_floating_point() const { return kind_ <= ScalarType::BFloat16; }
  TensorOptions options() const { return TensorOptions(kind_).device(where_); }

  // ---- addresses
  template <class T> T* data_ptr() const {
    if (CppTypeToScalarType<std::remove_const_t<T>>::value != kind_)
      septran_tensors::fail("check", "expected scalar type %s but found %s", toString(CppTypeToScalarType<std::remove_const_t<T>>::value), toString(kind_));
    return reinterpret_cast<T*>(data_);
  }
  template <class T> T* data() const { return data_ptr<T>(); }
  template <class T> const T* const_data_ptr() const { return data_ptr<const T>(); }
  template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
  void* data_ptr() const { return data_; }
  void* mutable_data_ptr() const { return data_; }
  const void* const_data_ptr() const { return data_; }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> auto packed_accessor32() const
    requires(septran_tensors::kOnDevice) {
    return accessed<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> auto packed_accessor64() const
    requires(septran_tensors::kOnDevice) {
    return accessed<T, N, Traits, int64_t>();
  }
  template <class T, size_t N> auto accessor() const
    requires(!septran_tensors::kOnDevice) {
    return accessed<T, N, DefaultPtrTraits, int64_t>();
  }

  // ---- views
  Tensor view(IntArrayRef sizes) const {
    if (!is_contiguous()) septran_tensors::fail("check", "view of a tensor that is not contiguous; reshape copies it");
    return shaped(sizes.vec());
  }
  Tensor reshape(IntArrayRef sizes) const { return contiguous().shaped(sizes.vec()); }
  Tensor view_as(const Tensor& o) const { return view(o.sizes()); }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const {
    std::vector<int64_t> to(sizes_.begin(), sizes_.begin() + at(first));
    int64_t n = 1;
    for (size_t i = at(first); i <= at(last); i++) n *= sizes_[i];
    to.push_back(n);
    to.insert(to.end(), sizes_.begin() + at(last) + 1, sizes_.end());
    return reshape(to);
  }
  Tensor transpose(int64_t a, int64_t b) const {
    Tensor t = *this;
    std::swap(t.sizes_[at(a)], t.sizes_[at(b)]);
    std::swap(t.strides_[at(a)], t.strides_[at(b)]);
    return t;
  }
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor permute(IntArrayRef order) const {
    Tensor t = *this;
    for (size_t i = 0; i < order.size(); i++) t.sizes_[i] = sizes_[at(order[i])], t.strides_[i] = strides_[at(order[i])];
    return t;
  }
  Tensor unsqueeze(int64_t where) const {
    Tensor t = *this;
    size_t i = where < 0 ? where + dim() + 1 : where;
    t.strides_.insert(t.strides_.begin() + i, i < sizes_.size() ? strides_[i] * sizes_[i] : 1);
    t.sizes_.insert(t.sizes_.begin() + i, 1);
    return t;
  }
  Tensor squeeze(int64_t where) const {
    Tensor t = *this;
    if (sizes_[at(where)] != 1) return t;
    t.sizes_.erase(t.sizes_.begin() + at(where));
    t.strides_.erase(t.strides_.begin() + at(where));
    return t;
  }
  Tensor detach() const { return *this; }
  template <bool Here = septran_tensors::kOnDevice> Tensor cuda() const requires Here { return to(DeviceType::CUDA); }
  template <bool Here = septran_tensors::kOnDevice> Tensor cpu() const requires(!Here) { return *this; }

  // ---- allocation like this one's, and copies
  Tensor new_empty(IntArrayRef sizes, TensorOptions o = {}) const;
  Tensor new_zeros(IntArrayRef sizes, TensorOptions o = {}) const;
  Tensor new_ones(IntArrayRef sizes, TensorOptions o = {}) const;
  Tensor new_full(IntArrayRef sizes, double value, TensorOptions o = {}) const;
  Tensor clone() const;
  Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const { return is_contiguous() ? *this : clone(); }
  /// Onto a device; from a device nothing comes back, which is what results are for.
  Tensor to(Device d, bool = false, bool = false) const;
  Tensor to(DeviceType d, bool = false, bool = false) const { return to(Device(d)); }
  Tensor to(ScalarType t, bool = false, bool = false) const;
  Tensor to(Device d, ScalarType t, bool = false, bool = false) const { return to(d).to(t); }
  Tensor to(TensorOptions o, bool = false, bool = false) const {
    const TensorOptions all = options().with(o);
    return to(Device(all.where)).to(all.kind);
  }
  Tensor& zero_() { return fill_(0); }
  Tensor& fill_(double v);
  Tensor& copy_(const Tensor& from) {
    if (from.kind_ != kind_ || from.sizes_ != sizes_) septran_tensors::fail("check", "copy_ of another size or dtype");
    each([&](char* to, char* other) { memcpy(to, other, element_size()); }, &from);
    return *this;
  }

 private:
  static std::vector<int64_t> dense(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> found(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) found[i - 1] = found[i] * std::max<int64_t>(sizes[i], 1);
    return found;
  }
  size_t at(int64_t i) const {
    if (i < -dim() || i >= dim()) septran_tensors::fail("check", "dimension %ld of a tensor that has %ld", static_cast<long>(i), static_cast<long>(dim()));
    return i < 0 ? i + dim() : i;
  }
  Tensor shaped(std::vector<int64_t> to) const {
    int64_t known = 1;
    for (int64_t s : to) known *= s < 0 ? 1 : s;
    for (int64_t& s : to)
      if (s < 0) s = numel() / std::max<int64_t>(known, 1), known *= s;
    if (known != numel()) septran_tensors::fail("check", "a shape of %ld elements for a tensor of %ld", static_cast<long>(known), static_cast<long>(numel()));
    return Tensor(data_, kind_, std::move(to), held_, where_);
  }
  template <class T, size_t N, template <class> class Traits, class Index> auto accessed() const {
    if (dim() != N) septran_tensors::fail("check", "an accessor of %zu dimensions for a tensor of %ld", N, static_cast<long>(dim()));
    return PackedTensorAccessor<T, N, Traits, Index>(data_ptr<T>(), sizes_.data(), strides_.data());
  }
  template <class F> void each(F act, const Tensor* other) const {
    for (int64_t n = 0; n < numel(); n++) {
      int64_t rest = n, mine = 0, theirs = 0;
      for (size_t i = sizes_.size(); i-- > 0; rest /= sizes_[i]) {
        mine += rest % sizes_[i] * strides_[i];
        if (other) theirs += rest % sizes_[i] * other->strides_[i];
      }
      act(data_ + mine * element_size(), other ? other->data_ + theirs * other->element_size() : nullptr);
    }
  }

  char* data_ = nullptr;
  ScalarType kind_ = ScalarType::Float;
  DeviceType where_ = Device::kHere;
  std::vector<int64_t> sizes_, strides_;
  std::shared_ptr<Storage> held_;
};

// ---- allocation
inline Tensor empty(IntArrayRef sizes, TensorOptions options = {}) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  if (n < 0) septran_tensors::fail("check", "a tensor of a negative size");
  const DeviceType where = septran_tensors::kOnDevice ? options.where : DeviceType::CPU;
  auto held = std::make_shared<Storage>(n * elementSize(options.kind), where != Device::kHere);
  return Tensor(held->data(), options.kind, sizes.vec(), held, where);
}
inline Tensor full(IntArrayRef sizes, double value, TensorOptions options = {}) {
  Tensor t = empty(sizes, options);
  return t.fill_(value);
}
inline Tensor zeros(IntArrayRef sizes, TensorOptions options = {}) { return full(sizes, 0, options); }
inline Tensor ones(IntArrayRef sizes, TensorOptions options = {}) { return full(sizes, 1, options); }
inline Tensor empty_like(const Tensor& t) { return empty(t.sizes(), t.options()); }
inline Tensor empty_like(const Tensor& t, TensorOptions options) { return empty(t.sizes(), t.options().with(options)); }
inline Tensor zeros_like(const Tensor& t) { return zeros(t.sizes(), t.options()); }
inline Tensor zeros_like(const Tensor& t, TensorOptions options) { return zeros(t.sizes(), t.options().with(options)); }
inline Tensor ones_like(const Tensor& t, TensorOptions options = {}) { return ones(t.sizes(), t.options().with(options)); }
inline Tensor full_like(const Tensor& t, double value, TensorOptions options = {}) { return full(t.sizes(), value, t.options().with(options)); }
inline Tensor Tensor::new_empty(IntArrayRef sizes, TensorOptions o) const { return empty(sizes, options().with(o)); }
inline Tensor Tensor::new_zeros(IntArrayRef sizes, TensorOptions o) const { return zeros(sizes, options().with(o)); }
inline Tensor Tensor::new_ones(IntArrayRef sizes, TensorOptions o) const { return ones(sizes, options().with(o)); }
inline Tensor Tensor::new_full(IntArrayRef sizes, double value, TensorOptions o) const { return full(sizes, value, options().with(o)); }

inline Tensor& Tensor::fill_(double v) {
  auto put = [&](auto x) { each([&](char* to, char*) { memcpy(to, &x, sizeof x); }, nullptr); };
  switch (kind_) {
    case ScalarType::Float: put(static_cast<float>(v)); break;
    case ScalarType::Double: put(v); break;
    case ScalarType::Half: put(Half(static_cast<float>(v))); break;
    case ScalarType::BFloat16: put(BFloat16(static_cast<float>(v))); break;
    case ScalarType::Int: put(static_cast<int32_t>(v)); break;
    case ScalarType::Long: put(static_cast<int64_t>(v)); break;
    case ScalarType::Short: put(static_cast<int16_t>(v)); break;
    case ScalarType::Char: put(static_cast<int8_t>(v)); break;
    case ScalarType::Byte: put(static_cast<uint8_t>(v)); break;
    case ScalarType::Bool: put(v != 0); break;
  }
  return *this;
}
inline Tensor Tensor::clone() const {
  Tensor t = empty(sizes(), options());
  return t.copy_(*this);
}

inline Tensor Tensor::to(Device d, bool, bool) const {
  if (d.kind == where_) return *this;
  if (d.kind != Device::kHere) septran_tensors::fail("check", "a tensor is taken off its device: a kernel is what may look at it");
  Tensor t = empty(sizes(), options().device(d));
  return t.copy_(*this);
}
inline Tensor Tensor::to(ScalarType kind, bool, bool) const {
  if (kind == kind_) return *this;
  Tensor t = empty(sizes(), options().dtype(kind));
  const auto taken = [&](auto as) {
    using To = decltype(as);
    const auto from = [&](auto of) {
      using Of = decltype(of);
      t.each([](char* to, char* at) {
        Of x;
        memcpy(&x, at, sizeof x);
        To y;
        if constexpr (std::is_arithmetic_v<Of> && std::is_arithmetic_v<To>) y = static_cast<To>(x);
        else if constexpr (std::is_arithmetic_v<To>) y = static_cast<To>(static_cast<float>(x));
        else y = To(static_cast<float>(x));
        memcpy(to, &y, sizeof y);
      }, this);
    };
    switch (kind_) {
      case ScalarType::Float: return from(0.f);
      case ScalarType::Double: return from(0.);
      case ScalarType::Half: return from(Half(0.f));
      case ScalarType::BFloat16: return from(BFloat16(0.f));
      case ScalarType::Int: return from(int32_t{});
      case ScalarType::Long: return from(int64_t{});
      case ScalarType::Short: return from(int16_t{});
      case ScalarType::Char: return from(int8_t{});
      case ScalarType::Byte: return from(uint8_t{});
      case ScalarType::Bool: return from(bool{});
    }
  };
  switch (kind) {
    case ScalarType::Float: taken(0.f); break;
    case ScalarType::Double: taken(0.); break;
    case ScalarType::Half: taken(Half(0.f)); break;
    case ScalarType::BFloat16: taken(BFloat16(0.f)); break;
    case ScalarType::Int: taken(int32_t{}); break;
    case ScalarType::Long: taken(int64_t{}); break;
    case ScalarType::Short: taken(int16_t{}); break;
    case ScalarType::Char: taken(int8_t{}); break;
    case ScalarType::Byte: taken(uint8_t{}); break;
    case ScalarType::Bool: taken(bool{}); break;
  }
  return t;
}

inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions device(DeviceType d) { return TensorOptions(d); }

constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kDouble = ScalarType::Double,
                     kFloat64 = ScalarType::Double, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kBFloat16 = ScalarType::BFloat16, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                     kLong = ScalarType::Long, kInt64 = ScalarType::Long, kShort = ScalarType::Short,
                     kChar = ScalarType::Char, kInt8 = ScalarType::Char, kByte = ScalarType::Byte,
                     kUInt8 = ScalarType::Byte, kBool = ScalarType::Bool;
constexpr DeviceType kCUDA = DeviceType::CUDA, kCPU = DeviceType::CPU;
constexpr Layout kStrided = Layout::Strided;
}  // namespace at
