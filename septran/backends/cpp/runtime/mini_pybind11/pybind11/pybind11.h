// The part of pybind11's interface that generated kernels use, small enough to compile in a fraction
// of a second: def() of a callable whose arguments are handles and whose result is nothing.
// A kernel file compiles unchanged with the real pybind11.
#pragma once
#include <Python.h>

#include <array>
#include <exception>
#include <utility>

namespace pybind11 {

class handle {
  public:
    handle() = default;
    explicit handle(PyObject* p) : p_(p) {}
    PyObject* ptr() const { return p_; }

  private:
    PyObject* p_ = nullptr;
};

// The Python error indicator is set; thrown through C++ frames up to the call.
struct error_already_set : std::exception {};

class module_ {
  public:
    explicit module_(PyObject* p) : p_(p) {}

    template <class F> module_& def(const char* name, F f) {
        return define(name, f, &F::operator());
    }

  private:
    PyObject* p_;

    template <class F, class... A> module_& define(const char* name, F f, void (F::*)(A...) const) {
        static F function = f;  // one per callable type, hence one per def()
        static PyMethodDef method = {name, reinterpret_cast<PyCFunction>(&call<F, sizeof...(A)>), METH_FASTCALL, nullptr};
        stored<F>() = &function;
        PyModule_AddObject(p_, name, PyCFunction_New(&method, nullptr));
        return *this;
    }

    template <class F> static F*& stored() {
        static F* f = nullptr;
        return f;
    }

    template <class F, size_t N> static PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t count) {
        if (count != Py_ssize_t(N)) return PyErr_Format(PyExc_TypeError, "expected %d arguments, got %d", int(N), int(count));
        try {
            apply(*stored<F>(), args, std::make_index_sequence<N>{});
        } catch (const error_already_set&) {
            return nullptr;
        } catch (const std::exception& e) {
            PyErr_SetString(PyExc_RuntimeError, e.what());
            return nullptr;
        }
        Py_RETURN_NONE;
    }

    template <class F, size_t... I> static void apply(F& f, PyObject* const* args, std::index_sequence<I...>) {
        f(handle(args[I])...);
    }
};

}  // namespace pybind11

#define PYBIND11_NAME_(prefix, name) prefix##name
#define PYBIND11_NAME(prefix, name) PYBIND11_NAME_(prefix, name)
#define PYBIND11_TEXT_(name) #name
#define PYBIND11_TEXT(name) PYBIND11_TEXT_(name)
#define PYBIND11_MODULE(name, variable)                                                               \
    static void PYBIND11_NAME(fill_, name)(pybind11::module_&);                                         \
    extern "C" __attribute__((visibility("default"))) PyObject* PYBIND11_NAME(PyInit_, name)() {        \
        static PyModuleDef definition = {PyModuleDef_HEAD_INIT, PYBIND11_TEXT(name), nullptr, -1, nullptr, \
                                         nullptr, nullptr, nullptr, nullptr};                           \
        PyObject* const made = PyModule_Create(&definition);                                            \
        if (!made) return nullptr;                                                                      \
        pybind11::module_ variable(made);                                                               \
        PYBIND11_NAME(fill_, name)(variable);                                                           \
        return made;                                                                                    \
    }                                                                                                   \
    static void PYBIND11_NAME(fill_, name)(pybind11::module_& variable)
