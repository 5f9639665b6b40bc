// Calls of C kernels with torch CPU tensors: one extension per machine and Python, for any kernel.
//
// Launch(path, symbol, params, explain): params = ((DLPack type code, bits, shape, kind), ..) in the kernel's order, of kind 0 input, 1 output or
// 2 both, which is given with the inputs and never made; a tensor is read
// through the DLPack exchange API of its type (a table of C functions: no torch header, no copy, no Python call).
//   launch(t0, t1, ..)   all tensors in order, results in place
//   launch.fresh(t, ..)  the tensors that are no outputs, in order; returns new tensors, None where none is made; NotImplemented when one
//                        does not fit or asks for more than a plain call (gradient, negative view, a subclass), when what is
//                        read and written shares memory, or when torch watches (a dispatch mode, forward-mode derivatives)
//   launch.into(t, ..)   the same with the outputs given behind the inputs; returns None; NotImplemented, too, when an
//                        output shares memory with another tensor
//   launch.values(t, ..) as fresh, for a caller that records no gradients: what a tensor asks of them is not looked at
//   launch.shaped(shape) the same for tensors that all have `shape`, for a kernel of flat arrays
//   launch.lying(shapes) the same for tensors of these shapes, one for each in order, each of as many elements as the kernel's
//   Launch.direct(cls)   lets calls of objects of a class of Python go straight to their kernels (objects.h)
// Source of the API: DLPack 1.3, "DLPackExchangeAPI". What torch's libraries export besides (direct.h) saves more than half of a small call.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <dlfcn.h>
#include <cstdint>
#include <cstring>
#include <cstddef>

#include "direct.h"
#include "objects.h"

namespace {

struct Device { int32_t type, id; };
struct Dtype { uint8_t code, bits; uint16_t lanes; };
struct Tensor { void* data; Device device; int32_t ndim; Dtype dtype; int64_t *shape, *strides; uint64_t byte_offset; };
struct Managed {
    struct { uint32_t major, minor; } version;
    void* context;
    void (*deleter)(Managed*);
    uint64_t flags;
    Tensor tensor;
};
using Fail = void (*)(void*, const char* kind, const char* message);
struct Exchange {
    struct { uint32_t major, minor; const void* older; } header;
    int (*allocate)(Tensor* like, Managed** out, void* context, Fail);
    int (*managed)(void* object, Managed** out);
    int (*object)(Managed* tensor, void** out);
    int (*borrowed)(void* object, Tensor* out);
    int (*stream)(int32_t device, int32_t id, void** out);
};

const int MOST = 512, RANK = 8, CPU = 1;
const Exchange* exchange = nullptr;
PyTypeObject *tensor_type = nullptr, *parameter_type = nullptr;
PyObject *requires_grad = nullptr, *is_neg = nullptr, *grad_enabled = nullptr, *modes = nullptr, *forward_ad = nullptr, *level_name = nullptr;

struct Spec { Dtype dtype; int32_t ndim, torch_dtype; int64_t shape[RANK], strides[RANK], bytes; bool output, written; };
struct Launch {
    PyObject_HEAD
    vectorcallfunc call;
    void (*kernel)(void* const*);
    PyObject* explain;
    int count, outputs;
    Spec* params;  // its own
};

bool lies(const int64_t* shape, const int64_t* strides, const Spec& s) {
    for (int d = 0; d < s.ndim; ++d)
        if (shape[d] != s.shape[d] || (s.shape[d] != 1 && strides[d] != s.strides[d])) return false;
    return true;
}

bool fits(const Tensor& t, const Spec& s) {
    return t.device.type == CPU && t.ndim == s.ndim && !std::memcmp(&t.dtype, &s.dtype, sizeof t.dtype) && lies(t.shape, t.strides, s);
}

// The address of an argument, null (and no error set) when it does not fit.
void* address(PyObject* x, const Spec& s) {
    Tensor t;
    if (!PyObject_TypeCheck(x, tensor_type)) return nullptr;
    if (exchange->borrowed(x, &t)) {
        PyErr_Clear();
        return nullptr;
    }
    return fits(t, s) ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
}

PyObject* in_place(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
    const Launch* const l = reinterpret_cast<Launch*>(self);
    const Py_ssize_t n = PyVectorcall_NARGS(flags);
    void* at[MOST];
    bool good = n == l->count && !(names && PyTuple_GET_SIZE(names));
    for (Py_ssize_t i = 0; good && i < n; ++i) good = (at[i] = address(args[i], l->params[i])) != nullptr;
    if (!good) {
        PyObject* const error = PyObject_Vectorcall(l->explain, args, n, nullptr);
        if (error) {
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
            Py_DECREF(error);
        }
        return nullptr;
    }
    l->kernel(at);
    Py_RETURN_NONE;
}

// 1: torch's own tensor with nothing that a plain read of its memory would miss; 0: not; -1: an error.
// recorded: whether gradients count.
int plain(PyObject* x, bool recorded) {
    if (Py_TYPE(x) != tensor_type && Py_TYPE(x) != parameter_type) return 0;
    if (direct.ready)
        return !(recorded && direct.requires_grad(direct.impl(x)) && direct.grad_enabled()) && !direct.is_neg(direct.handle(x));
    PyObject* const grad = recorded ? PyObject_GetAttr(x, requires_grad) : Py_NewRef(Py_False);
    if (!grad) return -1;
    Py_DECREF(grad);
    if (grad != Py_False) {
        PyObject* const enabled = PyObject_CallNoArgs(grad_enabled);
        if (!enabled) return -1;
        Py_DECREF(enabled);
        if (enabled != Py_False) return 0;
    }
    PyObject* const negative = PyObject_CallMethodNoArgs(x, is_neg);
    if (!negative) return -1;
    Py_DECREF(negative);
    return negative == Py_False;
}

// 1: torch wants to see what is computed; 0: not; -1: an error.
int watched() {
    PyObject* const level = PyDict_GetItemWithError(forward_ad, level_name);
    if (level && PyLong_AsLong(level) >= 0) return 1;
    if (direct.ready) return direct.modes() > 0;
    PyObject* const depth = PyObject_CallNoArgs(modes);
    if (!depth) return -1;
    const long found = PyLong_AsLong(depth);
    Py_DECREF(depth);
    return found < 0 ? -1 : found > 0;
}

// made: whether outputs are new tensors, which lie nowhere else.
bool overlap(const Launch* l, void* const* at, bool made) {
    for (int i = 0; i < l->count; ++i) {
        if (!l->params[i].written || (made && l->params[i].output)) continue;
        const char* const a = static_cast<const char*>(at[i]);
        for (int j = 0; j < l->count; ++j) {
            const char* const b = static_cast<const char*>(at[j]);
            if (j != i && !(made && l->params[j].output) && a < b + l->params[j].bytes && b < a + l->params[i].bytes) return true;
        }
    }
    return false;
}

void failed(void*, const char*, const char* message) { PyErr_SetString(PyExc_RuntimeError, message); }

PyObject* made(const Spec& s, void** at) {
    if (direct.ready && s.torch_dtype >= 0)
        if (PyObject* const result = direct.made(s.shape, s.strides, s.ndim, s.torch_dtype, at)) return result;
    Tensor like{};
    like.device = {CPU, 0};
    like.ndim = s.ndim;
    like.dtype = s.dtype;
    like.shape = const_cast<int64_t*>(s.shape);
    like.strides = const_cast<int64_t*>(s.strides);
    Managed* tensor = nullptr;
    if (exchange->allocate(&like, &tensor, nullptr, failed)) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return nullptr;
    }
    *at = static_cast<char*>(tensor->tensor.data) + tensor->tensor.byte_offset;
    void* out = nullptr;
    if (exchange->object(tensor, &out)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the result is no tensor");
        return nullptr;
    }
    return static_cast<PyObject*>(out);
}

// Addresses of the tensors that are outputs, or of those that are not: 1 when all fit, 0 when one does not, -1: an error.
int addresses(const Launch* l, PyObject* const* args, bool output, void** at, bool recorded = true) {
    const bool quick = direct.readable();
    for (int i = 0; i < l->count; ++i) {
        if (l->params[i].output != output) continue;
        PyObject* const x = *args++;
        const int good = plain(x, recorded);
        if (good <= 0) return good;
        const Spec& s = l->params[i];
        if (quick && s.torch_dtype >= 0) {
            int64_t *shape, *strides;
            at[i] = direct.memory(x, s.torch_dtype, s.ndim, &shape, &strides);
            if (at[i] && !lies(shape, strides, s)) at[i] = nullptr;
        } else {
            at[i] = address(x, s);
        }
        if (!at[i]) return 0;
    }
    return 1;
}

PyObject* into(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    const Launch* const l = reinterpret_cast<Launch*>(self);
    void* at[MOST];
    if (n != l->count) Py_RETURN_NOTIMPLEMENTED;
    int good = 1 - watched();
    if (good == 1) good = addresses(l, args, false, at);
    if (good == 1) good = addresses(l, args + (l->count - l->outputs), true, at);
    if (PyErr_Occurred()) return nullptr;
    if (good != 1 || overlap(l, at, false)) Py_RETURN_NOTIMPLEMENTED;
    l->kernel(at);
    Py_RETURN_NONE;
}

PyObject* computed(PyObject* self, PyObject* const* args, Py_ssize_t n, bool recorded) {
    const Launch* const l = reinterpret_cast<Launch*>(self);
    void* at[MOST];
    PyObject* results[MOST];
    int done = 0;
    if (n != l->count - l->outputs) Py_RETURN_NOTIMPLEMENTED;
    int good = 1 - watched();
    if (good == 1) good = addresses(l, args, false, at, recorded);
    if (PyErr_Occurred()) return nullptr;
    if (good != 1 || overlap(l, at, true)) Py_RETURN_NOTIMPLEMENTED;
    for (int i = 0; i < l->count; ++i) {
        if (!l->params[i].output) continue;
        if (!(results[done] = made(l->params[i], &at[i]))) {
            while (done--) Py_DECREF(results[done]);
            return nullptr;
        }
        ++done;
    }
    l->kernel(at);
    if (done == 1) return results[0];
    if (!done) Py_RETURN_NONE;
    PyObject* const all = PyTuple_New(done);
    for (int i = 0; i < done; ++i)
        if (all) PyTuple_SET_ITEM(all, i, results[i]);
        else Py_DECREF(results[i]);
    return all;
}

PyObject* fresh(PyObject* self, PyObject* const* args, Py_ssize_t n) { return computed(self, args, n, true); }

PyObject* values(PyObject* self, PyObject* const* args, Py_ssize_t n) { return computed(self, args, n, false); }

void set_shape(Spec* s, const int64_t* shape, int ndim) {
    s->ndim = ndim;
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; --d) {
        s->shape[d] = shape[d];
        s->strides[d] = stride;
        stride *= shape[d];
    }
    s->bytes = stride * s->dtype.bits / 8;
}

bool read_shape(PyObject* from, int64_t* shape) {
    if (PyTuple_GET_SIZE(from) > RANK) return PyErr_SetString(PyExc_ValueError, "a tensor has too many dims"), false;
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(from); ++d) shape[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(from, d));
    return !PyErr_Occurred();
}

bool read_spec(PyObject* from, Spec* s) {
    int code, bits, kind;
    PyObject* shape;
    if (!PyArg_ParseTuple(from, "iiO!i", &code, &bits, &PyTuple_Type, &shape, &kind)) return false;
    s->dtype = {uint8_t(code), uint8_t(bits), 1};
    s->output = kind == 1;
    s->written = kind != 0;
    s->torch_dtype = direct.dtype(code, bits);
    int64_t sizes[RANK];
    if (!read_shape(shape, sizes)) return false;
    set_shape(s, sizes, int(PyTuple_GET_SIZE(shape)));
    return true;
}

Launch* blank(PyTypeObject* type, int count) {
    Launch* const l = PyObject_New(Launch, type);
    if (!l) return nullptr;
    l->explain = nullptr;
    l->count = count;
    l->outputs = 0;
    l->params = static_cast<Spec*>(PyMem_Calloc(count, sizeof(Spec)));
    if (!l->params) return Py_DECREF(l), PyErr_NoMemory(), nullptr;
    return l;
}

Launch* copied(PyObject* self) {
    const Launch* const from = reinterpret_cast<Launch*>(self);
    Launch* const l = blank(Py_TYPE(self), from->count);
    if (!l) return nullptr;
    l->call = from->call;
    l->kernel = from->kernel;
    l->explain = Py_NewRef(from->explain);
    l->outputs = from->outputs;
    std::memcpy(l->params, from->params, from->count * sizeof(Spec));
    return l;
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
    const char *path, *symbol;
    PyObject *params, *explain;
    if (!PyArg_ParseTuple(args, "ssO!O", &path, &symbol, &PyTuple_Type, &params, &explain)) return nullptr;
    const Py_ssize_t count = PyTuple_GET_SIZE(params);
    if (count > MOST) return PyErr_SetString(PyExc_ValueError, "too many tensors"), nullptr;
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void* const entry = library ? dlsym(library, symbol) : nullptr;
    if (!entry) return PyErr_SetString(PyExc_OSError, dlerror()), nullptr;
    Launch* const l = blank(type, int(count));
    if (!l) return nullptr;
    l->call = in_place;
    l->kernel = reinterpret_cast<void (*)(void* const*)>(entry);
    l->explain = Py_NewRef(explain);
    for (int i = 0; i < l->count; ++i) {
        if (!read_spec(PyTuple_GET_ITEM(params, i), &l->params[i])) return Py_DECREF(l), nullptr;
        l->outputs += l->params[i].output;
    }
    return reinterpret_cast<PyObject*>(l);
}

// The same kernel for tensors that all have one shape of as many elements.
PyObject* shaped(PyObject* self, PyObject* shape) {
    int64_t sizes[RANK];
    if (!PyTuple_Check(shape)) return PyErr_SetString(PyExc_TypeError, "a shape is a tuple"), nullptr;
    if (!read_shape(shape, sizes)) return nullptr;
    Launch* const l = copied(self);
    if (!l) return nullptr;
    for (int i = 0; i < l->count; ++i) set_shape(&l->params[i], sizes, int(PyTuple_GET_SIZE(shape)));
    return reinterpret_cast<PyObject*>(l);
}

// The same kernel for tensors of these shapes, in order: as many elements each, in rows.
PyObject* lying(PyObject* self, PyObject* shapes) {
    Launch* const l = PyTuple_Check(shapes) ? copied(self) : nullptr;
    if (!l) return PyErr_Occurred() ? nullptr : (PyErr_SetString(PyExc_TypeError, "shapes are a tuple"), nullptr);
    bool good = PyTuple_GET_SIZE(shapes) == l->count;
    for (int i = 0; good && i < l->count; ++i) {
        PyObject* const shape = PyTuple_GET_ITEM(shapes, i);
        const int64_t bytes = l->params[i].bytes;
        int64_t sizes[RANK];
        good = PyTuple_Check(shape) && read_shape(shape, sizes);
        if (good) set_shape(&l->params[i], sizes, int(PyTuple_GET_SIZE(shape)));
        good = good && l->params[i].bytes == bytes;
    }
    if (good) return reinterpret_cast<PyObject*>(l);
    Py_DECREF(l);
    return PyErr_Occurred() ? nullptr : (PyErr_SetString(PyExc_ValueError, "shapes of other sizes"), nullptr);
}

void destroy(PyObject* self) {  // the library stays mapped: a kernel's threads may outlive the object
    PyTypeObject* const type = Py_TYPE(self);
    Py_XDECREF(reinterpret_cast<Launch*>(self)->explain);
    PyMem_Free(reinterpret_cast<Launch*>(self)->params);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"fresh", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fresh)), METH_FASTCALL, nullptr},
    {"into", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(into)), METH_FASTCALL, nullptr},
    {"values", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(values)), METH_FASTCALL, nullptr},
    {"shaped", shaped, METH_O, nullptr},
    {"lying", lying, METH_O, nullptr},
    {"direct", direct_calls, METH_O | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, call), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec launch_spec = {"septran_launch.Launch", sizeof(Launch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "septran_launch", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

// ImportError where torch has no exchange API of this version: the caller has another way.
PyMODINIT_FUNC PyInit_septran_launch() {
    PyObject* const torch = PyImport_ImportModule("torch");
    PyObject* const type = torch ? PyObject_GetAttrString(torch, "Tensor") : nullptr;
    PyObject* const capsule = type ? PyObject_GetAttrString(type, "__dlpack_c_exchange_api__") : nullptr;
    exchange = capsule ? static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api")) : nullptr;
    if (!exchange || exchange->header.major != 1 || !exchange->borrowed || !exchange->allocate || !exchange->object) {
        PyErr_SetString(PyExc_ImportError, "torch has no DLPack exchange API of version 1");
        return nullptr;
    }
    tensor_type = reinterpret_cast<PyTypeObject*>(type);
    PyObject* const derivatives = PyImport_ImportModule("torch.autograd.forward_ad");
    PyObject* const core = PyObject_GetAttrString(torch, "_C");
    PyObject* const nn = PyObject_GetAttrString(torch, "nn");
    parameter_type = nn ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(nn, "Parameter")) : nullptr;
    grad_enabled = PyObject_GetAttrString(torch, "is_grad_enabled");
    modes = core ? PyObject_GetAttrString(core, "_len_torch_dispatch_stack") : nullptr;
    forward_ad = derivatives ? PyModule_GetDict(derivatives) : nullptr;
    if (!parameter_type || !grad_enabled || !modes || !forward_ad) return nullptr;
    if (!direct.find(torch)) return nullptr;
    requires_grad = PyUnicode_InternFromString("requires_grad");
    level_name = PyUnicode_InternFromString("_current_level");
    is_neg = PyUnicode_InternFromString("is_neg");
    PyObject* const module = PyModule_Create(&module_def);
    PyObject* const launch = PyType_FromSpec(&launch_spec);
    if (!module || !launch || PyModule_AddObject(module, "Launch", launch)) return nullptr;
    return module;
}
