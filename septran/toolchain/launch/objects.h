// Calls of Python objects whose kernels are known: the interpreter comes here first, and such a call has no frame of Python.
//
// direct(cls): cls has a `__call__` in Python, and its objects have `_quick` and `_into`, tuples of callables, and `_outputs`, names. A call
// without keywords is offered to each of `_quick`; one whose keywords are the outputs, or `out` where there is one, to each of `_into`, outputs behind
// the other values: it returns what it was given for them.
// Where all say NotImplemented, and for every other call, `__call__` is run, which is also all that a tracer of Python code sees.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

PyObject *quick_name = nullptr, *into_name = nullptr, *outputs_name = nullptr, *out_name = nullptr;
ternaryfunc in_python = nullptr;  // how every class is called that has a `__call__` in Python

PyObject* offered(PyObject* self, PyObject* name, PyObject* const* values, Py_ssize_t n) {
    PyObject* const kernels = PyObject_GetAttr(self, name);
    if (!kernels) return nullptr;
    PyObject* found = Py_NotImplemented;
    Py_INCREF(found);
    for (Py_ssize_t i = 0; PyTuple_Check(kernels) && i < PyTuple_GET_SIZE(kernels) && found == Py_NotImplemented; ++i) {
        Py_DECREF(found);
        found = PyObject_Vectorcall(PyTuple_GET_ITEM(kernels, i), values, size_t(n), nullptr);
    }
    Py_DECREF(kernels);
    return found;
}

// The values of a call whose keywords are the object's outputs; 0: it is another call, -1: an error.
Py_ssize_t with_outputs(PyObject* self, PyObject* args, PyObject* kwargs, PyObject** values, Py_ssize_t most) {
    PyObject* const names = PyObject_GetAttr(self, outputs_name);
    if (!names) return -1;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    const Py_ssize_t outputs = PyTuple_Check(names) ? PyTuple_GET_SIZE(names) : -1;
    bool good = outputs == PyDict_GET_SIZE(kwargs) && n + outputs <= most;
    for (Py_ssize_t i = 0; good && i < n; ++i) values[i] = PyTuple_GET_ITEM(args, i);
    for (Py_ssize_t i = 0; good && i < outputs; ++i) {
        values[n] = PyDict_GetItemWithError(kwargs, PyTuple_GET_ITEM(names, i));
        if (!values[n] && outputs == 1 && !PyErr_Occurred()) values[n] = PyDict_GetItemWithError(kwargs, out_name);
        good = values[n++] != nullptr;
    }
    Py_DECREF(names);
    return PyErr_Occurred() ? -1 : good ? n : 0;
}

PyObject* call_object(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* values[64];
    PyObject* found = Py_NotImplemented;
    if (!kwargs || !PyDict_GET_SIZE(kwargs)) {
        found = offered(self, quick_name, reinterpret_cast<PyTupleObject*>(args)->ob_item, PyTuple_GET_SIZE(args));
    } else {
        const Py_ssize_t n = with_outputs(self, args, kwargs, values, 64);
        if (n < 0) return nullptr;
        if (!n) return in_python(self, args, kwargs);
        found = offered(self, into_name, values, n);
        if (found == Py_None) {
            const Py_ssize_t outputs = PyDict_GET_SIZE(kwargs);
            PyObject* const given = outputs == 1 ? values[n - 1] : PyTuple_New(outputs);
            if (outputs == 1) Py_INCREF(given);
            for (Py_ssize_t i = 0; given && outputs > 1 && i < outputs; ++i) {
                Py_INCREF(values[n - outputs + i]);
                PyTuple_SET_ITEM(given, i, values[n - outputs + i]);
            }
            Py_DECREF(found);
            return given;
        }
    }
    if (found != Py_NotImplemented) return found;
    Py_DECREF(found);
    return in_python(self, args, kwargs);
}

bool names_ready() {
    if (in_python) return true;
    PyObject* const type = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){sO}", "Called", "__call__", &PyLong_Type);
    if (!type) return false;
    quick_name = PyUnicode_InternFromString("_quick");
    into_name = PyUnicode_InternFromString("_into");
    outputs_name = PyUnicode_InternFromString("_outputs");
    out_name = PyUnicode_InternFromString("out");
    if (quick_name && into_name && outputs_name && out_name) in_python = reinterpret_cast<PyTypeObject*>(type)->tp_call;
    Py_DECREF(type);
    return in_python;
}

PyObject* direct_calls(PyObject*, PyObject* object) {
    if (!names_ready()) return nullptr;
    PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(object);
    if (PyType_Check(object) && type->tp_call == call_object) Py_RETURN_NONE;
    if (!PyType_Check(object) || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || type->tp_call != in_python)
        return PyErr_SetString(PyExc_TypeError, "not a class that has a __call__ in Python"), nullptr;
    type->tp_call = call_object;
    PyType_Modified(type);
    Py_RETURN_NONE;
}

}  // namespace
