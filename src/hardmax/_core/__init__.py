"""Python bindings of the compiled core: locate, build and load the library, and declare its API.

The core is C++ code behind a C interface (`core/include/hardmax/interface.h`), loaded with ctypes.
Hence the interpreter lock is released during a call, and one library serves all versions of Python.
The library is loaded at the first call of `library.core`.
"""
