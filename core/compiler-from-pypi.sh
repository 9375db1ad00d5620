#!/bin/sh
# Write shims c++, cc, ar and ranlib for the compiler in the PyPI package `ziglang`, for a machine
# that has no compiler of its own. Called by make; it downloads nothing itself.
#
#   compiler-from-pypi.sh PYTHON FOLDER [MACHINE]
#
# PYTHON has the package; FOLDER gets the shims and a cache; they compile for this machine, or on
# Linux for another one, as aarch64.
set -eu
zig=$("$1" -c 'import os, ziglang; print(os.path.join(os.path.dirname(os.path.abspath(ziglang.__file__)), "zig"))')
mkdir -p "$2"
folder=$(cd "$2" && pwd)

# Built for any processor of its kind and for the C library of every system since 2014, not for the
# machine at hand.
settings="-mcpu=baseline"
case $(uname -s) in Linux) settings="-target ${3:-$(uname -m)}-linux-gnu.2.17 $settings" ;; esac

for tool in c++ cc ar ranlib; do
  case $tool in c++) link=-nostdlib++ ;; *) link= ;; esac
  case $tool in
    c++ | cc) before="$settings" ;;
    *) before="" ;;
  esac
  cat > "$folder/$tool" <<SHIM
#!/bin/sh
# Written by core/compiler-from-pypi.sh.
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"
# Processors have other names there: a hyphen would mean "without". And where something is linked, the
# C++ library, which the core does not use, would be compiled first.
link=$link
left=\$#
while [ "\$left" -gt 0 ]; do
  argument=\$1
  shift
  left=\$((left - 1))
  case \$argument in
    -march=x86-64) set -- "\$@" -march=x86_64 ;;
    -march=x86-64-v3) set -- "\$@" -march=x86_64_v3 ;;
    -march=armv8-a) ;;
    -c | -S | -E | -M | -MM) link= && set -- "\$@" "\$argument" ;;
    *) set -- "\$@" "\$argument" ;;
  esac
done
exec "$zig" $tool $before \$link "\$@"
SHIM
  chmod +x "$folder/$tool"
done
