// Memory that belongs to the caller, handed out piece by piece.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hardmax {

// Hands out pieces of one block, each on a boundary of 64 bytes. Without a block it only adds up,
// so that the same code that lays an object out says how much room it needs.
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

// An object at the start of a block, and its arrays after it, as its `lay_out` asks for them: how much
// room that takes, and where it then is.
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
