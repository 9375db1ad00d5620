// Memory of the caller, allocated piece by piece.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hardmax {

// Allocates pieces of one block, each aligned to 64 bytes. Without a block, it only computes the
// total size, so that the same code that lays out an object also determines its size.
struct Arena {
    char* base = nullptr;
    std::size_t used = 0;

    template <class T>
    T* take(std::size_t n) {
        used = (used + 63) & ~std::size_t{63};
        T* piece = base ? reinterpret_cast<T*>(base + used) : nullptr;
        used += n * sizeof(T);
        return piece;
    }
};

// An object at the start of a block, followed by its arrays, as its `lay_out` requests them: the
// size of the object, and its construction.
template <class Object, class... Sizes>
std::size_t room_for(const Sizes&... sizes) {
    Object object;
    Arena arena;
    arena.take<Object>(1);
    lay_out(object, arena, sizes...);
    return arena.used;
}

template <class Object, class... Sizes>
Object& placed(void* memory, const Sizes&... sizes) {
    Arena arena{static_cast<char*>(memory)};
    Object& object = *arena.take<Object>(1);
    lay_out(object, arena, sizes...);
    return object;
}

}  // namespace hardmax
