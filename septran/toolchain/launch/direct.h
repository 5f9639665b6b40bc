// What torch's own libraries export, for what the DLPack exchange API does not tell or makes slow: negative views, gradients, new tensors.
//
// Nothing here is taken on trust: a tensor's handle has to follow its Python object's header, and each function has to answer rightly
// on a tensor of its own, when the extension is loaded. Where one is missing or answers otherwise, `ready` stays false and the
// caller asks through Python. The C functions are those of torch/csrc/inductor/aoti_torch/c/shim.h.
#pragma once

#include <Python.h>
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>

namespace {

struct Direct {
    bool ready = false;
    bool (*requires_grad)(const void* impl) = nullptr;
    bool (*is_neg)(const void* handle) = nullptr;
    bool (*grad_enabled)() = nullptr;
    int64_t (*modes)() = nullptr;

    static const void* handle(PyObject* x) { return reinterpret_cast<const char*>(x) + sizeof(PyObject); }
    static const void* impl(PyObject* x) { return *static_cast<const void* const*>(handle(x)); }

    // Whether a tensor can be read without its own say: no transform of torch.func was ever begun in this thread.
    bool readable() const { return ready && !*transforms_(); }

    // The address of a strided CPU tensor of this type and rank, with its sizes and strides; null for any other.
    void* memory(PyObject* x, int32_t dtype, int ndim, int64_t** shape, int64_t** strides) const {
        const void* const tensor = handle(x);
        int32_t layout, device, type;
        int64_t dims;
        void* at = nullptr;
        if (layout_(tensor, &layout) || layout || device_(tensor, &device) || device || type_(tensor, &type) || type != dtype) return nullptr;
        if (dim_(tensor, &dims) || dims != ndim || sizes_(tensor, shape) || strides_(tensor, strides)) return nullptr;
        return data_(tensor, &at) ? nullptr : at;
    }

    // A new tensor and the address of its memory; null, and no error set, when torch refuses.
    PyObject* made(const int64_t* shape, const int64_t* strides, int ndim, int32_t dtype, void** at) const {
        void* tensor = nullptr;
        if (empty_(ndim, shape, strides, dtype, 0, 0, &tensor)) return nullptr;
        PyObject* const result = data_(tensor, at) ? nullptr : wrap_(tensor);
        delete_(tensor);
        if (!result) PyErr_Clear();
        return result;
    }

    // torch's number of a DLPack type, -1 where there is none.
    int32_t dtype(int code, int bits) const {
        static const char* const names[] = {"int", "uint", "float", nullptr, "bfloat", nullptr, "bool"};
        if (!libtorch_ || code < 0 || code > 6 || !names[code]) return -1;
        char symbol[64];
        if (code == 6) std::snprintf(symbol, sizeof symbol, "aoti_torch_dtype_bool");
        else std::snprintf(symbol, sizeof symbol, "aoti_torch_dtype_%s%d", names[code], bits);
        int32_t (*number)();
        return found(libtorch_, symbol, &number) ? number() : -1;
    }

    // Looks for the functions and tries them; false: an error of Python.
    bool find(PyObject* torch) {
#ifdef ST_ASK_PYTHON
        return true;
#endif
        libtorch_ = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
        void* const core = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
        void* const python = dlopen("libtorch_python.so", RTLD_NOW | RTLD_NOLOAD);
        const bool here = libtorch_ && core && python && found(libtorch_, "aoti_torch_empty_strided", &empty_) &&
                          found(libtorch_, "aoti_torch_get_data_ptr", &data_) && found(libtorch_, "aoti_torch_delete_tensor_object", &delete_) &&
                          found(libtorch_, "aoti_torch_grad_mode_is_enabled", &grad_enabled) &&
                          found(libtorch_, "_ZN2at6native6is_negERKNS_6TensorE", &is_neg) &&
                          found(core, "_ZNK3c1010TensorImpl13requires_gradEv", &requires_grad) &&
                          found(core, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", &modes) &&
                          found(libtorch_, "aoti_torch_get_layout", &layout_) && found(libtorch_, "aoti_torch_get_device_type", &device_) &&
                          found(libtorch_, "aoti_torch_get_dtype", &type_) && found(libtorch_, "aoti_torch_get_dim", &dim_) &&
                          found(libtorch_, "aoti_torch_get_sizes", &sizes_) && found(libtorch_, "aoti_torch_get_strides", &strides_) &&
                          found(libtorch_, "_ZN2at9functorch20functorchTLSAccessorEv", &transforms_) &&
                          found(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", &wrap_);
        if (!here) return true;
        PyObject* const plain = PyObject_CallMethod(torch, "ones", "i", 1);
        PyObject* const negative = plain ? PyObject_CallMethod(torch, "_neg_view", "O", plain) : nullptr;
        PyObject* const wanted = negative ? PyObject_CallMethod(plain, "clone", nullptr) : nullptr;
        PyObject* const same = wanted ? PyObject_CallMethod(wanted, "requires_grad_", nullptr) : nullptr;
        ready = same && tensor(plain) && tensor(negative) && tensor(wanted) && address(plain) && !requires_grad(impl(plain)) &&
                requires_grad(impl(wanted)) && !is_neg(handle(plain)) && is_neg(handle(negative)) && makes(plain);
        Py_XDECREF(plain), Py_XDECREF(negative), Py_XDECREF(wanted), Py_XDECREF(same);
        return !PyErr_Occurred();
    }

  private:
    void* libtorch_ = nullptr;
    int (*empty_)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**) = nullptr;
    int (*data_)(const void*, void**) = nullptr;
    int (*delete_)(void*) = nullptr;
    PyObject* (*wrap_)(const void*) = nullptr;
    int (*layout_)(const void*, int32_t*) = nullptr;
    int (*device_)(const void*, int32_t*) = nullptr;
    int (*type_)(const void*, int32_t*) = nullptr;
    int (*dim_)(const void*, int64_t*) = nullptr;
    int (*sizes_)(const void*, int64_t**) = nullptr;
    int (*strides_)(const void*, int64_t**) = nullptr;
    void* const* (*transforms_)() = nullptr;

    template <class F>
    static bool found(void* library, const char* symbol, F* function) {
        *function = reinterpret_cast<F>(dlsym(library, symbol));
        return *function != nullptr;
    }

    // Whether the word behind the object's header is the tensor that torch says it holds.
    static bool tensor(PyObject* x) { return number(x, "_cdata") == impl(x); }

    bool address(PyObject* x) const {
        void* at = nullptr;
        PyObject* const said = PyObject_CallMethod(x, "data_ptr", nullptr);
        const void* const wanted = said ? PyLong_AsVoidPtr(said) : nullptr;
        Py_XDECREF(said);
        return wanted && !data_(handle(x), &at) && at == wanted;
    }

    bool makes(PyObject* like) const {
        const int64_t shape[] = {3}, strides[] = {1};
        void* at = nullptr;
        PyObject* const x = made(shape, strides, 1, dtype(2, 32), &at);
        const bool good = x && Py_TYPE(x) == Py_TYPE(like) && tensor(x) && address(x);
        Py_XDECREF(x);
        return good;
    }

    static const void* number(PyObject* x, const char* name) {
        PyObject* const value = PyObject_GetAttrString(x, name);
        const void* const found = value ? PyLong_AsVoidPtr(value) : nullptr;
        Py_XDECREF(value);
        return found;
    }
};

Direct direct;

}  // namespace
