#!/bin/sh
# Compile the search of the plane to WebAssembly with the compiler in the PyPI package `ziglang`.
# Called by make; it downloads nothing itself.
#
#   browser-engine.sh PYTHON OUTPUT     PYTHON has the package; OUTPUT is the module to write
#
# One thread, no imports, the same pinned arithmetic as CMakeLists.txt; exported is what the page
# calls (src/hardmax/explorer/page/engine.js and counting.js).
set -eu
core=$(cd "$(dirname "$0")" && pwd)
folder=$core/../build/browser
mkdir -p "$folder" "$(dirname "$2")"
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"

python=$1
compile() { "$python" -m ziglang c++ -target wasm32-wasi "$@"; }
for source in search neighbours; do
  compile -c -std=c++20 -O3 -msimd128 -DHM_PLANE_ONLY -fno-fast-math -ffp-contract=off -fno-math-errno \
    -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden \
    -I"$core/include" "$core/src/$source.cpp" -o "$folder/$source.o"
done
exports=
for name in network_size network_init search_begin search_stack_size search_set_stack \
  search_push search_run search_counts search_item search_signature search_versions \
  search_candidates search_replace search_set_vertices search_refresh \
  neighbours_size neighbours_gather neighbours_match neighbours_pairs; do
  exports="$exports -Wl,--export=hm_$name"
done
# shellcheck disable=SC2086
compile -mexec-model=reactor -nostdlib++ "$folder/search.o" "$folder/neighbours.o" \
  $exports -Wl,--export=__heap_base -Wl,--strip-all -o "$folder/engine.wasm"
mv "$folder/engine.wasm" "$2"
